"""Draws the pairs of a stage, in training order."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from training.config.run import CorpusConfig
from training.corpora.corpus import Corpus
from training.errors import CorpusError

ROUND_PAIRS = 1_000_000
MIXING, ORDERING = 0, 1  # part of a generator's seed, so that no two share a stream


def language_shares(counts: Mapping[str, int], exponent: float) -> dict[str, float]:
    """Return each language's probability: n ** exponent, normalised (temperature sampling; 1: by size, 0: uniform)."""
    weights = {language: count**exponent for language, count in counts.items()}
    total = sum(weights.values())
    return {language: weight / total for language, weight in weights.items()}


@dataclass(frozen=True)
class _Group:
    """The pairs of one source in one language, and how many of the plan are drawn from it."""

    code: int
    members: NDArray[np.int32]
    quota: int

    def draw(self, start: int, stop: int, *, seed: int) -> NDArray[np.int32]:
        """Return draws `start` to `stop` of this group, from one seeded permutation after another."""
        size = len(self.members)
        drawn = [self.members[:0]]
        for visit in range(start // size, -(-stop // size)):
            order = np.random.default_rng((seed, ORDERING, self.code, visit)).permutation(self.members)
            drawn.append(order[max(start - visit * size, 0) : stop - visit * size])
        return np.concatenate(drawn)


class SamplingPlan:
    """Pair indices in training order, in rounds of at most `ROUND_PAIRS`, deterministic by seed.

    A language's share is its temperature share; a source's share of its language is its weight times its size. With
    `equal_files` every source and language has the same. Within one source and language all pairs are drawn before any
    is drawn again. Each round has the same mix and is computed without earlier ones, so a killed run resumes at any
    round. Memory: 4 bytes a pair of the corpus, 12 more while the plan is made, 4 a pair of the largest group while a
    round is drawn.

    Args:
        pairs: to draw in all, repeats included.
        language_exponent: replaces the configuration's.
        sources: draw from these alone; None: all.
    Raises: CorpusError: the corpus has no pair of these sources.
    """

    def __init__(
        self,
        corpus: Corpus,
        config: CorpusConfig,
        pairs: int,
        *,
        seed: int,
        language_exponent: float | None = None,
        sources: list[str] | None = None,
    ) -> None:
        exponent = config.language_exponent if language_exponent is None else language_exponent
        members = _members(corpus, [name for name in config.sources if sources is None or name in sources])
        if not members:
            raise CorpusError(f"the corpus holds no pair of {', '.join(sources or config.sources)}")
        shares = np.ones(len(members)) if config.equal_files else _shares(corpus, config, members, exponent)
        quotas = _round_to_sum(shares, pairs)
        self._seed, self._pairs = seed, pairs
        self._groups = [
            _Group(code, group, quota) for (code, group), quota in zip(members.items(), quotas, strict=True)
        ]

    def __len__(self) -> int:
        return self._pairs

    @property
    def rounds(self) -> int:
        """Return the number of rounds; there is room to round each group's part up without exceeding the limit."""
        return max(1, -(-self._pairs // max(1, ROUND_PAIRS - len(self._groups))))

    def round(self, index: int) -> NDArray[np.int64]:
        """Return the pairs of one round, in order.

        Raises: IndexError: there is no such round.
        """
        if not 0 <= index < self.rounds:
            raise IndexError(f"round {index} of {self.rounds}")
        parts = [
            group.draw(group.quota * index // self.rounds, group.quota * (index + 1) // self.rounds, seed=self._seed)
            for group in self._groups
        ]
        drawn = np.concatenate(parts).astype(np.int64)
        np.random.default_rng((self._seed, MIXING, index)).shuffle(drawn)
        return drawn

    def all_rounds(self) -> NDArray[np.int64]:
        """Return all rounds, concatenated: (pairs,). For small plans."""
        return np.concatenate([self.round(index) for index in range(self.rounds)])


def _members(corpus: Corpus, sources: list[str]) -> dict[int, NDArray[np.int32]]:
    """Group the pairs by language and source; the key is language code x number of sources + source code."""
    codes = corpus.language_code.astype(np.int32) * len(corpus.sources) + corpus.source_code
    order = np.argsort(codes, kind="stable").astype(np.int32)
    counts = np.bincount(codes, minlength=len(corpus.languages) * len(corpus.sources))
    ends = np.cumsum(counts)
    return {
        code: order[ends[code] - counts[code] : ends[code]]
        for code in np.flatnonzero(counts).tolist()
        if corpus.sources[code % len(corpus.sources)] in sources
    }


def _shares(
    corpus: Corpus, config: CorpusConfig, members: dict[int, NDArray[np.int32]], exponent: float
) -> NDArray[np.float64]:
    """Return each group's share of the plan, (groups,)."""
    counts: dict[str, int] = defaultdict(int)
    weights: dict[str, float] = defaultdict(float)
    groups = []  # language, weight
    for code, group in members.items():
        language, source = corpus.languages[code // len(corpus.sources)], corpus.sources[code % len(corpus.sources)]
        weight = len(group) * config.sources[source].weight
        groups.append((language, weight))
        counts[language] += len(group)
        weights[language] += weight
    shares = language_shares(counts, exponent)
    return np.array([shares[language] * weight / weights[language] for language, weight in groups])


def _round_to_sum(shares: NDArray[np.float64], total: int) -> list[int]:
    """Split `total` by `shares` into whole numbers; the largest remainders are rounded up."""
    exact = shares * (total / shares.sum())
    quotas = np.floor(exact).astype(np.int64)
    short = total - int(quotas.sum())
    quotas[np.argsort(quotas - exact, kind="stable")[:short]] += 1
    return [int(quota) for quota in quotas]
