"""Reads settings from YAML into frozen pydantic models; every complaint is one sentence that names the place."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

import yaml
from pydantic import BaseModel, ConfigDict, ValidationError, model_validator

from training.errors import ConfigError

MUST_BE = {  # kind of pydantic's complaint -> what the value must be
    "int_type": "a whole number",
    "float_type": "a number (YAML reads 1e-4 as text: write 1.0e-4)",
    "finite_number": "a finite number",
    "string_type": "text",
    "bool_type": "true or false",
    "list_type": "a list",
    "dict_type": "a mapping",
    "model_type": "a mapping of settings",
    "literal_error": "{expected}",
    "greater_than": "above {gt:g}",
    "greater_than_equal": "at least {ge:g}",
    "less_than": "below {lt:g}",
    "less_than_equal": "at most {le:g}",
}


class ConfigModel(BaseModel):
    """A mapping of settings: frozen, without unknown keys, each value of exactly its type."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", strict=True, allow_inf_nan=False, use_attribute_docstrings=True
    )

    @model_validator(mode="before")
    @classmethod
    def _check_keys(cls, values: Any) -> Any:
        """Name an unknown key beside the known ones. A section without keys is null in YAML."""
        if values is None:
            return {}
        if isinstance(values, dict):
            unknown = sorted(values.keys() - cls.model_fields.keys(), key=str)
            if unknown:
                raise ValueError(f"unknown key {unknown[0]!r}; known keys: {', '.join(sorted(cls.model_fields))}")
        return values


ConfigT = TypeVar("ConfigT", bound=ConfigModel)


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
    """Settings from plain YAML values.

    Raises: ConfigError: a key is unknown or missing, or a value cannot be used; the message names it.
    """
    try:
        return cls.model_validate(raw)
    except ValidationError as exc:
        raise ConfigError(f"{where}: {_complaint(dict(exc.errors()[0]))}") from exc


def _complaint(error: Mapping[str, Any]) -> str:
    """One of pydantic's errors as a sentence with the place, the value and what it must be."""
    kind, loc, value, context = error["type"], error["loc"], error["input"], error.get("ctx", {})
    place = ".".join(map(str, loc))
    if kind == "value_error":  # from a validator of a `ConfigModel`
        return f"{place}: {context['error']}" if place else str(context["error"])
    if kind == "missing":
        return f"{'.'.join(map(str, loc[:-1]))}: missing key {loc[-1]!r}".removeprefix(": ")
    if loc[-1:] == ("[key]",):
        owner = ".".join(map(str, loc[:-2]))
        return f"{owner} has the key {value!r}, which YAML does not read as text: put it in quotes"
    if kind == "too_short":
        return f"{place} has {context['actual_length']} entries; it must have at least {context['min_length']}"
    if kind == "too_long":
        return f"{place} has {context['actual_length']} entries; it must have at most {context['max_length']}"
    must_be = MUST_BE[kind].format(**context) if kind in MUST_BE else f"valid: {error['msg']}"
    return f"{place} is {value!r}; it must be {must_be}" if place else f"the file must be {must_be}"
