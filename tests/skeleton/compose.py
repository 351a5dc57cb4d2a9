"""Reads docker-compose.yml as `docker compose` does without an environment. Knows its values; judges nothing."""

import re
from collections.abc import Iterator
from typing import Any

import yaml

from tests.skeleton.project import ROOT

VARIABLE = re.compile(r"\$\{(\w+)(?::([-+])([^}]*))?\}")


def compose(**variables: str) -> dict[str, Any]:
    """The file with its variables replaced: by these, or by their defaults."""

    def value(match: re.Match[str]) -> str:
        name, operator, word = match[1], match[2], match[3] or ""
        given = variables.get(name, "")
        if operator == "+":
            return word if given else ""
        return given or word

    text = (ROOT / "docker-compose.yml").read_text(encoding="utf-8")
    content: dict[str, Any] = yaml.safe_load(VARIABLE.sub(value, text))
    return content


def started(profiles: set[str]) -> dict[str, Any]:
    """The services that `up` starts with these profiles."""
    services: dict[str, Any] = compose()["services"]
    return {
        name: service
        for name, service in services.items()
        if "profiles" not in service or profiles & set(service["profiles"])
    }


def variables() -> set[str]:
    """Every variable that the file reads, those that are passed on under their own name too."""
    text = (ROOT / "docker-compose.yml").read_text(encoding="utf-8")
    passed = {name for service in compose()["services"].values() for name in _passed(service)}
    return {match[1] for match in VARIABLE.finditer(text)} | passed


def _passed(service: dict[str, Any]) -> Iterator[str]:
    environment = service.get("environment", {})
    return (name for name, value in environment.items() if value is None)


def binds(service: dict[str, Any]) -> list[tuple[str, str, bool]]:
    """(path in the checkout, path in the container, read-only) of what is mounted from this machine."""
    mounts = [volume.split(":") for volume in service.get("volumes", [])]
    return [(source[2:], target, "ro" in mode) for source, target, *mode in mounts if source.startswith("./")]


def published(service: dict[str, Any]) -> list[tuple[str, int, int]]:
    """(address, port of this machine, port of the container) of each port."""
    ports = [port.split(":") for port in service.get("ports", [])]
    return [(address, int(outside), int(inside)) for address, outside, inside in ports]
