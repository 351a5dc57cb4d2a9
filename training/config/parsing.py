"""Builds frozen dataclasses from plain YAML values, checked key by key and type by type."""

from __future__ import annotations

import dataclasses
import types
import typing
from pathlib import Path
from typing import Any, Literal, TypeVar

import yaml

from training.errors import ConfigError

ConfigT = TypeVar("ConfigT")


def read_yaml(path: Path) -> Any:
    """The values of a YAML file.

    Raises: ConfigError: the file is missing or not YAML.
    """
    try:
        return yaml.safe_load(path.read_bytes())  # bytes: yaml detects the encoding by its byte-order mark
    except FileNotFoundError as exc:
        raise ConfigError(f"there is no configuration file {path}") from exc
    except yaml.YAMLError as exc:
        raise ConfigError(f"{path} is not YAML: {exc}") from exc


def build(cls: type[ConfigT], raw: Any, *, where: str) -> ConfigT:
    """A dataclass from plain YAML values.

    Raises: ConfigError: a key is unknown or missing, or a value has the wrong type; the message names it.
    """
    if not isinstance(raw, dict):
        raise ConfigError(f"{where} must be a mapping of settings, not {type(raw).__name__}")
    hints = typing.get_type_hints(cls)
    unknown = sorted(set(raw) - set(hints), key=str)
    if unknown:
        raise ConfigError(f"{where}: unknown key {unknown[0]!r}; known keys: {', '.join(sorted(hints))}")
    values = {key: _value(hints[key], value, where=f"{where}: {key}") for key, value in raw.items()}
    missing = [
        item.name
        for item in dataclasses.fields(cls)  # type: ignore[arg-type]
        if item.name not in values
        and item.default is dataclasses.MISSING
        and item.default_factory is dataclasses.MISSING
    ]
    if missing:
        raise ConfigError(f"{where}: missing key {missing[0]!r}")
    return cls(**values)


def _value(hint: Any, value: Any, *, where: str) -> Any:
    """One value checked against its type hint."""
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if dataclasses.is_dataclass(hint):
        return build(typing.cast("type[Any]", hint), value if value is not None else {}, where=where)
    if origin in (types.UnionType, typing.Union):  # Literal | None is a typing.Union
        return None if value is None else _value(arguments[0], value, where=where)
    if origin is Literal:
        if value not in arguments:
            raise ConfigError(f"{where} is {value!r}; it must be one of {', '.join(map(str, arguments))}")
        return value
    if origin is list and isinstance(value, list):
        return [_value(arguments[0], item, where=where) for item in value]
    if origin is dict and isinstance(value, dict):
        wrong = [key for key in value if not isinstance(key, arguments[0])]
        if wrong:
            raise ConfigError(f"{where} has the key {wrong[0]!r}, which YAML does not read as text: put it in quotes")
        return {key: _value(arguments[1], item, where=f"{where}.{key}") for key, item in value.items()}
    expected = origin or hint
    if expected is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if not isinstance(value, expected) or (expected is int and isinstance(value, bool)):
        hint_text = " (YAML reads 1e-4 as text: write 1.0e-4)" if expected is float else ""
        raise ConfigError(
            f"{where} is {value!r}; it must be of type {getattr(expected, '__name__', expected)}{hint_text}"
        )
    return value
