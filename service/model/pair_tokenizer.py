"""`[CLS] query [SEP] passage [SEP]` as token ids, cut to what a re-ranker reads. Knows a tokenizer; knows no scores.

As `training.reranking.pair_tokens`: only the passage is truncated, and a query where it would take more than half.
"""

from dataclasses import dataclass

from service.errors import ArtifactError
from service.model.tokenizer import Tokenizer, stripped


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
    """Safe to call from many threads at once; long texts take their turn, as in `Tokenizer`."""

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
        """The ids of a pair; a longer one keeps the first tokens of its passage."""
        query_ids, passage_ids = self._pieces(query), self._pieces(passage)
        full_length = len(query_ids) + len(passage_ids) + self._specials
        kept = query_ids[: self._query_room]
        ids = self._framed(kept, passage_ids[: self._room(kept)])
        return PairTokens(ids, full_length, len(query_ids) - len(kept))

    def windows(self, query: str, passage: str) -> list[PairTokens]:
        """The pair with each part of a passage that does not fit whole: parts overlap by half, the last is full.

        One where it fits. A query that is cut counts as truncated in all.
        """
        query_ids, passage_ids = self._pieces(query), self._pieces(passage)
        kept = query_ids[: self._query_room]
        room = self._room(kept)
        last = max(0, len(passage_ids) - room)
        starts = [*range(0, last, max(1, room // 2)), last]
        parts = [self._framed(kept, passage_ids[start : start + room]) for start in starts]
        cut = len(query_ids) - len(kept)
        return [PairTokens(ids, len(ids) + cut, cut) for ids in parts]

    def _pieces(self, text: str) -> list[int]:
        return self._tokenizer.pieces(stripped(text))

    def _room(self, query_ids: list[int]) -> int:
        """Tokens that are left for the passage."""
        return self._tokenizer.max_length - self._specials - len(query_ids)

    def _framed(self, query_ids: list[int], passage_ids: list[int]) -> list[int]:
        frame = self._frame
        return [*frame.before, *query_ids, *frame.between, *passage_ids, *frame.after]
