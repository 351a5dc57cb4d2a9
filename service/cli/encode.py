"""`crosslet embed`, `similarity` and `info`. Heavy modules are imported when used."""

import argparse
import dataclasses
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import orjson

from service.cli.arguments import Subcommand, argument, json_option, prompt_option, readable, texts_of
from service.cli.start_trial import Use
from service.cli.table import labelled, print_json, table, terminal_columns, wants_table
from service.model.artifact import Manifest, load_manifest
from service.settings import Settings

if TYPE_CHECKING:
    from service.documents.document import Vectors

OF_ENCODERS = ("dim", "prompts", "default_prompt_name", "truncate_dim", "spaces")  # re-rankers lack these
LABEL = 16  # columns


def embed(options: argparse.Namespace, settings: Settings) -> None:
    """Print each text's vector as a JSON list.

    Raises: InvalidInput: a text is empty, too long or not valid UTF-8, or the model has no such prompt or space.
    """
    encode = _load_encode(options, settings)
    for name, text in texts_of(options.texts):
        print_json(encode(readable(text, name, settings)))


def similarity(options: argparse.Namespace, settings: Settings) -> None:
    """Print the cosine of the first text with each other one, in the order given, as POST /similarity answers.

    Raises: InvalidInput: as `embed`.
    """
    import numpy as np

    texts = [readable(text, name, settings) for name, text in texts_of([options.first, *options.others])]
    vectors_ND = np.stack([*map(_load_encode(options, settings), texts)])
    scores_N = np.clip(np.einsum("d,nd->n", vectors_ND[0], vectors_ND[1:]), -1, 1)
    scored = list(zip(scores_N, texts[1:], strict=True))
    if wants_table(options):
        rows = [(f"{score:.3f}", text) for score, text in scored]
        sys.stdout.write(table(("score", "text"), rows, columns=terminal_columns()))
        return
    for score, text in scored:
        print_json({"score": score, "text": text})


def _load_encode(options: argparse.Namespace, settings: Settings) -> "Callable[[str], Vectors]":
    """Load the model. Return what gives a text's vector with the chosen prompt, in the chosen space."""
    from service.model.encoder import choose_encoder

    encoder = choose_encoder(settings.model, settings.fallback_model).encoder
    prompt, space = encoder.prompts.chosen(options.prompt_name), encoder.spaces.chosen(options.space)

    def encode(text: str) -> "Vectors":
        vector_D = encoder.encode(prompt + text).vector
        return vector_D if space is None else space(vector_D[None])[0]

    return encode


def info(options: argparse.Namespace, settings: Settings) -> None:
    """Print the facts of a model: one screen, or the manifest without its file hashes as JSON.

    `kind` says whether it is an encoder or a re-ranker.

    Raises: ArtifactError: the folder is no artifact.
    """
    folder = options.folder or settings.model
    manifest = load_manifest(folder, setting="FOLDER" if options.folder else "--model or CROSSLET_MODEL")
    if wants_table(options):
        sys.stdout.writelines(labelled(label.ljust(LABEL), value) for label, value in _short(manifest, folder))
        return
    left_out = {"files", *(OF_ENCODERS if manifest.kind == "cross-encoder" else ())}
    facts = {name: value for name, value in dataclasses.asdict(manifest).items() if name not in left_out}
    print_json(facts, option=orjson.OPT_INDENT_2)


def _short(manifest: Manifest, folder: Path) -> Iterator[tuple[str, str]]:
    """Yield (label, value) for one screen."""
    is_encoder = manifest.kind == "bi-encoder"
    size_bytes = sum(entry.size_bytes for entry in manifest.files.values())
    yield "model", f"{manifest.name} ({'encoder' if is_encoder else 're-ranker'})"
    yield "folder", str(folder)
    yield "fingerprint", manifest.fingerprint[:12]
    yield "created", f"{manifest.created_at[:10]} by {manifest.created_by}"
    yield "size", f"{size_bytes / 1e6:.1f} MB, {manifest.parameters / 1e6:.1f} million parameters, {manifest.precision}"
    yield "reads", f"{manifest.max_length} tokens of a text"
    if is_encoder:
        yield "gives", f"{manifest.dim} dimensions"
        yield "prompts", ", ".join(manifest.prompts) or "none"
        yield "spaces", ", ".join(space.name for space in manifest.spaces) or "none"
    yield "languages", " ".join(manifest.languages)
    scores = _averages(manifest.evaluation)
    if scores:
        yield "scores", ", ".join(f"{name} {score:g}" for name, score in scores.items())
    if "all" in manifest.min_scores:
        yield "min_score", f"{manifest.min_scores['all']:g} recommended for a search in any language"
    yield "trained on", f"{len(manifest.data_licences)} sources of text"
    yield "", "--json prints everything: scores by language, training configuration, licences."


def _averages(evaluation: Mapping[str, object]) -> dict[str, float]:
    """Return the mean of each set over its languages, of the artifact as served if that was measured."""
    served = evaluation.get("served")
    sets = served if isinstance(served, Mapping) else evaluation
    means = {
        name: values.get("average", values.get("all"))
        for name, values in sets.items()
        if isinstance(values, Mapping) and name != "search_min_score"
    }
    return {name: float(mean) for name, mean in means.items() if isinstance(mean, int | float)}


SPACE = argument("--space", metavar="NAME", help="space of another model for the vectors (default: the model's own)")
EMBED = Subcommand(
    embed,
    "print the vectors of texts, one JSON line each",
    [
        argument("texts", nargs="*", metavar="TEXT", help="texts (default: lines of standard input, but blank ones)"),
        prompt_option(),
        SPACE,
    ],
    Use.EMBED,
)
SIMILARITY = Subcommand(
    similarity,
    "compare a text with others, in any language",
    [
        argument("first", metavar="TEXT", help="text to compare the others with"),
        argument("others", nargs="+", metavar="TEXT", help="texts to compare it with"),
        json_option(),
        prompt_option(),
        SPACE,
    ],
    Use.EMBED,
)
INFO = Subcommand(
    info,
    "print what a model is",
    [
        argument("folder", nargs="?", type=Path, metavar="FOLDER", help="of a model (default: the one of --model)"),
        json_option(otherwise="one screen"),
    ],
)
