"""Which phrases stand for which, learnt from pairs whose words are aligned. Knows nothing about whole sentences.

Koehn, Och and Marcu 2003, "Statistical Phrase-Based Translation": a phrase is any run of words, and two stand for each
other where every link of the one's words leads into the other.
"""

from __future__ import annotations

import heapq
import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from training.corpora.alignment import Link

MAX_SOURCE_WORDS = 5
MAX_TARGET_WORDS = 6
CANDIDATES = 12  # of a source phrase
DISCOUNT = 0.5  # of a count: a phrase that was seen once is worth little
UNLINKED = 1e-4  # probability of a word beside a phrase that has none of its counterparts

Phrase = tuple[str, ...]
Span = tuple[int, int]  # first position, position after the last
Aligned = tuple[Sequence[str], Sequence[str], set[Link]]


@dataclass(frozen=True)
class Weights:
    """What a phrase's score is made of: the sum of all but the last, each times what it stands before."""

    phrase: float = 1.0  # log p(target | source) by how often the phrases stood for each other
    forth: float = 0.5  # log p(target word | source word), of each target word
    back: float = 1.0  # log p(source word | target word), of each source word
    word: float = 1.5  # the target's length, against the language model's liking for short sentences
    min_back: float = (
        0.03  # least p(source word | target word): lower, and a rare word stands for a frequent one by chance
    )


class PhraseTable:
    """The likeliest counterparts of source phrases, with a score.

    Args: wanted: the source phrases that will be asked for; no others are kept.
    """

    def __init__(self, aligned: Iterable[Aligned], wanted: set[Phrase], *, weights: Weights | None = None) -> None:
        self._weights = weights or Weights()
        self._links = Counter[tuple[str, str]]()
        counts: defaultdict[Phrase, Counter[Phrase]] = defaultdict(Counter)
        for source, target, links in aligned:
            self._links.update((source[i], target[j]) for i, j in links)
            for (first, last), (start, end) in phrase_pairs(links, len(source), len(target)):
                phrase = tuple(source[first:last])
                if phrase in wanted:
                    counts[phrase][tuple(target[start:end])] += 1
        self._of_source, self._of_target = Counter[str](), Counter[str]()
        for (word, other), count in self._links.items():
            self._of_source[word] += count
            self._of_target[other] += count
        self._found = {source: self._best(source, targets) for source, targets in counts.items()}

    def __getitem__(self, source: Phrase) -> list[tuple[float, Phrase]]:
        """Scores and target phrases, best first; empty: it was never seen."""
        return self._found.get(source, [])

    @property
    def links(self) -> Mapping[tuple[str, str], int]:
        """How often each source word was linked to each target word."""
        return self._links

    def words_by(self, key: Callable[[str], str]) -> dict[str, str]:
        """What the source words that are the same by `key` most often stand for."""
        counts = Counter[tuple[str, str]]()
        for (word, other), count in self._links.items():
            counts[key(word), other] += count
        found: dict[str, str] = {}
        for (word, other), count in counts.most_common():
            if count >= self._weights.min_back * self._of_target[other]:
                found.setdefault(word, other)
        return found

    def _best(self, source: Phrase, targets: Counter[Phrase]) -> list[tuple[float, Phrase]]:
        total = targets.total()
        scored = (
            (self._score(source, target, (count - DISCOUNT) / total), target) for target, count in targets.items()
        )
        return heapq.nlargest(CANDIDATES, (candidate for candidate in scored if candidate[0] > -math.inf))

    def _score(self, source: Phrase, target: Phrase, probability: float) -> float:
        """Minus infinity: one of the source's words has no counterpart in the target."""
        back = [max(self._given_target(word, other) for other in target) for word in source]
        if min(back) < self._weights.min_back:
            return -math.inf
        forth = [max(self._given_source(word, other) for word in source) for other in target]
        return (
            self._weights.phrase * math.log(probability)
            + self._weights.forth * sum(map(math.log, forth))
            + self._weights.back * sum(map(math.log, back))
            + self._weights.word * len(target)
        )

    def _given_source(self, word: str, other: str) -> float:
        return max(self._links[word, other] / max(self._of_source[word], 1), UNLINKED)

    def _given_target(self, word: str, other: str) -> float:
        return self._links[word, other] / max(self._of_target[other], 1)


def phrase_pairs(links: set[Link], source_words: int, target_words: int) -> Iterator[tuple[Span, Span]]:
    """Every two phrases of a pair that stand for each other; words without a link may be at their ends."""
    targets_of: defaultdict[int, list[int]] = defaultdict(list)
    sources_of: defaultdict[int, list[int]] = defaultdict(list)
    for i, j in links:
        targets_of[i].append(j)
        sources_of[j].append(i)
    for first in range(source_words):
        low, high = target_words, -1
        for last in range(first, min(source_words, first + MAX_SOURCE_WORDS)):
            low, high = min([low, *targets_of[last]]), max([high, *targets_of[last]])
            if high < 0 or high - low >= MAX_TARGET_WORDS:
                continue
            if any(not first <= i <= last for j in range(low, high + 1) for i in sources_of[j]):
                continue
            for start, end in _widened(low, high + 1, sources_of, target_words):
                yield (first, last + 1), (start, end)


def _widened(low: int, high: int, sources_of: defaultdict[int, list[int]], target_words: int) -> Iterator[Span]:
    """The span, and with the words beside it that have no link."""
    start = low
    while True:
        end = high
        while end - start <= MAX_TARGET_WORDS:
            yield start, end
            if end == target_words or sources_of[end]:
                break
            end += 1
        start -= 1
        if start < 0 or sources_of[start]:
            return


def phrases_of(words: Sequence[str]) -> Iterator[Phrase]:
    """All phrases of a source."""
    for start in range(len(words)):
        for end in range(start + 1, min(start + MAX_SOURCE_WORDS, len(words)) + 1):
            yield tuple(words[start:end])
