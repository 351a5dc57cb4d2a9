"""Runs a tokenizer.json: a Unigram vocabulary in SentencePiece, any other in `tokenizers`.

Kudo 2018 (ACL), "Subword Regularization". For a piece of a Unigram vocabulary `tokenizers` takes some 900 bytes (70 MB
for 80,000 pieces), SentencePiece some 150. Both give the same ids; `tokenizers` still normalises the text.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import orjson
import tokenizers  # type: ignore[import-untyped]

MOST_UNUSED_IDS = 1000  # consecutive
WORD_START = "▁"
METASPACE = {"type": "Metaspace", "replacement": WORD_START, "prepend_scheme": "always", "split": True}
NONE = (1 << 64) - 1  # -1 as a protobuf varint
UNKNOWN, CONTROL = 2, 3  # SentencePiece's types of piece; its default is 1, a normal one


@dataclass(frozen=True)
class PairFrame:
    """The special tokens before, between and after the two texts of a pair; none where the tokenizer puts none."""

    before: list[int]
    between: list[int]
    after: list[int]


@dataclass(frozen=True)
class Token:
    """A token of a text.  piece: as the vocabulary spells it.  start, stop: in the text; None: a special token."""

    id: int
    piece: str
    start: int | None = None
    stop: int | None = None


def placed(tokens: Sequence[Token], places: Sequence[int]) -> list[Token]:
    """Return tokens of a rewritten text as they stand in the text.  places: of its characters, and of its end."""
    return [
        token
        if token.start is None or token.stop is None
        else replace(token, start=places[token.start], stop=places[token.stop - 1] + 1 if token.stop else places[0])
        for token in tokens
    ]


class LibraryTokenizer:
    """A tokenizer.json of any kind, run by `tokenizers`."""

    def __init__(self, content: bytes) -> None:
        """content: of the file.

        Raises: Exception: `tokenizers` cannot read it.
        """
        self._tokenizer = tokenizers.Tokenizer.from_buffer(content)
        # `Tokenizer` truncates instead, which needs the full length but not the overflowing parts.
        self._tokenizer.no_truncation()
        self._tokenizer.no_padding()
        os.environ["TOKENIZERS_PARALLELISM"] = "false"  # the pool's workers run in parallel
        self.after = _closing_ids(self._tokenizer.encode("a"))

    @property
    def highest_id(self) -> int:
        """The highest token id, added tokens included. Listing the whole vocabulary would take a tenth of a second.

        Ids may have gaps, so the search starts at the vocabulary's size and ends after MOST_UNUSED_IDS unused ids.
        """
        count: int = self._tokenizer.get_vocab_size(with_added_tokens=False)
        highest: int = max([count - 1, *self._tokenizer.get_added_tokens_decoder()])
        token_of = self._tokenizer.id_to_token
        while used := [id_ for id_ in range(highest + 1, highest + 1 + MOST_UNUSED_IDS) if token_of(id_) is not None]:
            highest = used[-1]
        return highest

    def encode(self, text: str) -> list[int]:
        """Return token ids, special tokens included."""
        (ids,) = self.encode_all([text])
        return ids

    def pieces(self, text: str) -> list[int]:
        """Return token ids without special tokens."""
        (encoding,) = self._tokenizer.encode_batch_fast([text], add_special_tokens=False)
        ids: list[int] = encoding.ids
        return ids

    def tokens(self, text: str, *, add_special_tokens: bool) -> list[Token]:
        """Return the tokens of one text and where they are in it."""
        encoding = self._tokenizer.encode(text, add_special_tokens=add_special_tokens)
        return [
            Token(id_, piece) if is_special else Token(id_, piece, *span)
            for id_, piece, span, is_special in zip(
                encoding.ids, encoding.tokens, encoding.offsets, encoding.special_tokens_mask, strict=True
            )
        ]

    def decode(self, ids: Sequence[int], *, skip_special_tokens: bool) -> str:
        """Return the text of known token ids."""
        text: str = self._tokenizer.decode(ids, skip_special_tokens=skip_special_tokens)
        return text

    @cached_property
    def pair_frame(self) -> PairFrame:
        """What the post-processor puts around a pair."""
        encoding = self._tokenizer.encode("a", "a")
        sides: list[int | None] = encoding.sequence_ids  # None: special
        ids, first, second = encoding.ids, sides.index(0), sides.index(1)
        end = len(sides) - sides[::-1].index(1)
        return PairFrame(ids[:first], ids[first + sides.count(0) : second], ids[end:])

    def encode_all(self, texts: Sequence[str]) -> list[list[int]]:
        """Return the token ids of each text."""
        return [encoding.ids for encoding in self._tokenizer.encode_batch_fast(texts)]  # releases the GIL


class UnigramTokenizer:
    """The tokenizer of a tokenizer.json that `is_unigram`. Special tokens spelt out in a text are treated as text."""

    def __init__(self, state: dict[str, Any]) -> None:
        """state: the parsed file.

        Raises: ValueError, RuntimeError: SentencePiece refuses the vocabulary.
        """
        import sentencepiece  # here: other vocabularies do not need it

        model = state["model"]
        self._specials = {token["id"] for token in state["added_tokens"]}
        self._pieces = sentencepiece.SentencePieceProcessor()
        self._pieces.LoadFromSerializedProto(_sentencepiece_model(model["vocab"], model["unk_id"], self._specials))
        small = {**model, "vocab": [["<unk>", 0.0]], "unk_id": 0}
        shell = {**state, "model": small, "added_tokens": [], "post_processor": None}
        self._normalizer = tokenizers.Tokenizer.from_str(orjson.dumps(shell).decode()).normalizer
        self.before, self.after = _special_ids(state["post_processor"], "single")
        self.pair_frame = PairFrame(*_special_ids(state["post_processor"], "pair"))
        self.highest_id: int = self._pieces.GetPieceSize() - 1

    def encode(self, text: str) -> list[int]:
        """Return token ids, special tokens included."""
        return [*self.before, *self.pieces(text), *self.after]

    def pieces(self, text: str) -> list[int]:
        """Return token ids without special tokens."""
        ids: list[int] = self._pieces.EncodeAsIds(self._marked(text))
        return ids

    def _marked(self, text: str) -> str:
        """Return a text normalised, with the marks of its words."""
        if self._normalizer is not None:
            text = self._normalizer.normalize_str(text)
        marked = text.replace(" ", WORD_START)
        return WORD_START + marked if marked and not marked.startswith(WORD_START) else marked

    def tokens(self, text: str, *, add_special_tokens: bool) -> list[Token]:
        """Return the tokens of one text and where they are in it."""
        marked = self._marked(text)
        spans = _character_spans(text, self._normalizer)
        spans = spans[:1] * (len(marked) - len(spans)) + spans  # a mark before the first word stands where that begins
        tokens: list[Token] = []
        end = 0
        for id_, piece in zip(self._pieces.EncodeAsIds(marked), self._pieces.EncodeAsPieces(marked), strict=True):
            first, end = end, end + len(piece)  # the pieces make up `marked`
            tokens.append(Token(id_, piece, spans[first][0], spans[end - 1][1]))
        if not add_special_tokens:
            return tokens
        around = [[Token(id_, self._pieces.IdToPiece(id_)) for id_ in ids] for ids in (self.before, self.after)]
        return [*around[0], *tokens, *around[1]]

    def decode(self, ids: Sequence[int], *, skip_special_tokens: bool) -> str:
        """Return the text of known token ids."""
        skipped = self._specials if skip_special_tokens else set()
        pieces = [self._pieces.IdToPiece(id_) for id_ in ids if id_ not in skipped]
        text: str = tokenizers.decoders.Metaspace().decode(pieces)
        return text

    def encode_all(self, texts: Sequence[str]) -> list[list[int]]:
        """Return the token ids of each text."""
        return [self.encode(text) for text in texts]


def load_tokenizer_file(path: Path) -> LibraryTokenizer | UnigramTokenizer:
    """Read a tokenizer.json. Raises: Exception: it cannot be read; `tokenizers` has no class of errors."""
    content = path.read_bytes()
    if b'"Unigram"' in content:
        state = orjson.loads(content)
        if is_unigram(state):
            return UnigramTokenizer(state)
    return LibraryTokenizer(content)


def is_unigram(state: dict[str, Any]) -> bool:
    """Return whether `UnigramTokenizer` supports a parsed tokenizer.json: XLM-R's, and vocabularies pruned from it."""
    model = state["model"]
    if model.get("type") != "Unigram" or model.get("byte_fallback") or model.get("unk_id") is None:
        return False
    return (
        state["pre_tokenizer"] == METASPACE
        and all(token["special"] and token["id"] < len(model["vocab"]) for token in state["added_tokens"])
        and not any(piece.rfind(WORD_START) > 0 for piece, _ in model["vocab"])
        and (state["post_processor"] or {"type": "TemplateProcessing"})["type"] == "TemplateProcessing"
    )


