"""Scores pairs of query and passage with a re-ranker's artifact."""

from dataclasses import dataclass
from pathlib import Path
from typing import Self

from service.errors import ArtifactError, ParityFailed
from service.model.artifact import (
    MODEL_FILE,
    TOKENIZER_FILE,
    Manifest,
    PairParityPack,
    load_manifest,
    load_pair_parity,
    verify_files,
)
from service.model.encoder import check_ids
from service.model.session import Session
from service.model.tokenizer import Tokenizer, stripped, window_starts

SETTING = "CROSSLET_RERANKER"
SCORE_NAME = "score"  # the graph's output


@dataclass(frozen=True)
class PairTokens:
    """A tokenised pair. input_ids: at most `max_length`, special tokens included.  full_length: before truncation.

    query_cut: tokens of the query that were left out.
    """

    input_ids: list[int]
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
        self._query_room = tokenizer.max_length // 2
        if not self._frame.between:
            raise ArtifactError(f"{where}: the tokenizer puts no separator between query and passage")
        if self._query_room + self._specials >= tokenizer.max_length:
            raise ArtifactError(f"{where}: max_length is {tokenizer.max_length}, which leaves no room for a passage")

    def tokenize(self, query: str, passage: str) -> PairTokens:
        """Return the ids of a pair; a longer one keeps the first tokens of its passage."""
        query_ids, passage_ids = self._pieces(query), self._pieces(passage)
        full_length = len(query_ids) + len(passage_ids) + self._specials
        kept = query_ids[: self._query_room]
        ids = self._framed(kept, passage_ids[: self._room(kept)])
        return PairTokens(ids, full_length, len(query_ids) - len(kept))

    def windows(self, query: str, passage: str) -> list[PairTokens]:
        """Return the pair with each part of a passage that does not fit whole; parts overlap by half, the last is full.

        One where it fits. A truncated query counts as truncated in each.
        """
        query_ids, passage_ids = self._pieces(query), self._pieces(passage)
        kept = query_ids[: self._query_room]
        room = self._room(kept)
        starts = window_starts(len(passage_ids), room)
        parts = [self._framed(kept, passage_ids[start : start + room]) for start in starts]
        cut = len(query_ids) - len(kept)
        return [PairTokens(ids, len(ids) + cut, cut) for ids in parts]

    def _pieces(self, text: str) -> list[int]:
        return self._tokenizer.pieces(stripped(text))

    def _room(self, query_ids: list[int]) -> int:
        """Return how many tokens are left for the passage."""
        return self._tokenizer.max_length - self._specials - len(query_ids)

    def _framed(self, query_ids: list[int], passage_ids: list[int]) -> list[int]:
        frame = self._frame
        return [*frame.before, *query_ids, *frame.between, *passage_ids, *frame.after]


class Reranker:
    """The tokenizer and the graph of one artifact. Thread-safe.

    A pair is scored by itself, so its score is bit-identical whatever runs beside it.
    """

    def __init__(self, manifest: Manifest, tokenizer: PairTokenizer, session: Session) -> None:
        self.manifest = manifest
        self._tokenizer = tokenizer
        self._session = session

    @classmethod
    def load(cls, folder: Path) -> Self:
        """Verify an artifact folder and load it; the pairs of its parity pack are the warm-up.

        Raises: ArtifactError: one sentence with the folder and what differs; ParityFailed if that is the scores.
        """
        if not folder.is_dir():
            raise ArtifactError(
                f"re-ranker folder {folder} does not exist ({SETTING}): give an artifact's folder, or bundled for the "
                "one that is in the wheel, the image and the checkout"
            )
        manifest = load_manifest(folder)
        if manifest.kind != "cross-encoder":
            raise ArtifactError(
                f"{folder}: {manifest.name} is an encoder, which scores no pairs: CROSSLET_MODEL takes it, "
                f"{SETTING} takes a re-ranker"
            )
        verify_files(folder, manifest)
        tokenizer = Tokenizer(folder / TOKENIZER_FILE, max_length=manifest.max_length)
        session = Session(folder / MODEL_FILE, dim=manifest.dim, output=SCORE_NAME)
        check_ids(folder, tokenizer, session)
        reranker = cls(manifest, PairTokenizer(tokenizer, where=str(folder)), session)
        reranker.check_parity(load_pair_parity(folder), folder)
        return reranker

    @property
    def max_length(self) -> int:
        """Tokens of a pair that the model reads, specials included."""
        return self.manifest.max_length

    def tokenize(self, query: str, passage: str) -> PairTokens:
        """Return the token ids of a pair. The passage is truncated to fit, and that is reported.

        A query is truncated to half of `max_length`.
        """
        return self._tokenizer.tokenize(query, passage)

    def windows(self, query: str, passage: str) -> list[PairTokens]:
        """Return the pair with each overlapping part of a passage that does not fit; the best part's score counts."""
        return self._tokenizer.windows(query, passage)

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
            if tokens.input_ids != list(parity.input_ids[position]):
                raise ArtifactError(f"{folder}: parity pair {position} gives other token ids than its parity.json says")
            score, expected = self.score(tokens), parity.scores[position]
            if not abs(score - expected) <= parity.max_difference:  # also refuses NaN
                raise ParityFailed(
                    f"{folder}: parity pair {position} gives the score {score:.5f}, {expected:.5f} is recorded, and "
                    f"the pack allows {parity.max_difference}: use an artifact of another precision on this CPU"
                )

    def score_longest(self) -> None:
        """Score the longest pair that the model reads: a worker's maximum of time and memory."""
        self.score(self.tokenize("a", "a " * self.max_length))

    def give_back_unused(self) -> None:
        """Free the memory that earlier pairs took."""
        self._session.give_back_unused()
