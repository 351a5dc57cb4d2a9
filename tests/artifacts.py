"""Builds a tiny real artifact without torch: a WordPiece tokenizer and a mean-of-embeddings graph."""

import dataclasses
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper
from tokenizers import normalizers

from service.model.artifact import Manifest, ParityPack, Space, describe_files, fingerprint_of, load_manifest
from service.model.session import Session
from service.model.tokenizer import Tokenizer as ServiceTokenizer
from tests.graphs import model_of
from tests.vocabularies import wordpiece

DIM = 16
MAX_LENGTH = 24
TEXTS = (
    "A man is playing a guitar.",
    "Ein Mann spielt Gitarre.",
    "Un hombre toca la guitarra.",
    "Un homme joue de la guitare.",
    "Bir adam gitar çalıyor.",
    "رجل يعزف على الغيتار.",
    "一个人在弹吉他。",
    "The stock market fell sharply today.",
    "Der Aktienmarkt ist heute stark gefallen.",
    "La bolsa cayó con fuerza hoy.",
    "Borsa bugün sert düştü.",
    "今天股市大幅下跌。",
)


def build_artifact(
    folder: Path,
    *,
    seed: int = 0,
    name: str = "tiny",
    prompts: Mapping[str, str] | None = None,
    default_prompt_name: str | None = None,
    fails_on: str | None = None,
) -> Manifest:
    """Write a folder that keeps the whole contract; another seed gives another fingerprint.

    fails_on: a word of its own token, whose vector is not a number: the model fails on texts that have it.
    """
    prompts = prompts or {}
    folder.mkdir(parents=True, exist_ok=True)
    vocabulary_size = _write_tokenizer(folder / "tokenizer.json", last_word=fails_on)
    _write_graph(folder / "model.onnx", vocabulary_size=vocabulary_size, seed=seed, fails_on_last=fails_on is not None)
    (folder / "README.md").write_text(f"# {name}\n", encoding="utf-8")
    parity = _parity_of(folder, prompt=prompts[default_prompt_name] if default_prompt_name else "")
    (folder / "parity.json").write_text(parity.to_json(), encoding="utf-8")
    return write_manifest(
        folder,
        name=name,
        parameters=vocabulary_size * DIM,
        prompts=prompts,
        default_prompt_name=default_prompt_name,
    )


def write_manifest(
    folder: Path,
    *,
    name: str = "tiny",
    parameters: int = 0,
    prompts: Mapping[str, str] | None = None,
    default_prompt_name: str | None = None,
    **changes: object,
) -> Manifest:
    """(Re)write manifest.json from the files as they are now."""
    files = describe_files(folder)
    manifest = Manifest(
        schema_version=1,
        name=name,
        kind="bi-encoder",
        dim=DIM,
        max_length=MAX_LENGTH,
        languages=("ar", "de", "en", "es", "fr", "tr", "zh"),
        precision="fp32",
        parameters=parameters,
        fingerprint=fingerprint_of(
            model_sha256=files["model.onnx"].sha256,
            tokenizer_sha256=files["tokenizer.json"].sha256,
            prompts=prompts,
            default_prompt_name=default_prompt_name,
        ),
        files=files,
        training={},
        evaluation={},
        data_licences=(),
        created_by="tests",
        created_at="2026-01-01T00:00:00Z",
        prompts=prompts or {},
        default_prompt_name=default_prompt_name,
    )
    manifest = dataclasses.replace(manifest, **changes)  # type: ignore[arg-type]
    (folder / "manifest.json").write_text(manifest.to_json(), encoding="utf-8")
    return manifest


def add_space(folder: Path, name: str, affine: np.ndarray) -> Manifest:
    """Give an artifact a space: `affine` is (E, DIM + 1), the bias its last column."""
    np.save(folder / f"space.{name}.npy", affine.astype(np.float16))
    manifest = load_manifest(folder)
    space = Space(name, f"tests/{name}#1", len(affine), f"space.{name}.npy", 8, 0.75, 0.5)
    manifest = dataclasses.replace(manifest, files=describe_files(folder), spaces=(*manifest.spaces, space))
    (folder / "manifest.json").write_text(manifest.to_json(), encoding="utf-8")
    return manifest


def _write_tokenizer(path: Path, *, last_word: str | None) -> int:
    tokenizer = wordpiece(TEXTS, normalizers.Sequence([normalizers.NFKC(), normalizers.Lowercase()]))
    if last_word is not None:
        tokenizer.add_tokens([last_word])
    tokenizer.save(str(path))
    return int(tokenizer.get_vocab_size())


def _write_graph(path: Path, *, vocabulary_size: int, seed: int, fails_on_last: bool) -> None:
    """Gather -> masked mean -> L2 norm."""
    weight_VD = np.random.default_rng(seed).standard_normal((vocabulary_size, DIM)).astype(np.float32)
    weight_VD[:4] *= 0.1  # special tokens say little
    if fails_on_last:
        weight_VD[-1] = np.nan
    nodes = [
        helper.make_node("Gather", ["weight", "input_ids"], ["token_embedding"]),
        helper.make_node("Cast", ["attention_mask"], ["mask_BL"], to=TensorProto.FLOAT),
        helper.make_node("Unsqueeze", ["mask_BL", "last"], ["mask_BL1"]),
        helper.make_node("Mul", ["token_embedding", "mask_BL1"], ["masked"]),
        helper.make_node("ReduceSum", ["masked", "middle"], ["total"], keepdims=0),
        helper.make_node("ReduceSum", ["mask_BL1", "middle"], ["count"], keepdims=0),
        helper.make_node("Div", ["total", "count"], ["mean"]),
        helper.make_node("ReduceL2", ["mean"], ["norm"], axes=[1], keepdims=1),
        helper.make_node("Div", ["mean", "norm"], ["sentence_embedding"]),
    ]
    constants = {"weight": weight_VD, "last": np.array([2], np.int64), "middle": np.array([1], np.int64)}
    model = model_of(nodes, constants, {"sentence_embedding": ["B", DIM]})
    onnx.checker.check_model(model)
    onnx.save(model, str(path))


def _parity_of(folder: Path, *, prompt: str) -> ParityPack:
    tokenizer = ServiceTokenizer(folder / "tokenizer.json", max_length=MAX_LENGTH)
    session = Session(folder / "model.onnx", dim=DIM)
    input_ids = [tokenizer.tokenise(prompt + text).input_ids for text in TEXTS]
    return ParityPack(
        schema_version=1,
        min_cosine=0.9999,
        texts=TEXTS,
        input_ids=tuple(tuple(row) for row in input_ids),
        embeddings=tuple(tuple(float(value) for value in session.run([row])[0]) for row in input_ids),
    )
