"""Loads sentence-transformers models; refuses incomplete ones and folders that would run code of their own.

transformers initialises missing weights at random and mentions it only in its log. Code is checked by a folder's JSON
files alone: nothing is loaded or run.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

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


def check_code(folder: Path) -> None:
    """Check that every class a folder names is of sentence-transformers, torch, transformers or crosslet.

    Raises: LoadError: it names another class or code from a hub, or its `modules.json` is not a list of modules.
    """
    file = folder / MODULES_FILE
    modules = json.loads(file.read_text(encoding="utf-8")) if file.is_file() else [{"path": ""}]
    if not (isinstance(modules, list) and all(isinstance(module, dict) for module in modules)):
        raise LoadError(f"its {MODULES_FILE} is not a list of modules")
    for module in modules:
        if "type" in module and not _is_module(module["type"]):
            raise _foreign(MODULES_FILE, module["type"])
        _check_module(folder, str(module.get("path", "")))


def _check_module(folder: Path, path: str) -> None:
    """Check the classes that one module's files name, those of transformers included."""
    for file in sorted((folder / path).glob("*.json")):
        where = file.relative_to(folder).as_posix() if file.is_relative_to(folder) else file.as_posix()
        config = _read(file)
        for name in _foreign_names(config):
            raise _foreign(where, name)
        types = config.get("types")  # of a module with submodules, each in its own folder
        for inner, name in types.items() if isinstance(types, dict) else ():
            if not _is_module(name):
                raise _foreign(where, name)
            _check_module(folder, f"{path}/{inner}" if path else str(inner))


def _foreign(file: str, name: object) -> LoadError:
    return LoadError(
        f"its {file} names {name}, which is not a class of sentence-transformers, transformers or torch; other "
        "code runs only with --trust-remote-code (in a training configuration trust_remote_code: true)"
    )


def _foreign_names(config: dict[str, Any]) -> Iterator[object]:
    for key, value in config.items():
        if key == "auto_map":
            # The author's class. A transformers class of the same type may compute something else.
            for reference in value.values() if isinstance(value, dict) else [value]:
                yield from filter(None, reference if isinstance(reference, list) else [reference])
        elif key == "activation_function" and "." in str(value):  # of Dense; a body's has no dot
            yield from [] if _is_class(value, "torch.nn.", nn.Module) else [value]
        elif key == "tokenizer_class" and "." in str(value):  # of WordEmbeddings; a body's has no dot
            yield from [] if _is_class(value, "sentence_transformers.", WordTokenizer) else [value]
        elif "attn_implementation" in key and "/" in str(value):  # a kernel that is downloaded and run
            yield value
        elif isinstance(value, dict):
            yield from _foreign_names(value)


def _read(file: Path) -> dict[str, Any]:
    """A JSON object, or an empty one: no library reads invalid JSON either."""
    if file.name in TEXT_FILES:
        return {}
    try:
        config = json.loads(file.read_text(encoding="utf-8"))
    except ValueError:
        return {}
    return config if isinstance(config, dict) else {}


def _is_module(name: object) -> bool:
    return name == OWN_MODULE or _is_class(name, "sentence_transformers.", Module)


def _is_class(name: object, package: str, parent: type) -> bool:
    if not (isinstance(name, str) and name.startswith(package)):
        return False
    try:
        named = import_from_string(name)
    except ImportError:
        return False
    return isinstance(named, type) and issubclass(named, parent)


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
Report = tuple[Transformer, dict[str, Any]]  # a module with a transformer, and transformers' word on its tensors


