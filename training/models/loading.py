"""Loads sentence-transformers models, and refuses incomplete ones and those that need their own code.

transformers initialises missing weights at random and mentions it only in its log.
"""

from __future__ import annotations

import json
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
from training.system.files import LfsPointer, files_under, refuse_pointers

# These options override what a folder's files say.
STRICT = {
    "output_loading_info": True,
    "weights_only": True,  # pickled weights run no code
    "ignore_mismatched_sizes": True,  # else transformers raises, naming the tensor without its layer
}
POOLER = "pooler."
MISTRAL = "fix_mistral_regex"  # an option of tokenizers
BUFFERS = ("position_ids", "token_type_ids")  # written by older versions

Body = TypeVar("Body", bound=Transformer)


class Loaded(NamedTuple):
    """A module with a transformer, and transformers' report on its tensors."""

    module: Transformer
    found: dict[str, Any]


def load_sentence_transformer(name: str, *, trust_remote_code: bool = False, **options: Any) -> SentenceTransformer:
    """Load a model from a folder or the hub, with every weight of its body.

    Args:   trust_remote_code: run the code that the folder names.  options: of `SentenceTransformer`.
    Raises: LoadError: a class is unknown; a tensor of the body is missing, unexpected or of another shape; a token has
                no embedding; or the model cannot be loaded at all.
    """
    try:
        if not trust_remote_code:
            name, revision = checked_source(name)
            options["revision"] = revision
        options["processor_kwargs"] = tokenizer_options(Path(name)) | options.get("processor_kwargs", {})
        with _reports() as reports:
            model = SentenceTransformer(name, trust_remote_code=trust_remote_code, **options)
        for loaded in reports:
            _check_weights(loaded)
            _check_vocabulary(loaded.module)
    except LoadError:
        raise
    except Exception as exc:  # transformers, safetensors and json raise errors without a common base
        raise LoadError(_reason(exc, Path(name))) from exc
    return model


def load_body(folder: Path, kind: type[Body], *, max_length: int) -> Body:
    """Load the first module of a crosslet folder that has no `modules.json` yet.

    Raises: LoadError: its weights do not match its configuration.
    """
    with _reports() as reports:
        body: Body = kind(str(folder), max_seq_length=max_length, processor_kwargs=tokenizer_options(folder))
    for loaded in reports:
        _check_weights(loaded)
    return body


def tokenizer_options(folder: Path) -> dict[str, Any]:
    """What a tokenizer is loaded with; nothing where the model is of the hub, or one of Mistral's.

    transformers 4.57.3 to 4.57.6 take any large vocabulary in a folder that they have saved for one of Mistral's, and
    warn of "an incorrect regex pattern" in it.
    """
    kinds = [_model_type(file) for file in (folder / "config.json", *folder.glob("*/config.json")) if file.is_file()]
    return {MISTRAL: False} if kinds and not any("tral" in kind for kind in kinds) else {}


def _model_type(file: Path) -> str:
    config = json.loads(file.read_text(encoding="utf-8"))
    return str(config.get("model_type")) if isinstance(config, dict) else ""


def checked_source(name: str) -> tuple[str, str | None]:
    """Check the classes that a model names, and pin the commit that was checked.

    Returns: the folder and None, or the hub name and its commit.
    Raises:  LoadError: a class is unknown.  OSError, ValueError: the hub does not have the model.
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
    """Collect transformers' reports while models are loaded; sentence-transformers discards them."""
    reports: list[Loaded] = []
    load = Transformer._load_model

    def load_and_report(module: Transformer, *args: Any, **options: Any) -> Any:
        body, found = load(module, *args, **options | STRICT)
        reports.append(Loaded(module, found))
        return body

    with set_temporary_class_attrs(Transformer, _load_model=load_and_report):
        yield reports
    for loaded in reports:
        getattr(loaded.module.tokenizer, "init_kwargs", {}).pop(MISTRAL, None)  # else it is saved with the tokenizer


def _check_weights(loaded: Loaded) -> None:
    body, found = loaded.module.auto_model, loaded.found
    optional = () if _reads_pooler(loaded.module) else (POOLER,)
    parts = tuple(f"{name}." for name, _ in body.named_children() if f"{name}." not in optional)
    prefix = f"{body.base_model_prefix}."
    mismatched = sorted(found["mismatched_keys"])
    if mismatched:
        shape = tuple(body.state_dict()[mismatched[0]].shape)
        raise LoadError(f"its tensor {mismatched[0]} does not have the shape {shape} of its configuration")
    missing = [name for name in sorted(found["missing_keys"]) if not name.startswith(optional)]
    unexpected = [  # of the body; heads of other tasks are ignored
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
    """Check that every token has an embedding: a text with another token would fail."""
    words = module.auto_model.get_input_embeddings()
    rows = getattr(getattr(words, "table", words), "num_embeddings", None)  # of a bottleneck, or the whole table
    if rows is None or module.tokenizer is None:
        return
    token, index = max(module.tokenizer.get_vocab().items(), key=lambda item: item[1])
    if index >= rows:
        raise LoadError(
            f"its token {token!r} has id {index}, but there are {rows} word embeddings; call "
            "resize_token_embeddings and train the new ones, or remove the token"
        )


def _reason(exc: Exception, folder: Path) -> str:
    """The line of an error that says what is wrong; torch puts a heading before it."""
    try:
        refuse_pointers(files_under(folder))  # only now: a folder may have pointers that nothing reads
    except OSError as found:
        if isinstance(found, LfsPointer):
            return str(found)
    lines = [line.strip() for line in str(exc).splitlines() if line.strip()] or [type(exc).__name__]
    return f"{lines[0]} {lines[1]}" if lines[0].endswith(":") and len(lines) > 1 else lines[0]
