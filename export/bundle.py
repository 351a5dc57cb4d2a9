"""Writes the artifact folder, whole or not at all. Knows files; knows nothing about how the model was made."""

from __future__ import annotations

import dataclasses
import os
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path

import tokenizers  # type: ignore[import-untyped]

from export.errors import BadRequest
from service.model.artifact import (
    CARD_FILE,
    MANIFEST_FILE,
    MODEL_FILE,
    PARITY_FILE,
    TOKENIZER_FILE,
    ArtifactError,
    Manifest,
    PairParityPack,
    ParityPack,
    describe_files,
    fingerprint_of,
    load_manifest,
    verify_files,
)
from service.model.encoder import load_encoder
from service.model.reranker import Reranker
from service.model.tokenizer import Tokenizer
from service.process.files import flush


@dataclasses.dataclass(frozen=True)
class Bundle:
    """Everything that goes into the folder; `manifest` without `files` and `fingerprint`, which writing finds out."""

    model: Path
    tokenizer: Path
    parity: ParityPack | PairParityPack
    card: str
    manifest: Manifest


def check_target(out: Path, *, force: bool) -> None:
    """Refuse to overwrite, or a place that cannot be written, before any work is done.

    Raises: BadRequest: `out` exists, is not empty and `force` is not given, it is no artifact, or nothing can be made
            beside it.
    """
    if out.is_mount():
        raise BadRequest(f"{out} is a mount point, which cannot be replaced; name a folder in it")
    parent = next((folder for folder in out.absolute().parents if folder.exists()), Path(out.anchor))
    if not (parent.is_dir() and os.access(parent, os.W_OK | os.X_OK)):
        raise BadRequest(f"{parent} is no folder that can be written to; choose another --out")
    if not (out.exists() or out.is_symlink()) or (out.is_dir() and not any(out.iterdir())):
        return
    if not force:
        raise BadRequest(f"{out} exists; --force replaces it")
    if not (out / MANIFEST_FILE).is_file():
        raise BadRequest(f"{out} has no {MANIFEST_FILE}: it is no artifact, and --force does not replace it")


def write_bundle(bundle: Bundle, out: Path, *, force: bool) -> Manifest:
    """Write to a temporary folder beside `out`, read it back as the service does, then rename it.

    Raises: BadRequest: see `check_target`.
    """
    check_target(out, force=force)
    out.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".{out.name}.", dir=out.parent) as scratch:
        stage = Path(scratch) / "new"
        stage.mkdir()
        manifest = _fill(bundle, stage)
        _check_served(stage, manifest, out)
        _put(stage, out, Path(scratch) / "old")
    return manifest


def write_copy(artifact: Path, out: Path, *, added: Mapping[str, bytes], manifest: Manifest, force: bool) -> None:
    """Write an artifact's files, those added, and this manifest with the hashes of all: whole or not at all.

    Raises: BadRequest: see `check_target`.
    """
    check_target(out, force=force)
    out = out.absolute()
    out.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".{out.name}.", dir=out.parent) as scratch:
        stage = Path(scratch) / "new"
        stage.mkdir()
        for name in manifest.files:
            shutil.copyfile(artifact / name, stage / name)
        for name, content in added.items():
            (stage / name).write_bytes(content)
        manifest = dataclasses.replace(manifest, files=describe_files(stage))
        (stage / MANIFEST_FILE).write_text(manifest.to_json(), encoding="utf-8")
        _check_served(stage, manifest, out)
        _put(stage, out, Path(scratch) / "old")


def rewrite_card(out: Path, card: str, manifest: Manifest) -> None:
    """Replace an artifact's card, and its manifest by this one with the new card's hash."""
    out = out.absolute()
    with tempfile.TemporaryDirectory(prefix=f".{out.name}.", dir=out.parent) as scratch:
        stage = Path(scratch) / "new"
        stage.mkdir()
        for name in manifest.files:
            shutil.copyfile(out / name, stage / name)
        (stage / CARD_FILE).write_text(card, encoding="utf-8")
        manifest = dataclasses.replace(manifest, files=describe_files(stage))
        (stage / MANIFEST_FILE).write_text(manifest.to_json(), encoding="utf-8")
        verify_files(stage, load_manifest(stage))
        _put(stage, out, Path(scratch) / "old")


def save_tokenizer(tokenizer: tokenizers.Tokenizer, folder: Path, *, max_length: int) -> Tokenizer:
    """Write the tokenizer.json of an artifact into a folder, and read it as the service does."""
    tokenizer.save(str(folder / TOKENIZER_FILE), pretty=False)
    return Tokenizer(folder / TOKENIZER_FILE, max_length=max_length)


def _check_served(stage: Path, manifest: Manifest, out: Path) -> None:
    """Load a written folder as the service does, with its parity pack.

    Raises: ArtifactError: the service would refuse it.
    """
    try:
        if manifest.kind == "cross-encoder":
            Reranker.load(stage)
        else:
            load_encoder(stage)
    except ArtifactError as exc:
        raise ArtifactError(f"the service would refuse {str(exc).replace(str(stage), str(out))}") from exc


def _put(stage: Path, out: Path, old: Path) -> None:
    """Let a written folder take the place of `out`, which goes to `old`, where the caller deletes it."""
    _sync(stage)
    if out.exists():
        out.rename(old)
    try:
        stage.rename(out)
    except BaseException:
        if old.exists():
            old.rename(out)
        raise
    flush(out.parent)


def _fill(bundle: Bundle, stage: Path) -> Manifest:
    shutil.copyfile(bundle.model, stage / MODEL_FILE)
    shutil.copyfile(bundle.tokenizer, stage / TOKENIZER_FILE)
    (stage / PARITY_FILE).write_text(bundle.parity.to_json(), encoding="utf-8")
    (stage / CARD_FILE).write_text(bundle.card, encoding="utf-8")
    files = describe_files(stage)
    fingerprint = fingerprint_of(
        model_sha256=files[MODEL_FILE].sha256,
        tokenizer_sha256=files[TOKENIZER_FILE].sha256,
        prompts=bundle.manifest.prompts,
        default_prompt_name=bundle.manifest.default_prompt_name,
    )
    manifest = dataclasses.replace(bundle.manifest, files=files, fingerprint=fingerprint)
    (stage / MANIFEST_FILE).write_text(manifest.to_json(), encoding="utf-8")
    return manifest


def _sync(folder: Path) -> None:
    """Force the files to disk: after the rename, a crash must not leave short ones."""
    for path in [*folder.iterdir(), folder]:
        flush(path)