def load_sentence_transformer(name: str, *, trust_remote_code: bool = False, **options: Any) -> SentenceTransformer:
    """Load a model from a folder or the hub, with every weight of its body.

    Args:   trust_remote_code: run the code that the folder names.  options: of `SentenceTransformer`.
    Raises: LoadError: a class is unknown; a tensor of the body is missing, unexpected or of another shape; a token has
                no embedding; `truncate_dim` is no number; or the model cannot be loaded at all.
    """
    try:
        if not trust_remote_code:
            name, revision = checked_source(name)
            options["revision"] = revision
        options["processor_kwargs"] = tokenizer_options(Path(name)) | options.get("processor_kwargs", {})
        with _checked_weights() as reports:
            model = SentenceTransformer(name, trust_remote_code=trust_remote_code, **options)
        for module, _ in reports:
            _check_vocabulary(module)
        dims = model.truncate_dim
        if dims is not None and (type(dims) is not int or dims < 1):
            raise LoadError(f"its truncate_dim is {dims!r}; it must be a whole number of at least 1")
    except LoadError:
        raise
    except Exception as exc:  # transformers, safetensors and json raise errors without a common base
        raise LoadError(_reason(exc, Path(name))) from exc
    return model


def load_body(folder: Path, kind: type[Body], *, max_length: int) -> Body:
    """Load the first module of a crosslet folder that has no `modules.json` yet.

    Raises: LoadError: its weights do not match its configuration.
    """
    with _checked_weights():
        body: Body = kind(str(folder), max_seq_length=max_length, processor_kwargs=tokenizer_options(folder))
    return body


def tokenizer_options(folder: Path) -> dict[str, Any]:
    """What a tokenizer is loaded with; nothing where the model is of the hub, or one of Mistral's.

    transformers 4.57.3 to 4.57.6 take any large vocabulary in a folder that they have saved for one of Mistral's, and
    warn of "an incorrect regex pattern" in it.
    """
    files = (file for file in (folder / "config.json", *folder.glob("*/config.json")) if file.is_file())
    configs = [json.loads(file.read_text(encoding="utf-8")) for file in files]
    kinds = [str(config.get("model_type")) if isinstance(config, dict) else "" for config in configs]
    return {MISTRAL: False} if kinds and not any("tral" in kind for kind in kinds) else {}


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
def _checked_weights() -> Iterator[list[Report]]:
    """Collect transformers' reports on what the block loads, which sentence-transformers discards, and check them.

    Raises: LoadError: a tensor is missing, unexpected or of another shape.
    """
    reports: list[Report] = []
    load = Transformer._load_model

    def load_and_report(module: Transformer, *args: Any, **options: Any) -> Any:
        body, report = load(module, *args, **options | STRICT)
        reports.append((module, report))
        return body

    with set_temporary_class_attrs(Transformer, _load_model=load_and_report):
        yield reports
    for module, report in reports:
        getattr(module.tokenizer, "init_kwargs", {}).pop(MISTRAL, None)  # else it is saved with the tokenizer
        _check_weights(module, report)


def _check_weights(module: Transformer, report: dict[str, Any]) -> None:
    body, modes = module.auto_model, module.modality_config.values()
    reads_pooler = any(mode.get("method_output_name") == "pooler_output" for mode in modes)
    optional = () if reads_pooler else (POOLER,)
    parts = tuple(f"{name}." for name, _ in body.named_children() if f"{name}." not in optional)
    prefix = f"{body.base_model_prefix}."
    mismatched = sorted(report["mismatched_keys"])
    if mismatched:
        shape = tuple(body.state_dict()[mismatched[0]].shape)
        raise LoadError(f"its tensor {mismatched[0]} does not have the shape {shape} of its configuration")
    missing = [name for name in sorted(report["missing_keys"]) if not name.startswith(optional)]
    unexpected = [  # of the body; heads of other tasks are ignored
        name
        for name in sorted(report["unexpected_keys"])
        if name.removeprefix(prefix).startswith(parts) and not name.endswith(BUFFERS)
    ]
    for names, what in ((missing, "lacks"), (unexpected, "has, unknown to its configuration,")):
        if names:
            raise LoadError(f"its checkpoint {what} {len(names)} tensors of the body, the first {names[0]}")


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
    except OSError as error:
        if isinstance(error, LfsPointer):
            return str(error)
    lines = [line.strip() for line in str(exc).splitlines() if line.strip()] or [type(exc).__name__]
    return f"{lines[0]} {lines[1]}" if lines[0].endswith(":") and len(lines) > 1 else lines[0]
