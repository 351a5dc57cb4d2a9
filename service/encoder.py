"""Text in, unit vector out, one text at a time. Knows the artifact; knows nothing about queues or HTTP.

L tokens, D dims
"""

import logging
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from service.artifact import MODEL_FILE, TOKENIZER_FILE, Manifest, ParityPack, load_manifest, load_parity, verify_files
from service.errors import ArtifactError, InvalidInput, ParityFailed, TextTooLong
from service.session import Session
from service.tokenizer import TokenisedText, Tokenizer

logger = logging.getLogger(__name__)

TextInput = str | tuple[int, ...]  # a text, or token ids that a client made with this model's tokenizer


@dataclass(frozen=True)
class Encoded:
    """vector: (D,) float32, norm 1.  tokens: how many the model read.  full_length: how many the text has."""

    vector: npt.NDArray[np.float32]
    tokens: int
    full_length: int

    @property
    def truncated(self) -> bool:
        """Whether the model read less than the whole text."""
        return self.full_length > self.tokens


class Encoder:
    """The tokenizer and the graph of one artifact; safe to call from many threads at once."""

    def __init__(self, manifest: Manifest, tokenizer: Tokenizer, session: Session) -> None:
        self.manifest = manifest
        self._tokenizer = tokenizer
        self._session = session

    def encode(self, text: TextInput, truncate: bool = True) -> Encoded:
        """Embed one text or one row of token ids.

        Raises: TextTooLong: it does not fit and `truncate` is off.  InvalidInput: an unknown token id.
                InferenceFailed: the model raised.
        """
        tokenised = self._tokenizer.tokenise(text) if isinstance(text, str) else self._given_ids(text)
        if tokenised.full_length > self.manifest.max_length and not truncate:
            raise TextTooLong(
                f"has {tokenised.full_length} tokens; the model reads {self.manifest.max_length} (set truncate to true)"
            )
        vector_D = self._session.run(tokenised.input_ids)
        return Encoded(vector_D, tokens=len(tokenised.input_ids), full_length=tokenised.full_length)

    def _given_ids(self, ids: tuple[int, ...]) -> TokenisedText:
        size = self._tokenizer.vocabulary_size
        unknown = next((token for token in ids if not 0 <= token < size), None)
        if unknown is not None:
            raise InvalidInput(f"has a token id outside the vocabulary of {size}")
        return TokenisedText(list(ids[: self.manifest.max_length]), len(ids))

    def check_parity(self, parity: ParityPack, folder: Path) -> None:
        """Embed the parity texts and compare with what the exporter recorded.

        Raises: ArtifactError: token ids differ.  ParityFailed: a vector's cosine is under the pack's minimum.
        """
        for position, text in enumerate(parity.texts):
            tokenised = self._tokenizer.tokenise(text)
            if tokenised.input_ids != list(parity.input_ids[position]):
                raise ArtifactError(f"{folder}: parity text {position} gives other token ids than its parity.json says")
            expected_D = np.asarray(parity.embeddings[position], dtype=np.float32)
            found_D = self._session.run(tokenised.input_ids)
            cosine = float(found_D @ expected_D / (np.linalg.norm(found_D) * np.linalg.norm(expected_D)))
            if not cosine >= parity.min_cosine:  # also refuses NaN
                raise ParityFailed(
                    f"{folder}: parity text {position} gives a vector at cosine {cosine:.5f} of the recorded one; "
                    f"the pack asks for {parity.min_cosine}: use an artifact of another precision on this CPU"
                )

    def embed_longest(self) -> None:
        """Embed the longest text that the model reads: what a worker can take of time and memory."""
        self._session.run([0] * self.manifest.max_length)


@dataclass(frozen=True)
class Choice:
    """The encoder to serve with.  refused: why it is the fallback, or None."""

    encoder: Encoder
    refused: str | None = None


def choose_encoder(folder: Path, fallback: Path | None) -> Choice:
    """Load an artifact, or the fallback where this CPU fails the artifact's parity pack.

    Raises: ArtifactError: neither can be served, or the two give vectors of different lengths.
    """
    try:
        return Choice(load_encoder(folder))
    except ParityFailed as exc:
        if fallback is None:
            raise ParityFailed(f"{exc} (CROSSLET_FALLBACK_MODEL)") from exc
        refused, dim = str(exc), load_manifest(folder).dim
    encoder = load_encoder(fallback)
    if encoder.manifest.dim != dim:
        raise ArtifactError(
            f"{fallback} gives {encoder.manifest.dim} dims, the model it stands in for gives {dim} "
            "(CROSSLET_FALLBACK_MODEL, CROSSLET_MODEL)"
        )
    logger.warning("the fallback model is served", extra={"model": encoder.manifest.name, "reason": refused})
    return Choice(encoder, refused)


def load_encoder(folder: Path) -> Encoder:
    """Verify an artifact folder and load it; its parity texts are the warm-up.

    Raises: ArtifactError: one sentence with the folder, the file and what differs; ParityFailed if that is the vectors.
    """
    manifest = load_manifest(folder)
    if manifest.kind != "bi-encoder":
        raise ArtifactError(f"{folder}: {manifest.name} is a {manifest.kind}; the service embeds with a bi-encoder")
    verify_files(folder, manifest)
    tokenizer = Tokenizer(folder / TOKENIZER_FILE, max_length=manifest.max_length)
    encoder = Encoder(manifest, tokenizer, Session(folder / MODEL_FILE, dim=manifest.dim))
    encoder.check_parity(load_parity(folder, manifest), folder)
    return encoder
