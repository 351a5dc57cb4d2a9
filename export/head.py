"""Puts an alignment head after the vectors of an artifact, by an edit of its graph. Knows onnx; knows no torch.

    sentence_embedding -> head -> unit length -> less a mean -> unit length -> sentence_embedding

Shapes: N texts, D dims.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
from onnx import helper, numpy_helper

from export.bundle import check_target, write_artifact
from export.card import model_card
from export.errors import Refused
from export.session import open_session, run_each
from service.model.artifact import (
    CARD_FILE,
    MODEL_FILE,
    PARITY_FILE,
    DataLicence,
    Manifest,
    load_manifest,
    load_parity,
    verify_files,
)
from training.alignment.layers import Head
from training.alignment.pairs import with_languages

OUTPUT = "sentence_embedding"
DECIMALS = 7  # of a parity vector
MIN_COSINE = 0.99999  # of the edited graph to numpy: the same arithmetic in another order
OPERATORS = {"tanh": "Tanh", "relu": "Relu"}


def add_head(artifact: Path, out: Path, head: Head, *, alignment: Mapping[str, Any], data: DataLicence) -> Manifest:
    """Write a copy of an artifact whose vectors went through the head, with a new parity pack, fingerprint and card.

    Maps into the spaces of other models, scores, thresholds and confidence are left out: they are of the old vectors.

    Args:   alignment: what the card says of the head: how it was trained, gains and losses.  data: the pairs.
    Raises: ArtifactError: the folder is no artifact.  BadRequest: `out` cannot be written.
            Refused: the new graph does not compute the head.
    """
    check_target(out, force=False)
    before = load_manifest(artifact)
    verify_files(artifact, before)
    model = onnx.load(str(artifact / MODEL_FILE))
    append_head(model, head)
    model_bytes = model.SerializeToString()
    parity = load_parity(artifact, before)
    old_ND, new_ND = (run_each(open_session(graph), parity.input_ids) for graph in (artifact / MODEL_FILE, model_bytes))
    _check(head(old_ND), new_ND)
    rows = tuple(tuple(round(float(value), DECIMALS) for value in row) for row in new_ND)
    spaces = {space.file for space in before.spaces}
    after = dataclasses.replace(
        before,
        name=f"{before.name}-{alignment['languages']}",
        languages=with_languages(before.languages, alignment["languages"]),
        parameters=before.parameters + head.parameters,
        evaluation={"alignment": {"before": before.fingerprint, **alignment}},
        confidence=None,
        created_at=datetime.now(UTC).isoformat(timespec="seconds"),
        data_licences=(*before.data_licences, data),
        spaces=(),
    )
    files: dict[str, Path | bytes] = {name: artifact / name for name in before.files if name not in spaces}
    files |= {
        MODEL_FILE: model_bytes,
        PARITY_FILE: dataclasses.replace(parity, embeddings=rows).to_json().encode(),
        CARD_FILE: model_card(after, model_bytes=len(model_bytes), folder=artifact).encode(),
    }
    return write_artifact(out, files, after, force=False)


def append_head(model: onnx.ModelProto, head: Head) -> None:
    """Edit a graph in place: what was its output goes through the head, and its output keeps its name."""
    graph = model.graph
    taken = {name for node in graph.node for name in (*node.input, *node.output)}
    number = next(number for number in range(len(taken) + 1) if f"head.{number}.input" not in taken)
    prefix = f"head.{number}"
    _rename(graph, OUTPUT, f"{prefix}.input")
    current = f"{prefix}.input"
    for position, layer in enumerate(head.layers):
        name = f"{prefix}.layer.{position}"
        weights = {f"{name}.weight": layer.weight_DD, f"{name}.bias": layer.bias_D}
        graph.initializer.extend(_initializers(weights))
        graph.node.append(helper.make_node("Gemm", [current, *weights], [name], name=name, transB=1))
        current = name
        if layer.activation != "identity":
            graph.node.append(helper.make_node(OPERATORS[layer.activation], [name], [f"{name}.active"]))
            current = f"{name}.active"
    graph.initializer.extend(_initializers({f"{prefix}.mean": head.mean_D}))
    steps: tuple[tuple[str, list[str], str, dict[str, int]], ...] = (
        ("LpNormalization", [current], f"{prefix}.unit", {"axis": -1, "p": 2}),
        ("Sub", [f"{prefix}.unit", f"{prefix}.mean"], f"{prefix}.centred", {}),
        ("LpNormalization", [f"{prefix}.centred"], OUTPUT, {"axis": -1, "p": 2}),
    )
    for position, (operator, inputs, output, attributes) in enumerate(steps):
        graph.node.append(helper.make_node(operator, inputs, [output], name=f"{prefix}.{position}", **attributes))


def _rename(graph: onnx.GraphProto, old: str, new: str) -> None:
    """Give a tensor another name, where it is made and where it is read."""
    for node in graph.node:
        for names in (node.input, node.output):
            for position, name in enumerate(names):
                if name == old:
                    names[position] = new


def _initializers(arrays: Mapping[str, npt.NDArray[np.float32]]) -> list[onnx.TensorProto]:
    return [numpy_helper.from_array(np.ascontiguousarray(array, np.float32), name) for name, array in arrays.items()]


def _check(expected_ND: npt.NDArray[np.float32], found_ND: npt.NDArray[np.float32]) -> None:
    lowest = float((expected_ND.astype(np.float64) * found_ND).sum(axis=1).min())
    if not lowest >= MIN_COSINE:  # `not >=`: NaN is refused too
        raise Refused(
            f"head refused: the lowest cosine of the edited graph to numpy is {lowest:.6f} over {len(found_ND)} texts, "
            f"the limit is {MIN_COSINE}"
        )
