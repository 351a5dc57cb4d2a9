"""Which words of a pair's two sides stand for each other. Knows numbers, not words.

By IBM Model 2 with a diagonal prior (Dyer, Chahuneau and Smith 2013, "A Simple, Fast, and Effective Reparameterization
of IBM Model 2"), run both ways, and joined as Koehn et al. (2005, IWSLT) do: grow-diag-final-and.

Shapes: O occurrences of target words; C cells: each occurrence beside each source word of its pair, and beside none;
E entries: the different pairs of words among the cells.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import digamma

ITERATIONS = 6  # of EM
TENSION = 1.0  # how strongly a word stands where its counterpart does: little, for languages with the verb at the end
NULL = 0  # the source word that stands for none
NULL_PRIOR = 0.08  # that a target word stands for none
CONCENTRATION = 0.01  # of the Dirichlet prior over a word's counterparts: few, so that rare words do not attract all
NEIGHBOURS = ((-1, 0), (0, -1), (1, 0), (0, 1), (-1, -1), (-1, 1), (1, -1), (1, 1))

Link = tuple[int, int]  # position in the source sentence, position in the target sentence
Words = NDArray[np.int64]


def align(source: Sequence[Words], target: Sequence[Words]) -> Iterator[set[Link]]:
    """The links of each pair.

    Args: source, target: the words of each pair's sides as numbers from 1 on; no side is empty.
    """
    if not source:
        return
    forth, back = likeliest_sources(source, target), likeliest_sources(target, source)
    for of_target, of_source in zip(forth, back, strict=True):
        yield grow_diag_final_and(
            {(int(i), j) for j, i in enumerate(of_target) if i >= 0},
            {(i, int(j)) for i, j in enumerate(of_source) if j >= 0},
        )


def likeliest_sources(source: Sequence[Words], target: Sequence[Words]) -> list[Words]:
    """For each target word of each pair the position of the source word that it stands for; -1: none."""
    with_null = [np.append(NULL, words) for words in source]
    pairs = list(zip(with_null, target, strict=True))
    width_O = np.repeat([len(words) for words in with_null], [len(words) for words in target])
    occurrence_C = np.repeat(np.arange(len(width_O), dtype=np.int32), width_O)
    source_C = np.concatenate([np.tile(words, len(row)) for words, row in pairs])
    target_C = np.repeat(np.concatenate(target), width_O)
    prior_C = np.concatenate([position_prior(len(words) - 1, len(row)).ravel() for words, row in pairs])
    vocabulary = int(target_C.max()) + 1
    entries, entry_C = np.unique(source_C * vocabulary + target_C, return_inverse=True)
    source_E = entries // vocabulary
    weight_E: NDArray[Any] = np.ones(len(entries))
    share_C: NDArray[Any] = prior_C
    for _ in range(ITERATIONS):
        share_C = weight_E[entry_C] * prior_C
        share_C /= np.bincount(occurrence_C, share_C)[occurrence_C]
        counts_E = np.bincount(entry_C, share_C)
        totals_E = np.bincount(source_E, counts_E)[source_E]
        weight_E = np.exp(digamma(counts_E + CONCENTRATION) - digamma(totals_E + CONCENTRATION * vocabulary))
    found, start = [], 0
    for words, row in pairs:
        end = start + len(words) * len(row)
        found.append(share_C[start:end].reshape(len(row), len(words)).argmax(axis=1) - 1)
        start = end
    return found


def position_prior(source_words: int, target_words: int) -> NDArray[np.float64]:
    """How likely a target word stands for each source position before the words are known.

    Eq. (1) of Dyer et al.: falls with the distance from the diagonal, as exp(-`TENSION` |i/m - j/n|).
    Returns: (target words, source words + 1), rows that add up to 1; the first column is `NULL`.
    """
    source_places = (np.arange(source_words) + 0.5) / source_words
    target_places = (np.arange(target_words)[:, None] + 0.5) / target_words
    prior = np.exp(-TENSION * np.abs(source_places - target_places))
    prior *= (1 - NULL_PRIOR) / prior.sum(axis=1, keepdims=True)
    return np.insert(prior, 0, NULL_PRIOR, axis=1)


def grow_diag_final_and(forth: set[Link], back: set[Link]) -> set[Link]:
    """What both directions say, their neighbours that one says, then those of words that are still alone."""
    links, either = forth & back, forth | back
    sources, targets = {i for i, _ in links}, {j for _, j in links}

    def add(link: Link) -> None:
        links.add(link)
        sources.add(link[0])
        targets.add(link[1])

    grown = True
    while grown:
        grown = False
        for i, j in sorted(links):
            for down, right in NEIGHBOURS:
                link = i + down, j + right
                if link in either and link not in links and (link[0] not in sources or link[1] not in targets):
                    add(link)
                    grown = True
    for direction in (forth, back):
        for link in sorted(direction):
            if link[0] not in sources and link[1] not in targets:
                add(link)
    return links
