"""Loads sentence-transformers folders whole, and runs no code of theirs. Knows modules and weights, not their use.

transformers fills what a checkpoint lacks with random numbers, and sentence-transformers imports what `modules.json`
names from the folder itself. Both are refused here.
"""

from __future__ import annotations

import json
from copy import deepcopy
from pathlib import Path
from typing import Any

from sentence_transformers import SentenceTransformer
from transformers import AutoModel
from transformers.utils import cached_file

from training.errors import LoadError

MODULES_FILE = "modules.json"
KNOWN_MODULES = "sentence_transformers."  # the package whose classes may be modules
OWN_MODULE = "training.sentence.CrossletTransformer"  # looked for in the folder first: no Python file may be there
# Heads that are not used, and buffers that older versions wrote.
OPTIONAL = ("pooler.",)
BUFFERS = ("position_ids", "token_type_ids")


def load_sentence_transformer(path: str, *, trust_remote_code: bool = False, **options: Any) -> SentenceTransformer:
    """A model from a folder or the hub, every weight of its body from there.

    Args: trust_remote_code: run the Python files beside the weights; their classes are then not checked.
          options: of `SentenceTransformer`.
    Raises: LoadError: a module is of an unknown class, a tensor of the body is missing, unexpected or of another
                shape, or the model cannot be loaded at all.
    """
    try:
        if not trust_remote_code:
            _check_modules(path)
        model = SentenceTransformer(path, trust_remote_code=trust_remote_code, **options)
        if not trust_remote_code:
            _check_weights(model, path)
    except LoadError:
        raise
    except Exception as exc:  # transformers, safetensors and json raise errors without a common base
        raise LoadError(_mismatch(path) if "size mismatch" in str(exc) else _reason(exc)) from exc
    return model


def _check_modules(path: str) -> None:
    for module in _modules(path):
        _check_class(module.get("type"), path)
    if Path(path).is_dir():  # modules that hold others name these in files of their own
        for file in Path(path).rglob("*config.json"):
            config = json.loads(file.read_text(encoding="utf-8-sig"))
            types = config.get("types") if isinstance(config, dict) else None
            for name in types.values() if isinstance(types, dict) else ():
                _check_class(name, path)


def _check_class(name: object, path: str) -> None:
    is_own = name == OWN_MODULE and not any(Path(path).rglob("*.py"))
    if not (is_own or (isinstance(name, str) and name.startswith(KNOWN_MODULES))):
        raise LoadError(
            f"its module {name} is no class of sentence-transformers; code of a model folder runs only with "
            "--trust-remote-code"
        )


def _modules(path: str) -> list[dict[str, Any]]:
    file = cached_file(
        path,
        MODULES_FILE,
        _raise_exceptions_for_missing_entries=False,
        _raise_exceptions_for_connection_errors=False,
        _raise_exceptions_for_gated_repo=False,
    )
    modules = json.loads(Path(file).read_text(encoding="utf-8-sig")) if file else []
    if not (isinstance(modules, list) and all(isinstance(module, dict) for module in modules)):
        raise LoadError(f"its {MODULES_FILE} is no list of modules")
    return modules


def _check_weights(model: SentenceTransformer, path: str) -> None:
    """Read the body's weights again, with the report that sentence-transformers throws away."""
    body = getattr(model[0], "auto_model", None)
    if body is None:
        return
    _, found = type(body).from_pretrained(
        path, config=deepcopy(body.config), subfolder=_subfolder(path), output_loading_info=True
    )
    parts = tuple(f"{name}." for name, _ in body.named_children() if name != "pooler")
    prefix = f"{body.base_model_prefix}."
    missing = [name for name in sorted(found["missing_keys"]) if not name.startswith(OPTIONAL)]
    unexpected = [
        name
        for name in sorted(found["unexpected_keys"])
        if name.removeprefix(prefix).startswith(parts) and not name.endswith(BUFFERS)
    ]
    for names, what in ((missing, "lacks"), (unexpected, "has, unknown to its configuration,")):
        if names:
            raise LoadError(f"its checkpoint {what} {len(names)} tensors of the body, the first {names[0]}")


def _subfolder(path: str) -> str:
    """Where the body is: the first module's."""
    return next((str(module.get("path", "")) for module in _modules(path)), "")


def _mismatch(path: str) -> str:
    """The first tensor that has another shape than the configuration says; torch names it without its layer."""
    _, found = AutoModel.from_pretrained(
        path, subfolder=_subfolder(path), output_loading_info=True, ignore_mismatched_sizes=True
    )
    names = sorted(map(str, found["mismatched_keys"])) or ["beside the body"]
    return f"its tensor {names[0]} has another shape than its configuration says"


def _reason(exc: Exception) -> str:
    """The line of an error that names what is wrong: torch has a heading before it."""
    lines = [line.strip() for line in str(exc).splitlines() if line.strip()] or [type(exc).__name__]
    return f"{lines[0]} {lines[1]}" if lines[0].endswith(":") and len(lines) > 1 else lines[0]
