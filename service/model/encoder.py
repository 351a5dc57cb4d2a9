"""Text in, unit vector out, from one artifact; decides which texts may share a forward pass.

L tokens, D dims
"""

import logging
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import repeat
from pathlib import Path

import numpy as np
import numpy.typing as npt

from service.errors import ArtifactError, InferenceFailed, InvalidInput, ParityFailed, TextTooLong
from service.model.artifact import (
    MODEL_FILE,
    TOKENIZER_FILE,
    Kind,
    Manifest,
    ParityPack,
    load_manifest,
    load_parity,
    verify_files,
)
from service.model.onnx_file import embedding_rows
from service.model.passages import Splitter
from service.model.prompts import Prompts
from service.model.session import IDS_NAME, OUTPUT_NAME, SCORE_NAME, Session
from service.model.spaces import Spaces
from service.model.stages import StageTimer
from service.model.tokenizer import TokenisedText, Tokenizer, stripped
from service.model.tokenizer_file import Token, placed
from service.process.address_space import is_limited
from service.process.cpus import usable_cpus

logger = logging.getLogger(__name__)

PASS_PLACES = 192  # texts x longest length of a pass: larger passes are no faster per text, and others wait for them
MOST_SPECIALS = 8  # tokens that a text may have without a character of its own: special ones, the mark of its start
PAD_MULTIPLE = 4  # keeps vectors bit-identical in any batch if padding is skipped (ADR 9)
SETTINGS: dict[Kind, str] = {"bi-encoder": "CROSSLET_MODEL", "cross-encoder": "CROSSLET_RERANKER"}
WAY_OUT = "send it in parts, or let it be cut (truncate: true, unless CROSSLET_LONG_TEXTS=refuse)"
PARITY_THREADS = 2  # more take memory that a short start does not pay for

TextInput = str | tuple[int, ...]  # a text, or token ids from this model's tokenizer


@dataclass(frozen=True)
class Encoded:
    """An encoded text. vector: (D,) float32, norm 1.  tokens: read by the model.  full_length: tokens of the text.

    query_cut: of a pair, tokens of the query that were left out.
    """

    vector: npt.NDArray[np.float32]
    tokens: int
    full_length: int
    query_cut: int = 0

    @property
    def truncated(self) -> bool:
        """Whether the model read only the beginning of the text, or of a pair's passage."""
        return self.full_length - self.query_cut > self.tokens


