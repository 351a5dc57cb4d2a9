"""The batch job of a re-ranker: body -> xpi -> xpr -> taught -> scores -> final; run again to resume."""

from __future__ import annotations

import argparse
import json
import logging
import shutil
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import torch
from transformers import PreTrainedTokenizerFast

from training.corpora.leakage import HELD_OUT
from training.errors import ConfigError
from training.evaluation.encoders import LoadModel
from training.evaluation.vectors import each_text_once
from training.models.cross_encoder import CrossEncoder, load_base
from training.models.teacher import teacher_identity
from training.optimisation.processes import process_count
from training.pipeline.runner import Step, run_alone, run_steps
from training.pipeline.summary import pairs_seen, training_commit
from training.reranking.body import small_body
from training.reranking.checkpoint import load_cross_encoder, save_cross_encoder
from training.reranking.config import BodyConfig, RerankConfig, RerankStageConfig, TeachConfig, load_rerank_config
from training.reranking.data import RerankData
from training.reranking.ranking import Scorer, measure, sets_of
from training.reranking.record import write_record
from training.reranking.scorers import BiEncoderScorer, CrossEncoderScorer, bm25
from training.reranking.teaching import MODEL, teach
from training.reranking.trainer import BEST, FACTS, LAST, train_stage
from training.system.device import describe_hardware, pick_device
from training.system.files import write_json_atomically

logger = logging.getLogger(__name__)
SCORES = "scores.json"
RERANKER, BI_ENCODER, BM25, TAUGHT = "re-ranker", "bi-encoder", "BM25", "bi-encoder, taught"  # rows of scores.json


@dataclass(frozen=True)
class RerankRun:
    """A configuration, where its text is, and where its results go."""

    config: RerankConfig
    data: RerankData
    out: Path

    @cached_property
    def device(self) -> torch.device:
        """Where tensors live."""
        return pick_device()

    @property
    def xpr_steps(self) -> list[str]:
        """One step a stage: of the cascade one for each language."""
        count = len(self.config.languages) if self.config.strategy == "cascade" else 1
        return ["xpr"] if count == 1 else [f"xpr-{number}" for number in range(1, count + 1)]

    def steps(self) -> list[Step]:
        """body to final."""
        config, shared = self.config, _shared(self.config)
        chain = []
        before = "data"
        if config.body is not None:
            shape = {"body": config.body.model_dump(), "xpi_sources": config.xpi.sources if config.xpi else []}
            chain.append(Step("body", partial(_make_body, self, config.body), shared | shape, (before,)))
            before = "body"
        if config.xpi is not None:
            xpi = {"xpi": config.xpi.model_dump()}
            chain.append(Step("xpi", partial(_train_xpi, self, config.xpi.stage), shared | xpi, (before,)))
            before = "xpi"
        for number, name in enumerate(self.xpr_steps):
            chain.append(Step(name, partial(_train_xpr, self, number, before), shared | _xpr(config), (before,)))
            before = name
        xpr = before
        if config.teach is not None:
            teach = {"teach": config.teach.model_dump() | {"encoder": teacher_identity(config.teach.encoder)}}
            chain.append(Step("taught", partial(_teach, self, config.teach), teach, (before,)))
            before = "taught"
        encoder = config.measure.bi_encoder
        measure = config.measure.model_dump() | {"bi_encoder": teacher_identity(encoder) if encoder else None}
        chain.append(Step("scores", partial(_score, self), {"measure": measure}, (before,)))
        return [*chain, Step("final", partial(_finish, self), {"name": config.name}, (xpr, "scores"))]

    def load(self, checkpoint: str) -> tuple[CrossEncoder, PreTrainedTokenizerFast]:
        """Load a checkpoint of the run, such as xpi/last, or the base."""
        attention = "eager" if self.device.type == "cpu" else "sdpa"
        if checkpoint == "base":
            return load_base(self.config.base, attention=attention)
        model, tokenizer, _ = load_cross_encoder(self.out / checkpoint, attention=attention)
        return model, tokenizer

    def scorer(self, *, bf16: bool = False) -> CrossEncoderScorer:
        """The best re-ranker of the last stage."""
        model, tokenizer = self.load(f"{self.xpr_steps[-1]}/{BEST}")
        return CrossEncoderScorer(model.to(self.device), tokenizer, max_length=self.config.max_length, bf16=bf16)


def _shared(config: RerankConfig) -> dict[str, Any]:
    """What every stage's result depends on: the held-out questions come from the training set."""
    names = {"languages", "max_length", "seed", "train", "validation"}
    measured = [source.model_dump() for source in (*config.measure.sets, *config.measure.unseen)]
    base = teacher_identity(config.base)
    return config.model_dump(include=names) | {"base": base, "measured": measured, "held_out": HELD_OUT}


