"""A re-ranker as a kind: its checkpoint, a cross-encoder's folder, and what its graph is compared with."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import tokenizers  # type: ignore[import-untyped]
import torch

from export.checkpoint import Pair, TrainingRecord, cut_positions, plain_tokenizer, read_record
from export.errors import BadCheckpoint
from export.gate import check_scores, pairs_of, score_loss
from export.graph import PairGraph
from export.inputs import read_pairs, read_questions, some_of
from export.parity import parity_pairs
from export.request import ExportRequest, Figures, Precision, Progress
from export.session import OutputName, Outputs, Rows
from service.model.artifact import SCHEMA_VERSION, Kind, PairParityPack
from service.model.reranker import PairTokenizer as ServedPairTokenizer
from service.model.tokenizer import Tokenizer
from training.errors import ConfigError, EvaluationError
from training.models.cross_encoder import CrossEncoder
from training.reranking.checkpoint import load_cross_encoder
from training.reranking.pair_tokens import PairTokenizer
from training.system.files import RECORD_FILE

DECIMALS = 7  # a float32 in [0, 1] has no more that matter
MAX_DIFFERENCE: dict[Precision, float] = {"int8": 0.05, "fp32": 0.001}  # of a score: another CPU rounds otherwise


@dataclass(frozen=True)
class RerankerCheckpoint:
    """A cross-encoder ready to be traced.

    model: in float32, eager attention: the reference that the graph must match.
    pair_tokenizer: gives the token ids that it was trained on.
    tokenizer: without truncation and padding, which are the consumer's.
    """

    model: CrossEncoder
    pair_tokenizer: PairTokenizer
    tokenizer: tokenizers.Tokenizer
    record: TrainingRecord


def read_reranker(folder: Path, *, name: str | None = None, languages: tuple[str, ...] = ()) -> RerankerCheckpoint:
    """Load a checkpoint; `name` and `languages` replace what it says.

    Raises: BadCheckpoint: it is unreadable, its record is malformed, or its tokenizer cannot tell the sides of a pair.
    """
    try:
        model, tokenizer, facts = load_cross_encoder(folder)
        pair_tokenizer = PairTokenizer(tokenizer, max_length=facts.max_length)
    except (EvaluationError, ConfigError) as exc:
        raise BadCheckpoint(f"{folder} cannot be loaded ({exc})") from exc
    if (folder / RECORD_FILE).is_file():
        record = read_record(folder)
    else:  # of a stage: the run is not finished
        record = TrainingRecord(facts.name, tuple(facts.languages), facts.max_length)
    record = replace(
        record, name=name or record.name, languages=languages or record.languages, max_length=facts.max_length
    )
    cut_positions(folder, model.encoder, record.max_length)
    return RerankerCheckpoint(model, pair_tokenizer, plain_tokenizer(folder, tokenizer), record)


class CrossEncoderKind:
    """In what a re-ranker's export differs; methods as in `BiEncoderKind`."""

    name: Kind = "cross-encoder"
    unit = "pair"  # what a row of token ids is
    output: OutputName = "score"

    def __init__(self, request: ExportRequest) -> None:
        self.checkpoint = read_reranker(request.checkpoint, name=request.name, languages=request.languages)
        self.record, self.tokenizer, self.request = self.checkpoint.record, self.checkpoint.tokenizer, request
        self.parity = parity_pairs(self.record)
        own = self.record.ranking_gate
        self.questions = own.as_set() if request.questions is None else read_questions(request.questions)
        pairs = self.record.calibration_pairs if request.calibration is None else read_pairs(request.calibration)
        self.calibration = self._rows(some_of(pairs))

    def graph(self) -> PairGraph:
        """Segments, body, linear layer and sigmoid."""
        return PairGraph(self.checkpoint.model, skip_padding=self.request.padding == "skipped").eval()

    def reference_rows(self) -> Rows:
        """The parity pairs."""
        return self._rows(self.parity)

    def check_fp32(self, fp32: Outputs, progress: Progress) -> Figures:
        """Differences to the scores of the model that was trained."""
        figures = check_scores(torch_scores(self.checkpoint, self.parity), fp32[:, 0], self.request.limits)
        difference = figures["max_difference_to_torch"]
        progress(f"fp32: scores within {difference:.7f} of torch's over {len(self.parity)} pairs")
        return figures

    def gate_rows(self, progress: Progress) -> Rows:
        """Each question with each of its candidates, then the parity pairs."""
        if not len(self.questions):
            progress(
                "int8: acc@1 is not measured, the checkpoint's record has no questions; --questions FILE gives some"
            )
        return self._rows([*pairs_of(self.questions), *self.parity])

    def check_int8(self, fp32: Outputs, int8: Outputs, progress: Progress) -> Figures:
        """Rank correlation, and acc@1 of the questions, in both precisions."""
        loss = score_loss(fp32[:, 0], int8[:, 0], self.questions)
        progress(f"int8: rank correlation to fp32 {loss.rank_correlation_to_fp32:.4f} over {loss.pairs} pairs")
        if loss.acc1_fp32 is not None and loss.acc1_int8 is not None:
            progress(f"int8: acc@1 {loss.acc1_int8:.2f}, fp32 {loss.acc1_fp32:.2f}, over {loss.questions} questions")
        loss.check(self.request.limits)
        return asdict(loss)

    def parity_pack(self, tokenizer: Tokenizer, run: Callable[[Rows], Outputs]) -> PairParityPack:
        """Scores of the parity pairs."""
        served = ServedPairTokenizer(tokenizer, where=str(self.request.checkpoint))
        rows = [list(served.tokenize(query, passage).input_ids) for query, passage in self.parity]
        return PairParityPack(
            schema_version=SCHEMA_VERSION,
            max_difference=MAX_DIFFERENCE[self.request.precision],
            pairs=self.parity,
            input_ids=tuple(tuple(ids) for ids in rows),
            scores=tuple(round(float(score), DECIMALS) for score in run(rows)[:, 0]),
        )

    def facts(self) -> dict[str, Any]:
        """Nothing more."""
        return {}

    def _rows(self, pairs: Sequence[Pair]) -> Rows:
        """Token ids of pairs, their passages cut."""
        store = self.checkpoint.pair_tokenizer.store
        return [store([query], [passage]).ids.tolist() for query, passage in pairs]


def torch_scores(checkpoint: RerankerCheckpoint, pairs: Sequence[Pair]) -> npt.NDArray[np.float32]:
    """The reference: sigmoid of the logits of the model that was trained, (N,) float32."""
    scores = []
    for query, passage in pairs:
        ids_1L, mask_1L = checkpoint.pair_tokenizer.batch([query], [passage])
        with torch.inference_mode():
            scores.append(float(checkpoint.model(ids_1L, mask_1L).sigmoid()))
    return np.array(scores, dtype=np.float32)