class Encoder:
    """The tokenizer and the graph of one artifact. Thread-safe.

    Texts are embedded without white space at their ends, in the artifact's own space. The caller prepends one of the
    `prompts` and maps the vectors into one of the `spaces`.
    """

    def __init__(
        self, manifest: Manifest, tokenizer: Tokenizer, session: Session, spaces: Spaces | None = None
    ) -> None:
        self.manifest = manifest
        self.shares_passes = False
        self.mixes_lengths = False  # whether texts of different lengths share passes
        self.prompts = Prompts(manifest.prompts, manifest.default_prompt_name)
        self.spaces = spaces or Spaces()
        self._tokenizer = tokenizer
        self._session = session

    def encode(self, text: TextInput, truncate: bool = True) -> Encoded:
        """Embed one text or one row of token ids.

        Raises: TextTooLong: it is too long and `truncate` is false.  InvalidInput: an unknown token id.
                InferenceFailed: the model raised.
        """
        return self.run(self.tokenise([text], [truncate]))[0]

    def encode_all(self, texts: Sequence[str]) -> list[Encoded]:
        """Embed texts, in shared passes where possible. Vectors equal those of `encode` bit for bit."""
        tokenised = self.tokenise(texts)
        waiting = sorted(range(len(texts)), key=lambda position: len(tokenised[position].input_ids))
        encoded: dict[int, Encoded] = {}
        while waiting:
            longest = len(tokenised[waiting[-1]].input_ids)
            chosen = waiting[-self.room(longest) :]
            if not self.mixes_lengths:
                chosen = [position for position in chosen if len(tokenised[position].input_ids) == longest]
            del waiting[-len(chosen) :]
            encoded |= zip(chosen, self.run([tokenised[position] for position in chosen]), strict=True)
        return [encoded[position] for position in range(len(texts))]

    @property
    def strips_white_space(self) -> bool:
        """Whether the model's own tokenizer strips white space at the ends of a text."""
        return self._tokenizer.strips

    @cached_property
    def splitter(self) -> Splitter:
        """What splits documents into passages."""
        return Splitter(self._tokenizer, prompt=self.prompts.document)

    def surely_fits(self, text: TextInput, *, prompt: str) -> bool:
        """Tell without tokenising that a text fits behind the prompt. False: it may or may not."""
        if not isinstance(text, str):
            return len(text) <= self.manifest.max_length
        length = len(prompt) + len(text) + MOST_SPECIALS
        return length <= self.manifest.max_length and (prompt + text).isascii()

    def passages(self, text: str, *, prompt: str) -> Iterator[str]:
        """Yield the passages of a text, each to be read behind the prompt; the text alone where it fits whole."""
        text = stripped(text)
        if (
            self.surely_fits(text, prompt=prompt)
            or len(self._tokenizer.whole(prompt + text)) <= self.manifest.max_length
        ):
            yield text
            return
        spans = Splitter(self._tokenizer, prompt=prompt).passages(text)
        first = next(spans, (0, len(text)))  # none: it cannot be split
        yield text[slice(*first)]
        yield from (text[start:stop] for start, stop in spans)

    def windows(self, text: str, *, prompt: str) -> list[tuple[int, ...]]:
        """Return overlapping parts of a text that fit, as token ids behind the prompt; one where it fits whole."""
        return self._tokenizer.windows(stripped(text), prompt=prompt)

    def tokens(self, text: str, *, add_special_tokens: bool) -> list[Token]:
        """Return all tokens that stand for a text, which has no prompt, and where they are in it."""
        kept = stripped(text)
        before = text.find(kept)
        tokens = self._tokenizer.tokens(kept, add_special_tokens=add_special_tokens)
        return placed(tokens, range(before, before + len(kept) + 1)) if before else tokens

    def text_of(self, ids: Sequence[int], *, skip_special_tokens: bool) -> str:
        """Return the text of token ids. Raises: InvalidInput: an unknown id."""
        self._check_ids(ids)
        return self._tokenizer.decode(ids, skip_special_tokens=skip_special_tokens)

    def room(self, length: int) -> int:
        """Return how many texts of up to `length` tokens fit in a pass."""
        places = -(-length // PAD_MULTIPLE) * PAD_MULTIPLE if self.mixes_lengths else length
        return max(1, PASS_PLACES // max(1, places)) if self.shares_passes else 1

    def tokenise(self, texts: Sequence[TextInput], truncate: Iterable[bool] = repeat(True)) -> list[TokenisedText]:
        """Return the token ids of each text, truncated to what the model reads.

        Raises: TextTooLong: a text is too long and its `truncate` is false.  InvalidInput: an unknown token id.
        """
        with StageTimer("tokenise"):
            strings = [self.prompts.stripped(text) for text in texts if isinstance(text, str)]
            of_strings = iter(self._tokenizer.tokenise_all(strings))
            tokenised = [next(of_strings) if isinstance(text, str) else self._given_ids(text) for text in texts]
        lengths = (text.full_length for text, may_cut in zip(tokenised, truncate, strict=False) if not may_cut)
        longest, limit = max(lengths, default=0), self.manifest.max_length
        if longest > limit:
            raise TextTooLong(f"has {longest} tokens; the model reads {limit}: {WAY_OUT}")
        return tokenised

    def run(self, texts: Sequence[TokenisedText]) -> list[Encoded]:
        """Run one pass over at most `room` texts, of equal length unless `mixes_lengths`.

        Raises: InferenceFailed: the model raised.
        """
        with StageTimer("inference"):
            vectors_BD = self._pass([text.input_ids for text in texts])
        return [
            # A copy: a view would keep all vectors in memory.
            Encoded(vector_D.copy(), tokens=len(text.input_ids), full_length=text.full_length)
            for text, vector_D in zip(texts, vectors_BD, strict=True)
        ]

    def _pass(self, rows: Sequence[Sequence[int]]) -> npt.NDArray[np.float32]:
        return self._session.run(rows, multiple=PAD_MULTIPLE if self.mixes_lengths else 1)

    def _given_ids(self, ids: tuple[int, ...]) -> TokenisedText:
        self._check_ids(ids)
        return self._tokenizer.cut(list(ids))

    def _check_ids(self, ids: Sequence[int]) -> None:
        size = self._tokenizer.highest_id + 1
        if any(not 0 <= token < size for token in ids):
            raise InvalidInput(f"has a token id outside the vocabulary of {size}")

    def check_parity(self, parity: ParityPack, folder: Path) -> None:
        """Embed the parity texts with the default prompt and compare them with the exporter's results.

        Raises: ArtifactError: token ids differ.  ParityFailed: a vector's cosine is below the pack's minimum.
        """
        with ThreadPoolExecutor(1 if is_limited() else min(PARITY_THREADS, usable_cpus())) as threads:
            for _ in threads.map(partial(self._check_parity_text, parity, folder), range(len(parity.texts))):
                pass  # raises the first text's error

    def _check_parity_text(self, parity: ParityPack, folder: Path, position: int) -> None:
        tokenised = self._tokenizer.tokenise(self.prompts.default + parity.texts[position])
        if tokenised.input_ids != list(parity.input_ids[position]):
            raise ArtifactError(f"{folder}: parity text {position} gives other token ids than in parity.json")
        expected_D = np.asarray(parity.embeddings[position], dtype=np.float32)
        (vector_D,) = self._pass([tokenised.input_ids])
        cosine = float(vector_D @ expected_D / (np.linalg.norm(vector_D) * np.linalg.norm(expected_D)))
        if not cosine >= parity.min_cosine:  # also refuses NaN
            raise ParityFailed(
                f"{folder}: parity text {position} gives a vector with cosine {cosine:.5f} to the recorded one; "
                f"the minimum is {parity.min_cosine}: use an artifact of another precision on this CPU"
            )

    def try_sharing(self, parity: ParityPack) -> None:
        """Let texts share passes if the artifact allows it and vectors stay the same bit for bit on this machine.

        Whether a sum of floats is the same in a batch depends on ONNX Runtime's kernels for this processor.
        """
        rows = sorted((list(row) for row in parity.input_ids), key=len)
        if self.manifest.activations != "static" or not rows:
            return
        self.shares_passes = True  # `room` depends on it
        # Rows are padded to a multiple of four, which must not exceed max_length.
        self.mixes_lengths = self.manifest.padding == "skipped" and self.manifest.max_length % PAD_MULTIPLE == 0
        if self.mixes_lengths and all(map(self._is_same_in_company, self._unlike(rows[0], rows[-1]))):
            return
        self.mixes_lengths = False
        company = [self._alike(row) for row in rows if self.room(len(row)) > 1]
        self.shares_passes = all(map(self._is_same_in_company, (*company[:1], *company[-1:])))
        if not self.shares_passes:
            logger.warning("texts do not share passes: it would change their vectors on this processor")

    def _alike(self, ids: list[int]) -> list[list[int]]:
        """Make a full pass of texts of one length, with the same text first and last."""
        inner = ids[1:-1] or ids
        turns = (shift % len(inner) for shift in range(self.room(len(ids)) - 2))
        return [ids, *([*ids[:1], *inner[turn:], *inner[:turn], *ids[-1:]][: len(ids)] for turn in turns), ids]

    def _unlike(self, short: list[int], long: list[int]) -> list[list[list[int]]]:
        """Make two full passes: texts of three, four and more tokens; and a short text beside a long one."""
        lengths = [3]
        while self.room(lengths[-1] + 1) > len(lengths):
            lengths.append(lengths[-1] + 1)
        return [[long[:length] for length in lengths], [short, long[: PASS_PLACES // 2]]]

    def _is_same_in_company(self, rows: Sequence[list[int]]) -> bool:
        """Return whether the first, middle and last texts of a pass get the same vectors as alone."""
        together_BD = self._pass(rows)
        tried = {0, len(rows) // 2, len(rows) - 1}
        return all(np.array_equal(together_BD[position], self._pass([rows[position]])[0]) for position in tried)

    def run_longest(self) -> None:
        """Embed the longest text and a full pass: a worker's maximum of time and memory."""
        self._pass([[0] * self.manifest.max_length])
        if self.shares_passes:
            length = min(self.manifest.max_length, PASS_PLACES // 2)
            self._pass([[0] * length] * self.room(length))

    def give_back_unused(self) -> None:
        """Free the memory that earlier passes took."""
        self._session.give_back_unused()


@dataclass(frozen=True)
class Choice:
    """The encoder to serve with. refused: why the fallback is served, or None."""

    encoder: Encoder
    refused: str | None = None


def choose_encoder(folder: Path, fallback: Path | None) -> Choice:
    """Load an artifact, or the fallback if the artifact fails its parity pack on this CPU.

    Raises: ArtifactError: neither can be served, or their dims differ.
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
            f"{fallback} gives {encoder.manifest.dim} dims, but the model it replaces gives {dim} "
            "(CROSSLET_FALLBACK_MODEL, CROSSLET_MODEL)"
        )
    logger.warning("the fallback model is served", extra={"model": encoder.manifest.name, "reason": refused})
    return Choice(encoder, refused)


def load_encoder(folder: Path) -> Encoder:
    """Verify an artifact folder and load it. Encoding the parity texts warms the model up.

    Raises: ArtifactError: one sentence with folder, file and difference.  ParityFailed: the vectors differ.
    """
    manifest, tokenizer, session = load_parts(folder, "bi-encoder")
    encoder = Encoder(manifest, tokenizer, session, Spaces.load(folder, manifest))
    parity = load_parity(folder, manifest)
    encoder.try_sharing(parity)
    encoder.check_parity(parity, folder)
    return encoder


def load_parts(folder: Path, kind: Kind) -> tuple[Manifest, Tokenizer, Session]:
    """Verify the folder of an artifact of this kind, and load its parts.

    Raises: ArtifactError: it is refused.
    """
    manifest = load_manifest(folder, setting=SETTINGS[kind] + (", or bundled" if kind == "cross-encoder" else ""))
    if manifest.kind != kind:
        names = {"bi-encoder": "an encoder", "cross-encoder": "a re-ranker"}
        raise ArtifactError(
            f"{folder}: {manifest.name} is {names[manifest.kind]}, which {SETTINGS[manifest.kind]} takes; "
            f"{SETTINGS[kind]} takes {names[kind]}"
        )
    verify_files(folder, manifest)
    output = OUTPUT_NAME if kind == "bi-encoder" else SCORE_NAME
    load_session = partial(Session, folder / MODEL_FILE, dim=manifest.dim, output=output)
    load_tokenizer = partial(
        Tokenizer, folder / TOKENIZER_FILE, max_length=manifest.max_length, folds_text=manifest.folds_text
    )
    if is_limited():  # one after the other: together they take 30 MB more for a moment
        tokenizer, session = load_tokenizer(), load_session()
    else:
        with ThreadPoolExecutor(1) as loader:  # both are native code for the most part, which leaves the GIL free
            loading = loader.submit(load_session)
            tokenizer = load_tokenizer()
            session = loading.result()
    check_ids(folder, tokenizer, session)
    return manifest, tokenizer, session


def check_ids(folder: Path, tokenizer: Tokenizer, session: Session) -> None:
    """Refuse token ids that have no embedding: the graph would fail on them, or give vectors of no meaning.

    Raises: ArtifactError.
    """
    highest, rows = tokenizer.highest_id, embedding_rows(folder / MODEL_FILE, IDS_NAME)
    ids = f"{folder}: {TOKENIZER_FILE} has token ids up to {highest}"
    way_out = "export the model again with the tokenizer it was trained with"
    if rows is None:
        try:
            session.run([[highest]])
        except InferenceFailed as exc:
            raise ArtifactError(f"{ids}, but {MODEL_FILE} fails on that one: {way_out}") from exc
    elif highest >= rows:
        raise ArtifactError(
            f"{ids}, but the embedding table of {MODEL_FILE} has {rows} rows, for 0 to {rows - 1}: {way_out}"
        )
