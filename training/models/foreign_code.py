"""Refuses model folders that would run code other than that of the installed libraries.

Reads the folder's JSON files only: loads no weights and runs nothing.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from sentence_transformers.base.modules import Module
from sentence_transformers.sentence_transformer.modules.tokenizer import WordTokenizer
from sentence_transformers.util import import_from_string
from torch import nn

from training.errors import LoadError

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
