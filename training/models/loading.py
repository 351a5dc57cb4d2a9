"""Loads sentence-transformers models whole, and runs no code of theirs. Knows modules and weights, not their use.

transformers fills what a checkpoint lacks with random numbers, and says so only in its log. That is refused here.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from huggingface_hub import snapshot_download
from sentence_transformers import SentenceTransformer
from sentence_transformers.base.modules.transformer import set_temporary_class_attrs
from sentence_transformers.sentence_transformer.modules import Transformer
from sentence_transformers.util import ORIGINAL_TRANSFORMER_MODELS

from training.errors import LoadError
from training.models.foreign_code import check_code

# A folder's own files may ask otherwise: what is given here goes first.
STRICT = {
    "output_loading_info": True,
    "weights_only": True,  # pickled weights run no code
    "ignore_mismatched_sizes": True,  # transformers would raise, and name the tensor without its layer
}
POOLER = "pooler."
BUFFERS = ("position_ids", "token_type_ids")  # that older versions wrote

Body = TypeVar("Body", bound=Transformer)


class Loaded(NamedTuple):
    """A module with a transformer, and what transformers reports of its tensors."""

    module: Transformer
    found: dict[str, Any]


def load_sentence_transformer(name: str, *, trust_remote_code: bool = False, **options: Any) -> SentenceTransformer:
    """A model from a folder or the hub, every weight of its body from there.

    Args: trust_remote_code: run the code that the folder asks for.  options: of `SentenceTransformer`.
    Raises: LoadError: a class is unknown, a tensor of the body is missing, unexpected or of another shape, a token has
                no embedding, or the model cannot be loaded at all.
    """
    try:
        if not trust_remote_code:
            name, revision = checked_source(name)
            options["revision"] = revision
        with _reports() as reports:
            model = SentenceTransformer(name, trust_remote_code=trust_remote_code, **options)
        for loaded in reports:
            _check_weights(loaded)
            _check_vocabulary(loaded.module)
    except LoadError:
        raise
    except Exception as exc:  # transformers, safetensors and json raise errors without a common base
        raise LoadError(_reason(exc)) from exc
    return model


def load_body(folder: Path, kind: type[Body], *, max_length: int) -> Body:
    """The first module of a folder of ours that has no `modules.json` yet.

    Raises: LoadError: its weights are not those of its configuration.
    """
    with _reports() as reports:
        body: Body = kind(str(folder), max_seq_length=max_length)
    for loaded in reports:
        _check_weights(loaded)
    return body


def checked_source(name: str) -> tuple[str, str | None]:
    """What to load, once the classes that it names are known: a folder, or of the hub the very commit looked at.

    Returns: the folder or the hub's name, and the commit.
    Raises: LoadError: a class is unknown.  OSError, ValueError: the hub does not give it.
    """
    if Path(name).is_dir():
        check_code(Path(name))
        return name, None
    if "/" not in name and name.lower() not in ORIGINAL_TRANSFORMER_MODELS:
        name = f"{SentenceTransformer.default_huggingface_organization}/{name}"
    folder = Path(snapshot_download(name, allow_patterns="*.json"))
    check_code(folder)
    return name, folder.name


@contextmanager
def _reports() -> Iterator[list[Loaded]]:
    """What is loaded meanwhile: sentence-transformers throws the reports away, wherever it loads a transformer."""
    reports: list[Loaded] = []
    load = Transformer._load_model

    def load_and_report(module: Transformer, *args: Any, **options: Any) -> Any:
        body, found = load(module, *args, **options | STRICT)
        reports.append(Loaded(module, found))
        return body

    with set_temporary_class_attrs(Transformer, _load_model=load_and_report):
        yield reports


def _check_weights(loaded: Loaded) -> None:
    body, found = loaded.module.auto_model, loaded.found
    optional = () if _reads_pooler(loaded.module) else (POOLER,)
    parts = tuple(f"{name}." for name, _ in body.named_children() if f"{name}." not in optional)
    prefix = f"{body.base_model_prefix}."
    mismatched = sorted(found["mismatched_keys"])
    if mismatched:
        shape = tuple(body.state_dict()[mismatched[0]].shape)
        raise LoadError(f"its tensor {mismatched[0]} is not of the shape {shape} that its configuration says")
    missing = [name for name in sorted(found["missing_keys"]) if not name.startswith(optional)]
    unexpected = [  # of the body: heads of another task lie beside it
        name
        for name in sorted(found["unexpected_keys"])
        if name.removeprefix(prefix).startswith(parts) and not name.endswith(BUFFERS)
    ]
    for names, what in ((missing, "lacks"), (unexpected, "has, unknown to its configuration,")):
        if names:
            raise LoadError(f"its checkpoint {what} {len(names)} tensors of the body, the first {names[0]}")


def _reads_pooler(module: Transformer) -> bool:
    return any(mode.get("method_output_name") == "pooler_output" for mode in module.modality_config.values())


def _check_vocabulary(module: Transformer) -> None:
    """Every token has an embedding; one beyond the table would fail when a text has it."""
    words = module.auto_model.get_input_embeddings()
    rows = getattr(getattr(words, "table", words), "num_embeddings", None)  # of a bottleneck, or whole
    if rows is None or module.tokenizer is None:
        return
    token, index = max(module.tokenizer.get_vocab().items(), key=lambda item: item[1])
    if index >= rows:
        raise LoadError(
            f"its token {token!r} has id {index}, but there are {rows} word embeddings; call "
            "resize_token_embeddings and train the new ones, or leave the token out"
        )


def _reason(exc: Exception) -> str:
    """The line of an error that names what is wrong: torch has a heading before it."""
    lines = [line.strip() for line in str(exc).splitlines() if line.strip()] or [type(exc).__name__]
    return f"{lines[0]} {lines[1]}" if lines[0].endswith(":") and len(lines) > 1 else lines[0]
