"""Marks what answers a query in the documents found: the words that matched, and the best sentence.

The best sentence is the nearest to the query's vector, raised by the words it has; by words alone, the one with most.
"""

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np
import numpy.typing as npt

from service.api.request import Embedder
from service.blending import raised
from service.documents.document import Span, Vectors
from service.documents.interface import Match, Matches, Passage, Query
from service.documents.keywords.highlights import Word, words_in
from service.documents.search import WORDS_IN_PASSAGE
from service.engine.fair_queue import EncodedBatch
from service.errors import InvalidInput
from service.model.passages import sentences
from service.runtime import Steps

MAX_CHARS = 1_000_000  # of all texts of a request
MAX_SENTENCES = 32  # of a request that are embedded: those of the first results, of each all or none
MAX_SENTENCE_CHARS = 1_000  # that are embedded of a sentence

Highlights = list[dict[str, object]]


@dataclass
class Marks:
    """What is marked in one document, at places in `text`. start: of `text` in the document's.

    share_S: of the weight of the words looked for, how much each sentence has.  best: the best sentence; None: none.
    """

    start: int
    text: str
    words: list[Span]
    sentences: list[Span]
    share_S: npt.NDArray[np.float64]
    best: Span | None

    @classmethod
    def of(cls, match: Match) -> "Marks":
        """Mark the words, and the sentence with the words of most weight; of equal ones the first."""
        weights, place = match.words or {}, _place(match)
        words, spans = words_in(place.text, weights), [*_sentences(place.text)]
        starts, terms = [start for start, _ in spans], [set[str]() for _ in spans]
        for start, _, term in words:
            terms[max(0, bisect_right(starts, start) - 1)].add(term)
        share_S = np.array([sum(map(weights.__getitem__, found)) for found in terms]) / (sum(weights.values()) or 1)
        best = spans[int(share_S.argmax())] if words else None
        return cls(place.start, place.text, _joined(words), spans, share_S, best)

    def as_json(self) -> Highlights:
        """Return the places in the document's text, in order."""
        places = [(*span, "word") for span in self.words] + ([(*self.best, "sentence")] if self.best else [])
        return [
            {"start": self.start + start, "end": self.start + end, "kind": kind} for start, end, kind in sorted(places)
        ]


async def highlighted(
    found: Sequence[Matches], queries: Sequence[Query], embedder: Embedder
) -> tuple[list[list[Highlights]], EncodedBatch | None]:
    """Return the highlights of each query's matches, and what embedding took; None: nothing was embedded.

    Raises: InvalidInput: the texts to look in are too long together.  What `Embedder.prepare` and `compute` do.
    """
    check_length(found)
    way_out = "send fewer queries, or a smaller top_k"
    marks = await embedder.prepare(_marked(found), what="finding the highlights", way_out=way_out)
    asked = [
        (query.vector_D, mark)
        for query, of_query in zip(queries, marks, strict=True)
        for mark in of_query
        if query.vector_D is not None
    ]
    batch = await _mark_nearest(asked, embedder)
    return [[mark.as_json() for mark in of_query] for of_query in marks], batch


def _marked(found: Sequence[Matches]) -> Steps[list[list[Marks]]]:
    marks: list[list[Marks]] = []
    for matches in found:
        marks.append([])
        for match in matches:
            marks[-1].append(Marks.of(match))
            yield
    return marks


async def _mark_nearest(asked: Sequence[tuple[Vectors, Marks]], embedder: Embedder) -> EncodedBatch | None:
    """Choose the sentences nearest to the queries, with their words, as passages are chosen."""
    room, texts = min(MAX_SENTENCES, embedder.runtime.settings.max_texts), list[str]()
    looked_at: list[tuple[Vectors, Marks]] = []
    for query_D, marks in asked:
        if len(marks.sentences) == 1:
            (marks.best,) = marks.sentences
        elif len(texts) + len(marks.sentences) <= room:
            texts += [marks.text[start:stop][:MAX_SENTENCE_CHARS] for start, stop in marks.sentences]
            looked_at.append((query_D, marks))
    if not texts:
        return None
    prompt, space = embedder.runtime.encoder.prompts.document, embedder.document_space
    batch = await embedder.compute(texts, place=lambda _: "a sentence", prompt=prompt, space=space)
    first = 0
    for query_D, marks in looked_at:
        stop = first + len(marks.sentences)
        if marks.sentences:
            cosine_S = np.asarray(batch.embeddings[first:stop] @ query_D, np.float64)
            marks.best = marks.sentences[int(raised(cosine_S, WORDS_IN_PASSAGE * marks.share_S).argmax())]
        first = stop
    return batch


def check_length(found: Sequence[Matches]) -> None:
    """Raises: InvalidInput: the texts to look in are too long together."""
    chars = sum(len(_place(match).text) for match in chain.from_iterable(found))
    if chars > MAX_CHARS:
        raise InvalidInput(
            f"highlights are looked for in {chars} characters; the limit is {MAX_CHARS}: send fewer queries, a smaller "
            "top_k, or put long documents again with chunk true: then only the best passage is looked at"
        )


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


def _sentences(text: str) -> Iterator[Span]:
    """Yield the places of sentences, without the spaces around them."""
    for start, stop in sentences(text):
        stripped = text[start:stop].strip()
        if stripped:
            start += text[start:stop].index(stripped)
            yield start, start + len(stripped)
