"""Marks what answers a query in the documents found: the words that matched, and the sentence that has most of them."""

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence

from service.documents.interface import Match, Passage
from service.documents.keywords.highlights import Word, words_in
from service.errors import InvalidInput
from service.model.passages import sentences

MAX_CHARS = 1_000_000  # of all texts of a request; they take about a second


def check_length(matches: Iterable[Match]) -> None:
    """Raises: InvalidInput: the texts to look in are too long together."""
    chars = sum(len(_place(match).text) for match in matches)
    if chars > MAX_CHARS:
        raise InvalidInput(
            f"highlights are looked for in {chars} characters; the limit is {MAX_CHARS}: send fewer queries, a smaller "
            "top_k, or put long documents again with chunk true: then only the best passage is looked at"
        )


def highlights(match: Match) -> list[dict[str, object]]:
    """Return the places in the document's text, in order; of a document in passages, those in the best one."""
    weights, place = match.words or {}, _place(match)
    words = words_in(place.text, weights)
    spans = [(*span, "word") for span in _joined(words)]
    if words:
        spans.append((*_best_sentence(place.text, words, weights), "sentence"))
    return [
        {"start": place.start + start, "end": place.start + end, "kind": kind} for start, end, kind in sorted(spans)
    ]


def _place(match: Match) -> Passage:
    return match.passage or Passage(match.document.text, 0, len(match.document.text))


def _joined(words: Sequence[Word]) -> list[tuple[int, int]]:
    """Return the places of words, those that overlap as one: codes and their parts, pairs of characters."""
    joined: list[tuple[int, int]] = []
    for start, stop, _ in words:
        if joined and start < joined[-1][1]:
            joined[-1] = joined[-1][0], max(joined[-1][1], stop)
        else:
            joined.append((start, stop))
    return joined


def _best_sentence(text: str, words: Sequence[Word], weights: Mapping[str, float]) -> tuple[int, int]:
    """Return the sentence with the words of most weight, each counted once; of equal ones the first."""
    spans = [*sentences(text)]
    starts = [start for start, _ in spans]
    terms: dict[int, set[str]] = {}
    for start, _, term in words:
        terms.setdefault(bisect_right(starts, start) - 1, set()).add(term)
    best = max(terms, key=lambda number: (sum(weights[term] for term in terms[number]), -number))
    start, stop = spans[best]
    return start, start + len(text[start:stop].rstrip())