def _xpr(config: RerankConfig) -> dict[str, Any]:
    encoder = config.negatives.encoder
    negatives = config.negatives.model_dump() | {"encoder": teacher_identity(encoder) if encoder else None}
    settings: dict[str, Any] = {"strategy": config.strategy, "xpr": config.xpr.model_dump(), "negatives": negatives}
    if config.strategy == "mixed":
        settings["mix_by"] = config.mix_by
    return settings


def _make_body(run: RerankRun, body: BodyConfig, folder: Path) -> None:
    model, tokenizer = small_body(*run.load("base"), body, run.data.texts())
    save_cross_encoder(model, tokenizer, folder, **run.config.model_dump(include=FACTS))


def _train_xpi(run: RerankRun, stage: RerankStageConfig, folder: Path) -> None:
    model, tokenizer = run.load("body" if run.config.body else "base")
    pairs, validation = run.data.xpi_pairs(), run.data.validation
    train_stage(model, tokenizer, pairs, validation, run.config, stage, folder, device=run.device)


def _train_xpr(run: RerankRun, number: int, before: str, folder: Path) -> None:
    checkpoints = {"data": "base", "body": "body", "xpi": f"xpi/{LAST}"}
    model, tokenizer = run.load(checkpoints.get(before, f"{before}/{BEST}"))
    if number == 0:
        model.reset_head(seed=run.config.seed)  # stage 2 starts with a fresh one
    pairs, validation = run.data.xpr_stages()[number], run.data.validation
    train_stage(model, tokenizer, pairs, validation, run.config, run.config.xpr, folder, device=run.device)


def _teach(run: RerankRun, settings: TeachConfig, folder: Path) -> None:
    teach(
        [pair for stage in run.data.xpr_stages() for pair in stage],
        run.scorer(bf16=True).scores,
        run.data.validation,
        settings,
        folder,
        seed=run.config.seed,
        checkpoint_minutes=run.config.checkpoint_minutes,
        device=run.device,
    )


def _score(run: RerankRun, folder: Path) -> None:
    settings = run.config.measure
    scorers: dict[str, Scorer] = {RERANKER: run.scorer(), BM25: bm25}
    taught = str(run.out / "taught" / MODEL) if run.config.teach else None
    for name, bi_encoder in ((BI_ENCODER, settings.bi_encoder), (TAUGHT, taught)):
        if bi_encoder is not None:
            encoder = run.data.load_model(bi_encoder)
            scorers[name] = BiEncoderScorer(
                each_text_once(encoder.encode_query), each_text_once(encoder.encode_document)
            )
    scores = {}
    for source in settings.sets:
        languages = settings.languages or run.config.languages
        sets = sets_of(run.data.read(source), languages, settings.couples, queries=settings.queries)
        scores[source.label] = measure(scorers, sets)
    write_json_atomically(folder / SCORES, scores)


def _finish(run: RerankRun, folder: Path) -> None:
    """Both checkpoints with their records, and what the best one scores."""
    stages = [*(["xpi"] if run.config.xpi else []), *run.xpr_steps]
    trained = run.out / stages[-1]
    seen = {name: pairs_seen(run.out / name) for name in stages}
    for name, scores in ((BEST, read_scores(run.out / "scores")), (LAST, {})):
        shutil.copytree(trained / name, folder / name, dirs_exist_ok=True)
        commit = training_commit(trained)
        write_record(folder / name, run.config, run.data, git_commit=commit, pairs_seen=seen, scores=scores)
    if run.config.teach is not None:
        shutil.copytree(run.out / "taught" / MODEL, folder / "bi-encoder", dirs_exist_ok=True)
    shutil.copyfile(run.out / "scores" / SCORES, folder / SCORES)
    logger.info("the re-ranker is in %s; %s holds the weights of the end", folder / BEST, folder / LAST)


def run_rerank_job(options: argparse.Namespace, load_model: LoadModel) -> None:
    """All steps, or those up to `--until`, with the output folder to itself.

    Raises: TrainingError: the run cannot go on; the sentence says why.
    """
    config = load_rerank_config(options.config)
    if options.base:
        config = config.model_copy(update={"base": options.base})
    if process_count() > 1:
        raise ConfigError(f"a re-ranker trains in one process; {process_count()} were started")
    out = options.out or Path("runs") / config.name
    run = RerankRun(config, RerankData(config, options.data, load_model), out)
    logger.info("device %s: %s", run.device, describe_hardware())
    with run_alone(out):
        run_steps(
            run.steps(),
            config,
            out,
            data_fingerprint=run.data.fingerprint(),
            restart_from=options.restart_from,
            until=options.until,
        )


def read_scores(folder: Path) -> dict[str, Any]:
    """Set -> scorer -> metric -> couple -> score, of the finished step `scores`."""
    scores: dict[str, Any] = json.loads((folder / SCORES).read_text(encoding="utf-8"))
    return scores
