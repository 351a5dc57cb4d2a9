"""Checkpoint -> artifact, top to bottom, for encoders and re-rankers."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from export.bi_encoder import BiEncoderKind
from export.bundle import check_target, save_tokenizer, write_artifact
from export.card import model_card
from export.cross_encoder import CrossEncoderKind
from export.errors import Refused
from export.onnx import check_size, export_fp32
from export.quantization.quantize import quantise
from export.request import ExportRequest, Figures, Progress, check_options
from export.session import Rows, open_session, run_each
from service.model.artifact import (
    CARD_FILE,
    MODEL_FILE,
    PARITY_FILE,
    SCHEMA_VERSION,
    TOKENIZER_FILE,
    Activations,
    Manifest,
    Padding,
    ParityPack,
)
from service.version import VERSION
from training.reranking.checkpoint import is_cross_encoder

# In what encoders and re-rankers differ: what goes into the graph, and what its outputs are compared with.
Kind = BiEncoderKind | CrossEncoderKind


@dataclass(frozen=True)
class MeasuredGraph:
    """A graph that passed its gate, with what was measured."""

    path: Path
    parameters: int
    padding: Padding
    figures: Figures
    activations: Activations = "dynamic"


def export_artifact(request: ExportRequest, *, progress: Progress) -> Manifest:
    """Export, measure, and write the folder only when every gate passed.

    Raises: ExportError: one sentence; nothing is left at `request.out`.
    """
    check_target(request.out, force=request.force)
    is_reranker = is_cross_encoder(request.checkpoint)
    check_options(request, is_reranker=is_reranker)
    kind = CrossEncoderKind(request) if is_reranker else BiEncoderKind(request)
    with tempfile.TemporaryDirectory(prefix="crosslet-export-") as folder:
        graph = _fp32_graph(kind, request, Path(folder), progress)
        if request.precision == "int8":
            graph = _int8_graph(kind, graph, request, progress)
        manifest = _write(kind, graph, request)
    progress(f"{request.out}: {manifest.files[MODEL_FILE].size_bytes:,} bytes, fingerprint {manifest.fingerprint[:12]}")
    return manifest


def _fp32_graph(kind: Kind, request: ExportRequest, scratch: Path, progress: Progress) -> MeasuredGraph:
    module = kind.graph()
    parameters = module.parameter_count
    progress(f"{kind.record.name}: tracing {parameters:,} parameters")
    path = export_fp32(module, scratch)
    check_size(path, parameters=parameters, precision="fp32")
    figures = kind.check_fp32(run_each(open_session(path), kind.reference_rows(), kind.output), progress)
    return MeasuredGraph(path, parameters, "computed" if module.unpadded is None else "skipped", figures)


def _int8_graph(kind: Kind, fp32: MeasuredGraph, request: ExportRequest, progress: Progress) -> MeasuredGraph:
    """With fixed steps if there are calibration rows and it passes the gate, else with steps found in each pass."""
    count = f"{len(kind.calibration):,}" if kind.calibration else "no"
    progress(f"int8: {count} calibration {kind.unit}s")
    rows = kind.gate_rows(progress)
    fp32_ND = run_each(open_session(fp32.path), rows, kind.output)

    def quantised(calibration: Rows) -> MeasuredGraph:
        path = fp32.path.with_name("int8.onnx")
        quantise(fp32.path, path, word_bits=request.word_bits, calibration=calibration)
        check_size(path, parameters=fp32.parameters, precision="int8")
        figures = kind.check_int8(fp32_ND, run_each(open_session(path), rows, kind.output), progress)
        activations: Activations = "static" if calibration else "dynamic"
        return replace(fp32, path=path, figures={**fp32.figures, **figures}, activations=activations)

    if kind.calibration:
        try:
            return quantised(kind.calibration)
        except Refused as exc:
            progress(f"with fixed steps {exc}: steps are found in each pass instead")
    return quantised(())


def _write(kind: Kind, graph: MeasuredGraph, request: ExportRequest) -> Manifest:
    record, folder = kind.record, graph.path.parent
    tokenizer = save_tokenizer(kind.tokenizer, folder, max_length=record.max_length, folds_text=request.fold_text)
    session = open_session(graph.path)
    parity = kind.parity_pack(tokenizer, lambda rows: run_each(session, rows, kind.output))
    manifest = Manifest(
        schema_version=SCHEMA_VERSION,
        name=record.name,
        kind=kind.name,
        dim=len(parity.embeddings[0]) if isinstance(parity, ParityPack) else 1,
        max_length=record.max_length,
        languages=record.languages,
        precision=request.precision,
        parameters=graph.parameters,
        fingerprint="",
        files={},
        training=record.facts(),
        evaluation={**record.evaluation, "export": graph.figures},
        data_licences=record.data,
        created_by=f"crosslet {VERSION}",
        created_at=datetime.now(UTC).isoformat(timespec="seconds"),
        activations=graph.activations,
        padding=graph.padding,
        folds_text=request.fold_text,
        **kind.facts(),
    )
    files: dict[str, Path | bytes] = {
        MODEL_FILE: graph.path,
        TOKENIZER_FILE: folder / TOKENIZER_FILE,
        PARITY_FILE: parity.to_json().encode(),
        CARD_FILE: model_card(manifest, model_bytes=graph.path.stat().st_size, folder=folder).encode(),
    }
    return write_artifact(request.out, files, manifest, force=request.force)
