"""Query and passage in, score out. Knows a re-ranker's artifact; knows nothing about queues or HTTP."""

from pathlib import Path
from typing import Self

from service.errors import ArtifactError, ParityFailed
from service.model.artifact import MODEL_FILE, TOKENIZER_FILE, Manifest, load_manifest, verify_files
from service.model.encoder import check_ids
from service.model.pair_parity import PairParityPack, load_pair_parity
from service.model.pair_tokenizer import PairTokenizer, PairTokens
from service.model.session import Session
from service.model.tokenizer import Tokenizer

SETTING = "CROSSLET_RERANKER"
SCORE_NAME = "score"  # the graph's output


class Reranker:
    """The tokenizer and the graph of one artifact; safe to call from many threads at once.

    A pair is scored by itself, on the thread that calls: its score is the same to the bit, whatever runs beside it.
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
        """The token ids of a pair. What does not fit is cut off the passage, and reported.

        A query is cut at half of `max_length`.
        """
        return self._tokenizer.tokenize(query, passage)

    def windows(self, query: str, passage: str) -> list[PairTokens]:
        """The same with each part of a passage that does not fit: the best score is the passage's. Parts overlap."""
        return self._tokenizer.windows(query, passage)

    def score(self, tokens: PairTokens) -> float:
        """How well the passage answers the query: in [0, 1].

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
        """Score the longest pair that the model reads: what a worker can take of time and memory."""
        self.score(self.tokenize("a", "a " * self.max_length))

    def give_back_unused(self) -> None:
        """Let go of the memory that earlier pairs took."""
        self._session.give_back_unused()
