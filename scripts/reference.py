"""Writes docs/reference/settings.md and configuration.md from the code that reads them. Knows no setting by name.

python scripts/reference.py [FOLDER]      # from the root of the repository, in the development environment
"""

import ast
import dataclasses
import inspect
import json
import sys
import tokenize
import typing
from collections.abc import Iterator
from io import StringIO
from pathlib import Path
from textwrap import dedent
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from pydantic import SecretStr  # noqa: E402 - the repository is on the path from here on

from service.settings import PREFIX, Settings  # noqa: E402
from training.config.run import RunConfig  # noqa: E402, TID251 - a tool of the repository, no part of the service

SETTINGS_HEAD = """# Settings

Written by `make reference` from `service/settings.py`; do not edit.

The service reads these environment variables once, at start, and logs them without keys. An empty variable counts as
unset. A variable that starts with `CROSSLET_` but is no setting is logged as a warning, with the closest setting.

| variable | default | meaning |
|---|---|---|
"""
CONFIGURATION_HEAD = """# Configuration keys

Written by `make reference` from the training configuration's dataclasses; do not edit.

`training/run.sh --config FILE` reads YAML. An unknown key is an error. `training/configs/` has complete examples, and
[train](../guide/train.md) explains what to choose. "required" means that the key has no default. Equations are those of
[Ding et al. 2022](https://aclanthology.org/2022.findings-naacl.167/).
"""
TABLE_HEAD = "| key | values | default | meaning |\n|---|---|---|---|\n"


def settings_page() -> str:
    """One row for each setting of the service."""
    rows = [
        f"| `{PREFIX}{name.upper()}` | {_setting_default(field.default)} | {field.description} |"
        for name, field in Settings.model_fields.items()
    ]
    return SETTINGS_HEAD + "\n".join(rows) + "\n"


def configuration_page() -> str:
    """One table for each dataclass under `RunConfig`; a subclass adds its own keys to those of its base."""
    paths = _paths(RunConfig, "")
    return CONFIGURATION_HEAD + "".join(_section(cls, where) for cls, where in paths.items())


def _setting_default(value: object) -> str:
    if value in (None, "", SecretStr("")):
        return "none"
    if isinstance(value, Path) and value.is_absolute():
        return f"{value.relative_to(ROOT)} of the checkout"
    return json.dumps(value) if isinstance(value, bool) else f"{value:g}" if isinstance(value, float) else str(value)


def _paths(cls: type[Any], prefix: str) -> dict[type[Any], list[str]]:
    """The dataclasses of a configuration in order, each with the keys under which it stands."""
    found: dict[type[Any], list[str]] = {cls: [prefix]}
    for name, hint in typing.get_type_hints(cls).items():
        is_mapping = typing.get_origin(hint) is dict
        inner = typing.get_args(hint)[1] if is_mapping else hint
        if dataclasses.is_dataclass(inner) and isinstance(inner, type):
            place = f"{prefix}{name}.NAME." if is_mapping else f"{prefix}{name}."
            bases = [base for base in inner.__mro__[1:] if dataclasses.is_dataclass(base)]
            for base in reversed(bases):
                found.setdefault(base, []).append(place)
            for below, places in _paths(inner, place).items():
                found.setdefault(below, []).extend(places)
    return found


def _section(cls: type[Any], places: list[str]) -> str:
    named = ", ".join(f"`{place.rstrip('.')}`" for place in places if place)
    rows = "".join(_rows(cls))
    return f"\n## {named or 'The run'}\n\n{inspect.getdoc(cls)}\n\n{TABLE_HEAD}{rows}"


def _rows(cls: type[Any]) -> Iterator[str]:
    defaults = {item.name: _default(item) for item in dataclasses.fields(cls)}
    for name, (annotation, comment) in _annotated(cls).items():
        meaning = comment.replace("None:", "null:").replace("CorpusConfig.", "corpus.")
        yield f"| `{name}` | {_values(annotation)} | {defaults[name]} | {meaning} |\n"


def _annotated(cls: type[Any]) -> dict[str, tuple[ast.expr, str]]:
    """The annotation of each field that a class itself has, and the comment on it or on the lines above it."""
    source = dedent(inspect.getsource(cls))
    comments = {
        token.start[0]: token.string.lstrip("# ")
        for token in tokenize.generate_tokens(StringIO(source).readline)
        if token.type == tokenize.COMMENT
    }
    (definition,) = ast.parse(source).body
    assert isinstance(definition, ast.ClassDef)  # noqa: S101 - for mypy: it is the source of a class
    fields, end_above = {}, definition.lineno
    for node in definition.body:
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            lines = range(end_above + 1, (node.end_lineno or node.lineno) + 1)
            fields[node.target.id] = (node.annotation, " ".join(comments[line] for line in lines if line in comments))
        end_above = node.end_lineno or node.lineno
    return fields


def _values(annotation: ast.expr) -> str:
    """`Literal["a", "b"]` as `a`, `b`; the name of a dataclass of settings as "keys"; other types as they are."""
    text = ast.unparse(annotation)
    if text.startswith("Literal["):
        return ", ".join(f"`{value}`" for value in ast.literal_eval(text.removeprefix("Literal")))
    if text.endswith("Config"):
        return "keys, below"
    if text.startswith("dict[str, ") and text.endswith("Config]"):
        return "keys by name, below"
    return text.replace("None", "null").replace(" | ", " or ")


def _default(item: "dataclasses.Field[Any]") -> str:
    if item.default is not dataclasses.MISSING:
        value = item.default
    elif item.default_factory is not dataclasses.MISSING:
        value = item.default_factory()
    else:
        return "required"
    return "" if dataclasses.is_dataclass(value) else f"`{json.dumps(value)}`"


def main(folder: Path) -> None:
    """Write both pages."""
    (folder / "settings.md").write_text(settings_page(), encoding="utf-8")
    (folder / "configuration.md").write_text(configuration_page(), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "docs" / "reference")
