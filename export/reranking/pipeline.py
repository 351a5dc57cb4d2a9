"""Cross-encoder's checkpoint -> artifact, top to bottom. Knows the order of the steps, as `export.pipeline` does."""

from __future__ import annotations

import tempfile
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np
import numpy.typing as npt

from export.bundle import Bundle, save_tokenizer, write_bundle
from export.card import model_card
from export.errors import Refused
from export.manifest import manifest_of
from export.onnx import check_size, export_fp32
from export.quantization.quantize import quantise
from export.request import ExportRequest, Progress
from export.reranking.checkpoint import Pair, RerankerCheckpoint, read_pairs, read_questions, read_reranker
from export.reranking.gate import (
    RankingFidelity,
    RankingLoss,
    check_fidelity,
    check_loss,
    measure_fidelity,
    measure_loss,
    pairs_of,
)
from export.reranking.graph import PairGraph
from export.reranking.parity import parity_pack, parity_pairs
from export.reranking.scorer import OnnxReranker, torch_scores
from service.model.artifact import MODEL_FILE, TOKENIZER_FILE, Activations, Manifest, Padding
from service.model.reranker import PairTokenizer
from training.reranking.ranking import RankingSet

PARITY_MAX_DIFFERENCE = {"int8": 0.05, "fp32": 0.001}  # of a score: another CPU rounds activations otherwise


@dataclass(frozen=True)
class MeasuredGraph:
    """A graph that passed its gate, with what was measured."""

    path: Path
    scorer: OnnxReranker
    parameters: int
    padding: Padding
    fidelity: RankingFidelity
    loss: RankingLoss | None = None  # None: fp32
    activations: Activations = "dynamic"

    def figures(self) -> dict[str, float | None]:
        """Everything measured, under the names that the manifest has."""
        return asdict(self.fidelity) | (asdict(self.loss) if self.loss else {})


@dataclass(frozen=True)
class GatePairs:
    """What int8 is measured on.  fp32_N: scores of all pairs, those of the questions first."""

    pairs: tuple[Pair, ...]
    questions: RankingSet
    fp32_N: npt.NDArray[np.float32]


def export_reranker(request: ExportRequest, *, progress: Progress) -> Manifest:
    """Export, measure, and write the folder only when every gate passed.

    Raises: ExportError: one sentence; nothing is left at `request.out`.
    """
    checkpoint = read_reranker(request.checkpoint, name=request.name, languages=request.languages)
    record = checkpoint.record
    parity = parity_pairs(record)
    questions = record.ranking_gate if request.questions is None else read_questions(request.questions)
    calibration = record.calibration_pairs if request.calibration is None else read_pairs(request.calibration)
    with tempfile.TemporaryDirectory(prefix="crosslet-export-") as folder:
        graph = _fp32_graph(checkpoint, parity, request, Path(folder), progress)
        if request.precision == "int8":
            gate = _gate_pairs(graph, questions.as_set(), parity)
            graph = _int8_graph(graph, checkpoint, gate, calibration, request, progress)
        manifest = write_bundle(_bundle(request, checkpoint, parity, graph), request.out, force=request.force)
    progress(f"{request.out}: {manifest.files[MODEL_FILE].size_bytes:,} bytes, fingerprint {manifest.fingerprint[:12]}")
    return manifest


def _fp32_graph(
    checkpoint: RerankerCheckpoint, parity: tuple[Pair, ...], request: ExportRequest, scratch: Path, progress: Progress
) -> MeasuredGraph:
    graph = PairGraph(checkpoint.model, skip_padding=request.padding == "skipped").eval()
    parameters = graph.parameter_count
    progress(f"{checkpoint.record.name}: tracing {parameters:,} parameters")
    path = export_fp32(graph, scratch)
    check_size(path, parameters=parameters, precision="fp32")
    scorer = OnnxReranker(path, checkpoint.pair_tokenizer)
    fidelity = measure_fidelity(torch_scores(checkpoint, parity), scorer.scores(parity))
    progress(f"fp32: scores within {fidelity.max_difference_to_torch:.7f} of torch's over {len(parity)} pairs")
    check_fidelity(fidelity, request.ranking_limits)
    return MeasuredGraph(path, scorer, parameters, "computed" if graph.unpadded is None else "skipped", fidelity)


def _gate_pairs(fp32: MeasuredGraph, questions: RankingSet, parity: tuple[Pair, ...]) -> GatePairs:
    pairs = (*pairs_of(questions), *parity)
    return GatePairs(pairs, questions, fp32.scorer.scores(pairs))


def _int8_graph(
    fp32: MeasuredGraph,
    checkpoint: RerankerCheckpoint,
    gate: GatePairs,
    calibration: tuple[Pair, ...],
    request: ExportRequest,
    progress: Progress,
) -> MeasuredGraph:
    """With fixed steps if there are calibration pairs and it passes the gate, else with steps found in each pass."""
    progress(f"int8: {len(calibration):,} calibration pairs" if calibration else "int8: no calibration pairs")
    if not len(gate.questions):
        progress("int8: acc@1 is not measured, the checkpoint's record has no questions; --questions FILE gives some")
    if calibration:
        try:
            return _quantised(fp32, checkpoint, gate, calibration, request, progress)
        except Refused as exc:
            progress(f"with fixed steps {exc}: steps are found in each pass instead")
    return _quantised(fp32, checkpoint, gate, (), request, progress)


def _quantised(
    fp32: MeasuredGraph,
    checkpoint: RerankerCheckpoint,
    gate: GatePairs,
    calibration: tuple[Pair, ...],
    request: ExportRequest,
    progress: Progress,
) -> MeasuredGraph:
    path = fp32.path.with_name("int8.onnx")
    token_ids = [fp32.scorer.token_ids(pair) for pair in calibration]
    quantise(fp32.path, path, word_bits=request.word_bits, calibration=token_ids)
    check_size(path, parameters=fp32.parameters, precision="int8")
    scorer = OnnxReranker(path, checkpoint.pair_tokenizer)
    loss = measure_loss(gate.fp32_N, scorer.scores(gate.pairs), gate.questions)
    progress(f"int8: rank correlation to fp32 {loss.rank_correlation_to_fp32:.4f} over {loss.pairs} pairs")
    if loss.acc1_fp32 is not None and loss.acc1_int8 is not None:
        progress(f"int8: acc@1 {loss.acc1_int8:.2f}, fp32 {loss.acc1_fp32:.2f}, over {loss.questions} questions")
    check_loss(loss, request.ranking_limits)
    activations: Activations = "static" if calibration else "dynamic"
    return replace(fp32, path=path, scorer=scorer, loss=loss, activations=activations)


def _bundle(
    request: ExportRequest, checkpoint: RerankerCheckpoint, parity: tuple[Pair, ...], graph: MeasuredGraph
) -> Bundle:
    record = checkpoint.record
    folder = graph.path.parent
    tokenizer = save_tokenizer(checkpoint.tokenizer, folder, max_length=record.max_length)
    pair_tokenizer = PairTokenizer(tokenizer, where=str(request.checkpoint))
    max_difference = PARITY_MAX_DIFFERENCE[request.precision]
    pack = parity_pack(graph.scorer, pair_tokenizer, parity, max_difference=max_difference)
    manifest = manifest_of(record, graph, kind="cross-encoder", dim=1, precision=request.precision)
    card = model_card(manifest, model_bytes=graph.path.stat().st_size, folder=folder)
    return Bundle(graph.path, folder / TOKENIZER_FILE, pack, card, manifest)
