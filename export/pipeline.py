"""Checkpoint -> artifact, top to bottom. Knows the order of the steps; each step knows only its own part.

Cross-encoders go to `export.reranking`.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path

from export.bundle import Bundle, check_target, save_tokenizer, write_bundle
from export.card import model_card
from export.checkpoint import RECORD_FILE, Checkpoint, TrainingRecord, read_checkpoint
from export.encoder import OnnxEncoder
from export.errors import Refused
from export.gate import (
    Fidelity,
    Int8Loss,
    StsPair,
    check_fidelity,
    check_loss,
    measure_fidelity,
    measure_loss,
)
from export.graph import build_graph
from export.manifest import manifest_of
from export.onnx import check_size, export_fp32
from export.parity import parity_pack, parity_texts, torch_embeddings
from export.prompts import Asked, truncated_dim
from export.quantization.quantize import quantise
from export.request import ExportRequest, Progress, check_options
from export.reranking.pipeline import export_reranker
from export.sts import check_rankable, read_sts
from export.texts import read_texts
from service.model.artifact import MODEL_FILE, TOKENIZER_FILE, Activations, Manifest, Padding
from training.reranking.checkpoint import is_cross_encoder

PARITY_MIN_COSINE: dict[str, float] = {
    "int8": 0.99,  # another CPU rounds activations otherwise; as close as int8 must be to fp32
    "fp32": 0.9999,
}


@dataclass(frozen=True)
class MeasuredGraph:
    """A graph that passed its gate, with what was measured."""

    path: Path
    encoder: OnnxEncoder
    parameters: int
    fidelity: Fidelity
    loss: Int8Loss | None  # None: fp32
    activations: Activations = "dynamic"
    padding: Padding = "computed"

    def figures(self) -> dict[str, float | None]:
        """Everything measured, under the names that the manifest has."""
        return asdict(self.fidelity) | (asdict(self.loss) if self.loss else {})


def export_artifact(request: ExportRequest, *, progress: Progress) -> Manifest:
    """Export, measure, and write the folder only when every gate passed.

    Raises: ExportError: one sentence; nothing is left at `request.out`.
    """
    check_target(request.out, force=request.force)
    is_reranker = is_cross_encoder(request.checkpoint)
    check_options(request, is_reranker=is_reranker)
    if is_reranker:
        return export_reranker(request, progress=progress)
    checkpoint = read_checkpoint(
        request.checkpoint,
        name=request.name,
        languages=request.languages,
        trust_remote_code=request.trust_remote_code,
    )
    texts, pairs = parity_texts(checkpoint.record), _sts_pairs(request, checkpoint.record)
    calibration = _calibration(request, checkpoint.record)
    with tempfile.TemporaryDirectory(prefix="crosslet-export-") as folder:
        asked = checkpoint.prompts.over(texts)
        graph = _fp32_graph(checkpoint, asked, request, Path(folder), progress)
        if request.precision == "int8":
            graph = _int8_graph(graph, checkpoint, asked, pairs, calibration, request, progress)
        manifest = write_bundle(_bundle(request, checkpoint, texts, graph), request.out, force=request.force)
    progress(f"{request.out}: {manifest.files[MODEL_FILE].size_bytes:,} bytes, fingerprint {manifest.fingerprint[:12]}")
    return manifest


def _fp32_graph(
    checkpoint: Checkpoint, asked: Sequence[Asked], request: ExportRequest, scratch: Path, progress: Progress
) -> MeasuredGraph:
    graph = build_graph(checkpoint.model, skip_padding=request.padding == "skipped")
    parameters = graph.parameter_count
    progress(f"{checkpoint.record.name}: tracing {parameters:,} parameters")
    path = export_fp32(graph, scratch)
    check_size(path, parameters=parameters, precision="fp32")
    encoder = OnnxEncoder(path, checkpoint.tokenizer, max_length=checkpoint.record.max_length)
    given = [checkpoint.prompts.before(*one) for one in asked]
    fidelity = measure_fidelity(torch_embeddings(checkpoint, asked), encoder.embed(given))
    progress(f"fp32: lowest cosine to torch {fidelity.min_cosine_to_torch:.7f} over {fidelity.parity_texts} texts")
    check_fidelity(fidelity, request.limits)
    padding: Padding = "computed" if graph.unpadded is None else "skipped"
    return MeasuredGraph(path, encoder, parameters, fidelity, loss=None, padding=padding)


def _int8_graph(
    fp32: MeasuredGraph,
    checkpoint: Checkpoint,
    asked: Sequence[Asked],
    pairs: tuple[StsPair, ...],
    calibration: tuple[str, ...],
    request: ExportRequest,
    progress: Progress,
) -> MeasuredGraph:
    """With fixed steps if there are calibration texts and it passes the gate, else with steps found in each pass."""
    progress(f"int8: {len(calibration):,} calibration texts" if calibration else "int8: no calibration texts")
    if not pairs:
        progress("int8: STS is not measured, the checkpoint's record has no pairs; --sts FILE gives some")
    prompts = checkpoint.prompts  # from here on texts are what the tokenizer gets
    texts = [prompts.before(*one) for one in asked]
    prompted = [(score, prompts.default + left, prompts.default + right) for score, left, right in pairs]
    quantised = partial(_quantised, fp32, checkpoint, texts, prompted, request=request, progress=progress)
    if calibration:
        try:
            return quantised(prompts.in_turn(calibration))
        except Refused as exc:
            progress(f"with fixed steps {exc}: steps are found in each pass instead")
    return quantised(())


def _quantised(
    fp32: MeasuredGraph,
    checkpoint: Checkpoint,
    texts: Sequence[str],
    pairs: Sequence[StsPair],
    calibration: Sequence[str],
    *,
    request: ExportRequest,
    progress: Progress,
) -> MeasuredGraph:
    path = fp32.path.with_name("int8.onnx")
    token_ids = [fp32.encoder.token_ids(text) for text in calibration]
    quantise(fp32.path, path, word_bits=request.word_bits, calibration=token_ids)
    check_size(path, parameters=fp32.parameters, precision="int8")
    encoder = OnnxEncoder(path, checkpoint.tokenizer, max_length=checkpoint.record.max_length)
    loss = measure_loss(fp32.encoder, encoder, texts, pairs)
    progress(f"int8: mean cosine to fp32 {loss.mean_cosine_to_fp32:.4f} over {loss.texts} texts")
    if loss.sts_fp32 is not None and loss.sts_int8 is not None:
        progress(f"int8: STS {loss.sts_int8:.2f}, fp32 {loss.sts_fp32:.2f}, over {loss.sts_pairs} pairs")
    check_loss(loss, request.limits)
    activations: Activations = "static" if calibration else "dynamic"
    return replace(fp32, path=path, encoder=encoder, loss=loss, activations=activations)


def _bundle(request: ExportRequest, checkpoint: Checkpoint, texts: tuple[str, ...], graph: MeasuredGraph) -> Bundle:
    record, prompts = checkpoint.record, checkpoint.prompts
    folder, min_cosine = graph.path.parent, PARITY_MIN_COSINE[request.precision]
    tokenizer = save_tokenizer(checkpoint.tokenizer, folder, max_length=record.max_length)
    parity = parity_pack(graph.encoder, tokenizer, texts, prompt=prompts.default, min_cosine=min_cosine)
    manifest = manifest_of(
        record,
        graph,
        kind="bi-encoder",
        dim=len(parity.embeddings[0]),
        precision=request.precision,
        prompts=prompts.texts,
        default_prompt_name=prompts.default_name,
        truncate_dim=truncated_dim(checkpoint.model),
    )
    card = model_card(manifest, model_bytes=graph.path.stat().st_size, folder=folder)
    return Bundle(graph.path, folder / TOKENIZER_FILE, parity, card, manifest)


def _calibration(request: ExportRequest, record: TrainingRecord) -> tuple[str, ...]:
    return record.calibration_texts if request.calibration is None else read_texts(request.calibration)


def _sts_pairs(request: ExportRequest, record: TrainingRecord) -> tuple[StsPair, ...]:
    if request.sts is not None:
        return read_sts(request.sts)
    if record.sts_gate:
        check_rankable(record.sts_gate, where=f"sts_gate of {request.checkpoint / RECORD_FILE}")
    return record.sts_gate
