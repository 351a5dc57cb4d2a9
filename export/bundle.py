"""Writes the artifact folder, whole or not at all. Knows files; knows nothing about how the model was made."""

from __future__ import annotations

import dataclasses
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import tokenizers  # type: ignore[import-untyped]

from export.card import model_card
from export.errors import BadRequest
from service.model.artifact import (
    CARD_FILE,
    MANIFEST_FILE,
    MODEL_FILE,
    TOKENIZER_FILE,
    ArtifactError,
    Manifest,
    describe_files,
    fingerprint_of,
    load_manifest,
)
from service.model.encoder import load_encoder
from service.model.reranker import Reranker
from service.model.tokenizer import Tokenizer
from service.process.files import flush, resolved


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


def write_artifact(out: Path, files: Mapping[str, Path | bytes], manifest: Manifest, *, force: bool) -> Manifest:
    """Write an artifact, and read it back as the service does.

    Args:    files: by name, each with its content or a file to copy.  manifest: but for `files` and `fingerprint`.
    Returns: the manifest with them.
    Raises:  BadRequest: see `check_target`.  ArtifactError: the service would refuse it.
    """
    check_target(out, force=force)
    with _replacing(out) as stage:
        manifest = _fill(stage, files, manifest)
        try:
            if manifest.kind == "cross-encoder":
                Reranker.load(stage)
            else:
                load_encoder(stage)
        except ArtifactError as exc:
            raise ArtifactError(f"the service would refuse {str(exc).replace(str(stage), str(out))}") from exc
    return manifest


def rewrite_card(folder: Path, manifest: Manifest) -> None:
    """Give an artifact this manifest, and its card; the other files stay. Stopped between the two, run again."""
    card = model_card(manifest, model_bytes=(folder / MODEL_FILE).stat().st_size, folder=folder)
    with tempfile.TemporaryDirectory(prefix=".card.", dir=folder) as scratch:
        stage = Path(scratch)
        (stage / CARD_FILE).write_bytes(card.encode())
        manifest = dataclasses.replace(manifest, files={**manifest.files, **describe_files(stage)})
        (stage / MANIFEST_FILE).write_text(manifest.to_json(), encoding="utf-8")
        load_manifest(stage)
        for name in (CARD_FILE, MANIFEST_FILE):  # flushed first: neither is replaced where the disk is full
            flush(stage / name)
        for name in (CARD_FILE, MANIFEST_FILE):
            (stage / name).replace(folder / name)


def save_tokenizer(tokenizer: tokenizers.Tokenizer, folder: Path, *, max_length: int, folds_text: bool) -> Tokenizer:
    """Write the tokenizer.json of an artifact into a folder, and read it as the service does."""
    tokenizer.save(str(folder / TOKENIZER_FILE), pretty=False)
    return Tokenizer(folder / TOKENIZER_FILE, max_length=max_length, folds_text=folds_text)


def _fill(stage: Path, files: Mapping[str, Path | bytes], manifest: Manifest) -> Manifest:
    for name, content in files.items():
        if isinstance(content, Path):
            shutil.copyfile(content, stage / name)
        else:
            (stage / name).write_bytes(content)
    entries = describe_files(stage)
    fingerprint = fingerprint_of(
        model_sha256=entries[MODEL_FILE].sha256,
        tokenizer_sha256=entries[TOKENIZER_FILE].sha256,
        prompts=manifest.prompts,
        default_prompt_name=manifest.default_prompt_name,
    )
    manifest = dataclasses.replace(manifest, files=entries, fingerprint=fingerprint)
    (stage / MANIFEST_FILE).write_text(manifest.to_json(), encoding="utf-8")
    return manifest


@contextmanager
def _replacing(out: Path) -> Iterator[Path]:
    """An empty folder beside `out`, on the disk and in the place of `out` when the block ends without an error."""
    out = resolved(out)  # a link keeps naming the folder
    out.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".{out.name}.", dir=out.parent) as scratch:
        stage, old = Path(scratch) / "new", Path(scratch) / "old"
        stage.mkdir()
        yield stage
        for path in [*stage.iterdir(), stage]:  # after the rename, a crash must not leave short files
            flush(path)
        if out.exists():
            out.rename(old)
        try:
            stage.rename(out)
        except BaseException:
            if old.exists():
                old.rename(out)
            raise
        flush(out.parent)
