"""The likeliest ways to put a sequence together from phrases. Knows neither words nor letters.

From left to right, without reordering; beginnings that end alike are one, the best (Koehn 2004, "Pharaoh").
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from training.corpora.language_model import END, LanguageModel
from training.corpora.phrases import MAX_SOURCE_WORDS, Phrase

BEAM = 20  # beginnings that are gone on with

Candidate = tuple[float, Phrase]  # score, target phrase


@dataclass(frozen=True)
class _Beginning:
    """Of a target: its score, and the phrase that it ends with after another beginning."""

    score: float
    phrase: Phrase = ()
    before: _Beginning | None = None

    def words(self) -> Phrase:
        phrases, beginning = [self.phrase], self.before
        while beginning:
            phrases.append(beginning.phrase)
            beginning = beginning.before
        return tuple(word for phrase in reversed(phrases) for word in phrase)


def likeliest(
    source: Sequence[str],
    candidates: Callable[[Phrase], Sequence[Candidate]],
    model: LanguageModel,
    fluency: float,
    count: int = 1,
) -> list[Candidate]:
    """Up to `count` different targets, best first.

    Args: candidates: of a source phrase; a phrase of one word has at least one.
          fluency: weight of the model's log probability beside the candidates' scores.
    """
    # reached[n]: the best beginnings that cover the first n words, by what the model asks for of them
    reached: list[dict[Phrase, _Beginning]] = [{} for _ in range(len(source) + 1)]
    reached[0][model.start] = _Beginning(0.0)
    whole = [] if source else [_Beginning(0.0)]
    for start in range(len(source)):
        best = heapq.nlargest(BEAM, reached[start].items(), key=lambda item: item[1].score)
        for end in range(start + 1, min(start + MAX_SOURCE_WORDS, len(source)) + 1):
            for score, phrase in candidates(tuple(source[start:end])):
                for last, beginning in best:
                    total = beginning.score + score
                    for word in (*phrase, END) if end == len(source) else phrase:
                        total += fluency * model.log_probability(last, word)
                        last = (*last[1:], word)
                    other = reached[end].get(last)
                    if end == len(source):
                        whole.append(_Beginning(total, phrase, beginning))
                    elif other is None or total > other.score:
                        reached[end][last] = _Beginning(total, phrase, beginning)
    found: dict[Phrase, float] = {}
    for beginning in sorted(whole, key=lambda beginning: -beginning.score):
        if len(found) == count:
            break
        found.setdefault(beginning.words(), beginning.score)
    return [(score, phrase) for phrase, score in found.items()]
