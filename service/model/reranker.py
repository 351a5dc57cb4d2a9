"""Scores pairs of query and passage with a re-ranker's artifact."""

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Self

from service.errors import ArtifactError, ParityFailed
from service.model.artifact import Manifest, PairParityPack, load_pair_parity
from service.model.encoder import load_parts
from service.model.session import Session
from service.model.tokenizer import Tokenizer, stripped, window_starts

QUERIES = 8  # whose tokens are kept: a query is in all pairs of a request


@dataclass(frozen=True, slots=True)
class PairTokens:
    """A tokenised pair. input_ids: at most `max_length`, special tokens included.  full_length: before truncation.

    query_cut: tokens of the query that were left out.
    """

    input_ids: tuple[int, ...]
    full_length: int
    query_cut: int = 0

    @property
    def truncated(self) -> bool:
        """Whether the model reads less than both whole texts."""
        return self.full_length > len(self.input_ids)


class PairTokenizer:
    """Turns `[CLS] query [SEP] passage [SEP]` into token ids, as `training.reranking.pair_tokens` does.

    Only the passage is truncated, and a query that would take more than half. Thread-safe; long texts take turns, as in
    `Tokenizer`.
    """

    def __init__(self, tokenizer: Tokenizer, *, where: str) -> None:
        """where: the artifact's folder, for the message.

        Raises: ArtifactError: the tokenizer puts nothing between the two texts of a pair, or a pair does not fit.
        """
        self._tokenizer = tokenizer
        self._frame = tokenizer.pair_frame
        self._specials = len(self._frame.before) + len(self._frame.between) + len(self._frame.after)
        self._room, self._query_room = tokenizer.max_length - self._specials, tokenizer.max_length // 2
        self._query = lru_cache(QUERIES)(self._kept_of_query)
        if not self._frame.between:
            raise ArtifactError(f"{where}: the tokenizer puts no separator between query and passage")
        if self._query_room >= self._room:
            raise ArtifactError(f"{where}: max_length is {tokenizer.max_length}, which leaves no room for a passage")

    def tokenize(self, query: str, passage: str) -> PairTokens:
        """Return the ids of a pair; a longer one keeps the first tokens of its passage."""
        (kept, cut), passage_ids = self._query(query), self._pieces(passage)
        ids = self._framed(kept, passage_ids[: self._room - len(kept)])
        return PairTokens(ids, len(kept) + cut + len(passage_ids) + self._specials, cut)

    def windows(self, query: str, passage: str) -> list[PairTokens]:
        """Return the pair with each part of a passage that does not fit whole; parts overlap by half, the last is full.

        One where it fits. A truncated query counts as truncated in each.
        """
        (kept, cut), passage_ids = self._query(query), self._pieces(passage)
        room = self._room - len(kept)
        starts = window_starts(len(passage_ids), room)
        parts = [self._framed(kept, passage_ids[start : start + room]) for start in starts]
        return [PairTokens(ids, len(ids) + cut, cut) for ids in parts]

    def _kept_of_query(self, query: str) -> tuple[list[int], int]:
        """Return the first token ids of a query, and how many are cut off."""
        ids = self._pieces(query)
        return ids[: self._query_room], max(0, len(ids) - self._query_room)

    def _pieces(self, text: str) -> list[int]:
        return self._tokenizer.pieces(stripped(text))

    def _framed(self, query_ids: list[int], passage_ids: list[int]) -> tuple[int, ...]:
        return (*self._frame.before, *query_ids, *self._frame.between, *passage_ids, *self._frame.after)


class Reranker:
    """The tokenizer and the graph of one artifact. Thread-safe.

    A pair is scored by itself, so its score is bit-identical whatever runs beside it.
    """

    def __init__(self, manifest: Manifest, tokenizer: PairTokenizer, session: Session) -> None:
        self.manifest = manifest
        self.tokenize, self.windows = tokenizer.tokenize, tokenizer.windows
        self._session = session

    @classmethod
    def load(cls, folder: Path) -> Self:
        """Verify an artifact folder and load it; the pairs of its parity pack are the warm-up.

        Raises: ArtifactError: one sentence with the folder and what differs; ParityFailed if that is the scores.
        """
        manifest, tokenizer, session = load_parts(folder, "cross-encoder")
        reranker = cls(manifest, PairTokenizer(tokenizer, where=str(folder)), session)
        reranker.check_parity(load_pair_parity(folder), folder)
        return reranker

    def score(self, tokens: PairTokens) -> float:
        """Return how well the passage answers the query, in [0, 1].

        Raises: InferenceFailed: the model raised, or the score is not a finite number.
        """
        return float(self._session.run([tokens.input_ids])[0, 0])

    def check_parity(self, parity: PairParityPack, folder: Path) -> None:
        """Score the parity pairs and compare with what the exporter recorded.

        Raises: ArtifactError: token ids differ.  ParityFailed: a score differs by more than the pack allows.
        """
        for position, (query, passage) in enumerate(parity.pairs):
            tokens = self.tokenize(query, passage)
            if tokens.input_ids != parity.input_ids[position]:
                raise ArtifactError(f"{folder}: parity pair {position} gives other token ids than in parity.json")
            score, expected = self.score(tokens), parity.scores[position]
            if not abs(score - expected) <= parity.max_difference:  # also refuses NaN
                raise ParityFailed(
                    f"{folder}: parity pair {position} gives the score {score:.5f}, {expected:.5f} is recorded, and "
                    f"the pack allows {parity.max_difference}: use an artifact of another precision on this CPU"
                )

    def run_longest(self) -> None:
        """Score the longest pair that the model reads: a worker's maximum of time and memory."""
        self.score(self.tokenize("a", "a " * self.manifest.max_length))

    def give_back_unused(self) -> None:
        """Free the memory that earlier pairs took."""
        self._session.give_back_unused()