def _character_spans(text: str, normalizer: tokenizers.normalizers.Normalizer | None) -> list[tuple[int, int]]:
    """Return where in a text each character of its normalised form comes from."""
    if normalizer is None:
        return [(position, position + 1) for position in range(len(text))]
    characters = tokenizers.Tokenizer(tokenizers.models.WordLevel({"": 0}, unk_token=""))
    characters.normalizer = normalizer
    characters.pre_tokenizer = tokenizers.pre_tokenizers.Split(tokenizers.Regex("(?m:.)"), "isolated")
    spans: list[tuple[int, int]] = characters.encode(text).offsets
    return spans


def _closing_ids(encoding: tokenizers.Encoding) -> list[int]:
    """Return the special tokens that the tokenizer appends to a text."""
    mask = encoding.special_tokens_mask
    count = next((count for count, flag in enumerate(reversed(mask)) if not flag), len(mask))
    ids: list[int] = encoding.ids
    return ids[len(ids) - count :]


def _special_ids(processor: dict[str, Any] | None, template: Literal["single", "pair"]) -> list[list[int]]:
    """Return the special tokens before, between and after the texts of a template."""
    if processor is None:
        return [[], []] if template == "single" else [[], [], []]
    gaps: list[list[int]] = [[]]
    for part in processor[template]:
        if "Sequence" in part:
            gaps.append([])
        else:
            gaps[-1] += processor["special_tokens"][part["SpecialToken"]["id"]]["ids"]
    return gaps


