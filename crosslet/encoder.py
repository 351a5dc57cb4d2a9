"""Texts in, vectors out, in this process.

M texts on the left, N texts on the right, D dims
"""

from collections.abc import Mapping, Sequence
from contextlib import closing
from os import PathLike
from pathlib import Path
from typing import overload

import numpy as np

from service.documents.document import Vectors, unit_rows
from service.errors import InferenceFailed, InvalidInput
from service.model.encoder import load_encoder
from service.offline.embedding import threads_engine
from service.process.cpus import usable_cpus
from service.settings import BUNDLED_MODEL

Texts = list[str] | tuple[str, ...]  # not any sequence: a str is one of str, too


class Encoder:
    """A sentence encoder: texts with the same meaning get near vectors, in any of its languages. Thread-safe.

    Its vectors equal those of `crosslet serve` bit for bit.
    """

    def __init__(self, model: str | PathLike[str] | None = None, *, threads: int | None = None) -> None:
        """Load a model, verify its files and try it on this processor; takes a fraction of a second.

        Args:   model: folder of an artifact; None: the bundled one.  threads: None: one a usable CPU.
        Raises: CrossletError: the folder is no artifact, or gives other vectors here than where it was made.
        """
        if threads is not None and threads < 1:
            raise InvalidInput(f"threads is {threads}; give at least 1, or None for one a CPU")
        self.threads = threads or usable_cpus()
        self._model = load_encoder(BUNDLED_MODEL if model is None else Path(model))

    def __repr__(self) -> str:
        return f"Encoder({self.name} {self.fingerprint[:12]}, {self.dim} dimensions)"

    @property
    def name(self) -> str:
        """The model's name."""
        return self._model.manifest.name

    @property
    def fingerprint(self) -> str:
        """Identity of its vectors: those of one fingerprint may be compared."""
        return self._model.manifest.fingerprint

    @property
    def dim(self) -> int:
        """Length of a vector."""
        return self._model.manifest.dim

    @property
    def max_length(self) -> int:
        """Tokens that it reads of a text; of a longer one only the beginning."""
        return self._model.manifest.max_length

    @property
    def languages(self) -> tuple[str, ...]:
        """ISO codes of what it was trained on."""
        return tuple(self._model.manifest.languages)

    @property
    def prompts(self) -> Mapping[str, str]:
        """What may be put before a text, by name."""
        return self._model.manifest.prompts

    def encode(
        self,
        texts: str | Sequence[str],
        *,
        prompt_name: str | None = None,
        dimensions: int | None = None,
        truncate: bool = True,
    ) -> Vectors:
        """Return the vectors of texts, of norm 1: (N, D) float32; of one text (D,).

        Args:   prompt_name: of `prompts`; None: the model's default.
                dimensions: how many to keep of each vector, rescaled to norm 1; None: all.
                truncate: whether to read only the beginning of texts longer than `max_length`.
        Raises: CrossletError: a text is empty, too long and `truncate` is false, or the model fails on it.
        """
        if isinstance(texts, str):
            vectors_1D = self.encode([texts], prompt_name=prompt_name, dimensions=dimensions, truncate=truncate)
            vector_D: Vectors = vectors_1D[0]
            return vector_D
        prompt = self._model.prompts.chosen(prompt_name)
        prompted = [prompt + _checked(text, position) for position, text in enumerate(texts)]
        if not truncate:
            self._check_lengths(prompted)
        vectors_ND = self._encoded(prompted)
        if dimensions is None:
            return vectors_ND
        if not 1 <= dimensions <= self.dim:
            raise InvalidInput(f"dimensions is {dimensions}; the model has {self.dim}: give 1 to {self.dim}, or None")
        return unit_rows(vectors_ND[:, :dimensions])

    @overload
    def similarity(self, left: str, right: str) -> float: ...
    @overload
    def similarity(self, left: str, right: Texts) -> Vectors: ...
    @overload
    def similarity(self, left: Texts, right: str | Texts) -> Vectors: ...
    def similarity(self, left: str | Texts, right: str | Texts) -> float | Vectors:
        """Return cosines in [-1, 1]: (M, N) of lists, (N,) of a text and a list, one number of two texts.

        Raises: CrossletError: as `encode`.
        """
        lefts, rights = ([given] if isinstance(given, str) else [*given] for given in (left, right))
        vectors = self.encode([*lefts, *rights])
        # einsum, not BLAS: a cosine must not depend on how many there are.
        cosine_MN: Vectors = np.einsum("md,nd->mn", vectors[: len(lefts)], vectors[len(lefts) :]).clip(-1, 1)
        if isinstance(left, str) and isinstance(right, str):
            return float(cosine_MN[0, 0])
        return cosine_MN[0] if isinstance(left, str) else cosine_MN[:, 0] if isinstance(right, str) else cosine_MN

    def _encoded(self, texts: Sequence[str]) -> Vectors:
        if not texts:
            return np.empty((0, self.dim), np.float32)
        engine = threads_engine(self._model.encode_all, workers=self.threads, dim=self.dim)
        with closing(engine([texts])) as batches:
            embedded = next(batches)
        if embedded.failed:
            position, reason = min(embedded.failed.items())
            raise InferenceFailed(f"texts[{position}]: {reason}")
        return embedded.vectors_ND

    def _check_lengths(self, texts: Sequence[str]) -> None:
        for position, text in enumerate(texts):
            length = self._model.tokenise([text])[0].full_length
            if length > self.max_length:
                raise InvalidInput(
                    f"texts[{position}] has {length} tokens; the model reads {self.max_length}: shorten it, or allow "
                    "truncate"
                )


def _checked(text: str, position: int) -> str:
    if not isinstance(text, str):
        raise InvalidInput(f"texts[{position}] is of type {type(text).__name__}; give a str")
    if not text:
        raise InvalidInput(f"texts[{position}] is empty; every text needs at least one character")
    try:
        text.encode()
    except UnicodeEncodeError as exc:
        raise InvalidInput(f"texts[{position}] is not valid Unicode: it has half a surrogate pair") from exc
    return text
