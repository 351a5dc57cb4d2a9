"""Loads sentence-transformers models; refuses incomplete ones and folders that would run code of their own.

transformers initialises missing weights at random and mentions it only in its log. Code is checked by a folder's JSON
files alone: nothing is loaded or run.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from huggingface_hub import snapshot_download
from sentence_transformers import SentenceTransformer
from sentence_transformers.base.modules import Module
from sentence_transformers.base.modules.transformer import set_temporary_class_attrs
from sentence_transformers.sentence_transformer.modules import Transformer
from sentence_transformers.sentence_transformer.modules.tokenizer import WordTokenizer
from sentence_transformers.util import ORIGINAL_TRANSFORMER_MODELS, import_from_string
from torch import nn

from training.errors import LoadError
from training.system.files import LfsPointer, files_under, refuse_pointers

MODULES_FILE = "modules.json"
OWN_MODULE = "training.models.sentence_encoder.CrossletTransformer"
TEXT_FILES = ("tokenizer.json", "vocab.json")  # large, and name no class

Named = tuple[str, object, bool]  # file, the class it names, whether that class is known


def check_code(folder: Path) -> None:
    """Check that every class a folder names is of sentence-transformers, torch, transformers or crosslet.

    Raises: LoadError: it names another class or code from a hub, or its `modules.json` is not a list of modules.
    """
    for file, name, known in _named(folder):
        if not known:
            raise LoadError(
                f"its {file} names {name}, which is not a class of sentence-transformers, transformers or torch; other "
                "code runs only with --trust-remote-code (in a training configuration trust_remote_code: true)"
            )


def _named(folder: Path) -> Iterator[Named]:
    file = folder / MODULES_FILE
    modules = json.loads(file.read_text(encoding="utf-8")) if file.is_file() else [{"path": ""}]
    if not (isinstance(modules, list) and all(isinstance(module, dict) for module in modules)):
        raise LoadError(f"its {MODULES_FILE} is not a list of modules")
    for module in modules:
        if "type" in module:
            yield MODULES_FILE, module["type"], _is_module(module["type"])
        yield from _named_by_module(folder, str(module.get("path", "")))


def _named_by_module(folder: Path, path: str) -> Iterator[Named]:
    """The classes that one module's files name, those of transformers included."""
    for file in sorted((folder / path).glob("*.json")):
        where = file.relative_to(folder).as_posix() if file.is_relative_to(folder) else file.as_posix()
        config = _read(file)
        for name, known in _named_in(config):
            yield where, name, known
        types = config.get("types")  # of a module with submodules, each in its own folder
        for inner, name in types.items() if isinstance(types, dict) else ():
            yield where, name, _is_module(name)
            yield from _named_by_module(folder, f"{path}/{inner}" if path else str(inner))


def _named_in(config: dict[str, Any]) -> Iterator[tuple[object, bool]]:
    for key, value in config.items():
        if key == "auto_map":
            # The author's class. A transformers class of the same type may compute something else.
            for reference in value.values() if isinstance(value, dict) else [value]:
                yield from ((name, False) for name in _listed(reference) if name)
        elif key == "activation_function" and "." in str(value):  # of Dense; a body's has no dot
            yield value, _is_activation(value)
        elif key == "tokenizer_class" and "." in str(value):  # of WordEmbeddings; a body's has no dot
            yield value, _is_class(value, "sentence_transformers.", WordTokenizer)
        elif "attn_implementation" in key and "/" in str(value):  # a kernel that is downloaded and run
            yield value, False
        elif isinstance(value, dict):
            yield from _named_in(value)


def _read(file: Path) -> dict[str, Any]:
    """A JSON object, or an empty one: no library reads invalid JSON either."""
    if file.name in TEXT_FILES:
        return {}
    try:
        config = json.loads(file.read_text(encoding="utf-8"))
    except ValueError:
        return {}
    return config if isinstance(config, dict) else {}


def _listed(value: object) -> list[object]:
    return value if isinstance(value, list) else [value]


def _is_module(name: object) -> bool:
    return name == OWN_MODULE or _is_class(name, "sentence_transformers.", Module)


def _is_activation(name: object) -> bool:
    return _is_class(name, "torch.nn.", nn.Module)


def _is_class(name: object, package: str, parent: type) -> bool:
    if not (isinstance(name, str) and name.startswith(package)):
        return False
    try:
        found = import_from_string(name)
    except ImportError:
        return False
    return isinstance(found, type) and issubclass(found, parent)


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
