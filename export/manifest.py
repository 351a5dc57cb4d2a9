"""Builds the manifest of a graph that passed its gate."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Literal, Protocol

from export.checkpoint import TrainingRecord, training_facts
from service.model.artifact import SCHEMA_VERSION, Activations, Kind, Manifest, Padding
from service.version import VERSION


class Measured(Protocol):
    """What a manifest says of a graph."""

    @property
    def parameters(self) -> int:
        """The number of weights."""

    @property
    def activations(self) -> Activations:
        """How they are quantised."""

    @property
    def padding(self) -> Padding:
        """What padding costs."""

    def figures(self) -> Mapping[str, float | None]:
        """Everything measured, by name."""


def manifest_of(
    record: TrainingRecord, graph: Measured, *, kind: Kind, dim: int, precision: Literal["int8", "fp32"], **facts: Any
) -> Manifest:
    """Return the manifest without files and fingerprint, which are known when the files are written.

    Args: facts: more fields of `Manifest`.
    """
    return Manifest(
        schema_version=SCHEMA_VERSION,
        name=record.name,
        kind=kind,
        dim=dim,
        max_length=record.max_length,
        languages=record.languages,
        precision=precision,
        parameters=graph.parameters,
        fingerprint="",
        files={},
        training=training_facts(record),
        evaluation={**record.evaluation, "export": graph.figures()},
        data_licences=record.data,
        created_by=f"crosslet {VERSION}",
        created_at=datetime.now(UTC).isoformat(timespec="seconds"),
        activations=graph.activations,
        padding=graph.padding,
        **facts,
    )
