"""The likeliest ways to put a sequence together from phrases. Knows neither words nor letters.

From left to right, without reordering; of beginnings that end alike the best goes on (Koehn 2004, "Pharaoh").
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
    """Of a target: its score, what the model asks for of it, and the phrase that it ends with after another."""

    score: float
    last: Phrase
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
    *,
    model: LanguageModel,
    fluency: float,
    count: int = 1,
) -> list[Candidate]:
    """Up to `count` different targets, best first.

    Args: candidates: of a source phrase; a phrase of one word has at least one.
          fluency: weight of the model's log probability beside the candidates' scores.
          count: more than one is for short sources, whose beginnings are all told apart.
    """
    # reached[n]: the best beginnings that cover the first n words
    reached: list[dict[Phrase, _Beginning]] = [{} for _ in range(len(source) + 1)]
    reached[0][()] = _Beginning(0.0, model.start)
    for start in range(len(source)):
        best = heapq.nlargest(BEAM, reached[start].values(), key=lambda beginning: beginning.score)
        for end in range(start + 1, min(start + MAX_SOURCE_WORDS, len(source)) + 1):
            for score, phrase in candidates(tuple(source[start:end])):
                for before in best:
                    total, last = before.score + score, before.last
                    for word in (*phrase, END) if end == len(source) else phrase:
                        total += fluency * model.log_probability(last, word)
                        last = (*last[1:], word)
                    beginning = _Beginning(total, last, phrase, before)
                    alike = last if count == 1 else beginning.words()
                    other = reached[end].get(alike)
                    if other is None or total > other.score:
                        reached[end][alike] = beginning
    whole = heapq.nlargest(count, reached[-1].values(), key=lambda beginning: beginning.score)
    return [(beginning.score, beginning.words()) for beginning in whole]
