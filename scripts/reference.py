"""Writes docs/reference: settings.md and configuration.md from the code that reads them, clients.md from the tests.

python scripts/reference.py [FOLDER]      # from the root of the repository, in the development environment
"""

import inspect
import json
import sys
import types
import typing
from collections.abc import Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from pydantic import BaseModel, SecretStr  # noqa: E402 - the repository is on the path from here on
from pydantic.fields import FieldInfo  # noqa: E402

from service.settings import PREFIX, Settings  # noqa: E402
from tests.clients.matrix import CLIENTS, RECORDED  # noqa: E402
from training.config.run import RunConfig  # noqa: E402, TID251 - a tool of the repository, no part of the service

SETTINGS_HEAD = """# Settings

Written by `make reference` from `service/settings.py`; do not edit.

The service reads these environment variables once, at start, and logs them without keys. An empty variable counts as
unset. A variable that starts with `CROSSLET_` but is no setting is logged as a warning, with the closest setting.

|variable|default|meaning|
|---|---|---|
"""
CONFIGURATION_HEAD = """# Configuration keys

Written by `make reference` from the models of the training configuration; do not edit.

`training/run.sh --config FILE` reads YAML. An unknown key is an error. `training/configs/` has complete examples, and
[train](../guide/train.md) explains what to choose. "required" means that the key has no default. Equations are those of
[Ding et al. 2022](https://aclanthology.org/2022.findings-naacl.167/).
"""
CLIENTS_HEAD = """# Clients

Written by `make reference` from `tests/clients/matrix.py`; do not edit.

These work unchanged but for their address and key. `make test-clients` runs each in its own environment against a live
service, and compares what it gets with the service's own routes.

|client|packages|set|
|---|---|---|
"""
RECORDED_HEAD = """
[Assistants](../guide/mcp.md) work by MCP, which tests try by the official SDK. These do not run in a test:
`tests/service/api/test_recorded_clients.py` sends what they send, by their code of 2026.

|client|set|
|---|---|
"""
BOUNDS = {  # a constraint of a type -> words
    "ge": "≥ {:g}",
    "gt": "> {:g}",
    "le": "≤ {:g}",
    "lt": "< {:g}",
    "min_length": "≥ {:g}",
    "max_length": "≤ {:g}",
}
TABLE_HEAD = "|key|values|default|meaning|\n|---|---|---|---|\n"


def settings_page() -> str:
    """One row for each setting of the service."""
    rows = [
        f"|`{PREFIX}{name.upper()}`|{_setting_default(field.default)}|{field.description}|"
        for name, field in Settings.model_fields.items()
    ]
    return SETTINGS_HEAD + "\n".join(rows) + "\n"


def configuration_page() -> str:
    """One table for each model under `RunConfig`; a subclass has its own keys and new defaults."""
    return CONFIGURATION_HEAD + "".join(_section(cls, places) for cls, places in _places(RunConfig, "").items())


def clients_page() -> str:
    """One row for each client."""
    ran = [f"|{one.name}|{', '.join(f'`{package}`' for package in one.packages)}|{one.says}|" for one in CLIENTS]
    sent = [f"|{one.name}|{one.says}|" for one in RECORDED]
    return CLIENTS_HEAD + "\n".join(ran) + "\n" + RECORDED_HEAD + "\n".join(sent) + "\n"


def _setting_default(value: object) -> str:
    if value in (None, "", SecretStr("")):
        return "none"
    if isinstance(value, Path) and value.is_absolute():
        return f"{value.relative_to(ROOT)} of the checkout"
    return json.dumps(value) if isinstance(value, bool) else f"{value:g}" if isinstance(value, float) else str(value)


def _places(cls: type[BaseModel], prefix: str) -> dict[type[BaseModel], list[str]]:
    """The models of a configuration in order, each with the keys under which it stands."""
    places: dict[type[BaseModel], list[str]] = {cls: [prefix]}
    for name, field in cls.model_fields.items():
        is_mapping = typing.get_origin(field.annotation) is dict
        inner = typing.get_args(field.annotation)[1] if is_mapping else field.annotation
        if not _is_model(inner):
            continue
        place = f"{prefix}{name}.NAME." if is_mapping else f"{prefix}{name}."
        for base in reversed(inner.__mro__[1:]):
            if _is_model(base) and base.model_fields:
                places.setdefault(base, []).append(place)
        for below, inner_places in _places(inner, place).items():
            places.setdefault(below, []).extend(inner_places)
    return places


def _is_model(annotation: Any) -> bool:
    return isinstance(annotation, type) and issubclass(annotation, BaseModel)


def _section(cls: type[BaseModel], places: list[str]) -> str:
    listed = ", ".join(f"`{place.rstrip('.')}`" for place in places if place)
    rows = "".join(
        f"|`{name}`|{_values(field.annotation, field.metadata)}|{_default(field)}|{field.description}|\n"
        for name, field in cls.model_fields.items()
        if name in cls.__annotations__
    )
    return f"\n## {listed or 'The run'}\n\n{inspect.getdoc(cls)}\n\n{TABLE_HEAD}{rows}"


def _values(annotation: Any, constraints: Sequence[Any] = ()) -> str:
    """What a key takes: a type and its bounds, the choices of a `Literal`, or "keys"."""
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if annotation is type(None):
        return "null"
    if origin is typing.Annotated:
        field = FieldInfo.from_annotation(annotation)
        return _values(field.annotation, field.metadata)
    if origin in (types.UnionType, typing.Union):
        return " or ".join(map(_values, arguments))
    if origin is typing.Literal:
        return ", ".join(f"`{value}`" for value in arguments)
    if origin is dict:
        return "keys by name, below"
    if _is_model(annotation):
        return "keys, below"
    text = f"list of {_values(arguments[0])}, length" if origin is list else annotation.__name__
    bounds = [
        words.format(getattr(constraint, bound))
        for constraint in constraints
        for bound, words in BOUNDS.items()
        if getattr(constraint, bound, None) is not None
    ]
    return f"{text} {' and '.join(bounds)}" if bounds else text.removesuffix(", length")


def _default(field: FieldInfo) -> str:
    if field.is_required():
        return "required"
    return "" if isinstance(field.default, BaseModel) else f"`{json.dumps(field.default)}`"


def main(folder: Path) -> None:
    """Write all pages."""
    (folder / "settings.md").write_text(settings_page(), encoding="utf-8")
    (folder / "configuration.md").write_text(configuration_page(), encoding="utf-8")
    (folder / "clients.md").write_text(clients_page(), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "docs" / "reference")