def _sentencepiece_model(vocabulary: list[tuple[str, float]], unknown: int, specials: set[int]) -> bytes:
    """Build a SentencePiece model file (sentencepiece_model.proto): pieces, a Unigram trainer, no normalisation."""
    trainer = _number(3, 1) + _number(40, unknown) + b"".join(_number(special, NONE) for special in (41, 42, 43))
    normalizer = _bytes(1, b"identity") + b"".join(_number(option, 0) for option in (3, 4, 5))
    return _piece_messages(vocabulary, unknown, specials) + _bytes(2, trainer) + _bytes(3, normalizer)


def _piece_messages(vocabulary: list[tuple[str, float]], unknown: int, specials: set[int]) -> bytes:
    """Encode each piece with its score and type: for 80,000 pieces a good part of the service's start."""
    texts = [piece.encode() for piece, _ in vocabulary]
    scores = struct.pack(f"<{len(vocabulary)}f", *(score for _, score in vocabulary))
    kinds = dict.fromkeys(specials, _number(3, CONTROL)) | {unknown: _number(3, UNKNOWN)}
    varints = [_varint(size) for size in range(max(map(len, texts), default=0) + 16)]  # 16: what a message adds
    messages: list[bytes] = []
    for index, text in enumerate(texts):
        score = b"\x15" + scores[4 * index : 4 * index + 4]
        message = b"\n" + varints[len(text)] + text + score + kinds.get(index, b"")
        messages.append(b"\n" + varints[len(message)] + message)
    return b"".join(messages)


def _bytes(field: int, value: bytes) -> bytes:
    return _varint(field << 3 | 2) + _varint(len(value)) + value


def _number(field: int, value: int) -> bytes:
    return _varint(field << 3) + _varint(value)


def _varint(value: int) -> bytes:
    """Encode a number as a protobuf varint."""
    digits = bytearray()
    while value > 0x7F:
        digits.append(value & 0x7F | 0x80)
        value >>= 7
    digits.append(value)
    return bytes(digits)
