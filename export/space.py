"""`python -m export.space ARTIFACT --model NAME --pairs FILE... --out COPY`: maps a copy into another model's space.

An affine map takes the artifact's vectors to the other model's vectors. It is fitted by ridge regression: both sides of
parallel text go to the other model's vector of the English side. The graph and the fingerprint stay unchanged.

Shapes: N pairs, D dims of the artifact, E dims of the other model
"""

from __future__ import annotations

import argparse
import dataclasses
import io
import re
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from export.__main__ import say, status_of
from export.bundle import check_target, write_artifact
from export.errors import BadRequest
from export.evaluation.models import load_model
from service.model.artifact import Space, load_manifest
from service.model.spaces import SpaceMap
from training.corpora.text_pairs import read_tsv_pairs
from training.errors import TrainingError
from training.evaluation.vectors import Encode, each_text_once
from training.models.labels import linear_fit
from training.models.teacher import load_teacher, teacher_identity

Vectors = NDArray[np.float32]
Pair = tuple[str, str]  # English, other
RIDGE = 0.01  # relative to the mean square of an input
HELD_OUT = 20  # one in this many distinct English sentences is held out for measuring
MAX_PAIRS = 100_000
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")  # part of a file name


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command. Returns 0, 2 with the reason on stderr, or 130 after Ctrl-C."""
    parser = argparse.ArgumentParser(
        prog="python -m export.space", description="Copy an artifact, with a map into another model's vector space."
    )
    add = parser.add_argument
    add("artifact", type=Path, help="artifact folder, e.g. models/default")
    add("--model", required=True, help="sentence-transformers model: a folder, a packaged model or a hub name")
    add("--pairs", type=Path, nargs="+", required=True, metavar="FILE", help="english<TAB>other, .gz or plain")
    add("--out", type=Path, required=True, help="artifact folder to write")
    add("--name", help="name of the space in requests; default: the last part of --model")
    add("--max-pairs", type=int, default=MAX_PAIRS, help="at most N pairs, evenly spaced; default: %(default)s")
    add("--force", action="store_true", help="replace the artifact at --out")
    add("--trust-remote-code", action="store_true", help="allow the other model's own Python code to run")
    options = parser.parse_args(arguments)
    return status_of(lambda: add_space(options, name=options.name or Path(options.model).name))


def add_space(options: argparse.Namespace, *, name: str) -> None:
    """Fit the map, measure it on held-out sentences, and write the copy.

    Raises: BadRequest: an option, the other model or a file of pairs cannot be used, or there are too few pairs.
        ArtifactError: the folder is not an artifact that can be served.
    """
    if not NAME.fullmatch(name):
        raise BadRequest(f"{name!r} cannot name a space: --name takes letters, digits and . _ -")
    check_target(options.out, force=options.force)
    manifest = load_manifest(options.artifact)
    if name in {space.name for space in manifest.spaces}:
        raise BadRequest(f"{options.artifact} already has a space {name}; choose another --name")
    try:
        encode = each_text_once(load_model(str(options.artifact)).encode)
        pairs = _read(options.pairs, options.max_pairs)
        fitted, held_out = split(pairs)
        if not fitted or not held_out:
            raise BadRequest(f"{len(pairs)} pairs are too few: give {HELD_OUT} distinct English sentences or more")
        say(f"{len(fitted)} pairs to fit, {len(held_out)} held out")
        labels = _labels(options, [english for english, _ in pairs])
        identity = teacher_identity(options.model)
    except TrainingError as exc:
        raise BadRequest(str(exc)) from exc
    affine = fit(encode, fitted, labels)
    english_cosine, other_cosine = measure(encode, SpaceMap.from_array(affine), held_out, labels)
    say(f"mean cosine held out: English {english_cosine:.4f}, others {other_cosine:.4f}")
    file, content = f"space.{name}.npy", io.BytesIO()
    np.save(content, affine, allow_pickle=False)
    space = Space(name, identity, len(affine), file, len(fitted), english_cosine, other_cosine)
    manifest = dataclasses.replace(manifest, spaces=(*manifest.spaces, space))
    files = {known: options.artifact / known for known in manifest.files} | {file: content.getvalue()}
    write_artifact(options.out, files, manifest, force=options.force)
    say(f"wrote {options.out}")


def split(pairs: Sequence[Pair]) -> tuple[list[Pair], list[Pair]]:
    """Split into pairs to fit and pairs to measure; all pairs of an English sentence stay together."""
    number = {english: position for position, english in enumerate(dict.fromkeys(english for english, _ in pairs))}
    is_held_out = [number[english] % HELD_OUT == HELD_OUT - 1 for english, _ in pairs]
    fitted = [pair for pair, held_out in zip(pairs, is_held_out, strict=True) if not held_out]
    return fitted, [pair for pair, held_out in zip(pairs, is_held_out, strict=True) if held_out]


def fit(encode: Encode, pairs: Sequence[Pair], labels: dict[str, Vectors]) -> NDArray[np.float16]:
    """Fit the map, (E, D + 1) float16: both sides of a pair go to the label of the English side."""
    own = encode([text for side in zip(*pairs, strict=True) for text in side])
    label_NE = np.stack([labels[english] for english, _ in pairs])
    weight_ED, bias_E = linear_fit(own, np.tile(label_NE, (2, 1)), ridge=RIDGE)
    return np.column_stack([weight_ED, bias_E]).astype(np.float16)


def measure(encode: Encode, space: SpaceMap, pairs: Sequence[Pair], labels: dict[str, Vectors]) -> tuple[float, float]:
    """Mean cosine to the label: of English sides, and of the other sides."""
    label_NE = np.stack([labels[english] for english, _ in pairs])
    english, other = (
        float(np.einsum("ne,ne->n", space(encode(list(side))), label_NE).mean()) for side in zip(*pairs, strict=True)
    )
    return round(english, 4), round(other, 4)


def _labels(options: argparse.Namespace, texts: Sequence[str]) -> dict[str, Vectors]:
    """The other model's vector of each distinct text, at unit length: (E,)."""
    model = load_teacher(options.model, device=torch.device("cpu"), trust_remote_code=options.trust_remote_code)
    distinct = list(dict.fromkeys(texts))
    vectors = model.encode(
        distinct, batch_size=64, normalize_embeddings=True, convert_to_tensor=True, show_progress_bar=False
    )
    return dict(zip(distinct, vectors.float().cpu().numpy(), strict=True))


def _read(files: Sequence[Path], most: int) -> list[Pair]:
    pairs: list[Pair] = []
    for path in files:
        if not path.is_file():
            raise BadRequest(f"{path} is not a file (--pairs)")
        pairs += [(english, other) for english, other in read_tsv_pairs(path) if english.strip() and other.strip()]
    if len(pairs) <= most:
        return pairs
    return [pairs[position] for position in np.linspace(0, len(pairs) - 1, most, dtype=np.int64)]


if __name__ == "__main__":
    sys.exit(main())
