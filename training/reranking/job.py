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
from training.reranking.config import RerankConfig, load_rerank_config
from training.reranking.data import RerankData
from training.reranking.ranking import Scorer, measure, sets_of
from training.reranking.record import write_record
from training.reranking.scorers import BiEncoderScorer, CrossEncoderScorer, bm25
from training.reranking.teaching import MODEL, teach
from training.reranking.trainer import BEST, LAST, train_stage
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
        """xpi to final."""
        config, xpr = self.config, self.xpr_steps
        chain = []
        before_all = "data"
        if config.body is not None:
            shape = {"body": config.body.model_dump(), "xpi_sources": config.xpi.sources if config.xpi else []}
            chain.append(Step("body", self._body, _shared(config) | shape, ("data",)))
            before_all = "body"
        if config.xpi is not None:
            xpi = {"xpi": config.xpi.model_dump()}
            chain.append(Step("xpi", self._xpi, _shared(config) | xpi, (before_all,)))
        for number, name in enumerate(xpr):
            before = xpr[number - 1] if number else "xpi" if config.xpi else None
            work = partial(self._xpr, number, before)
            chain.append(Step(name, work, _shared(config) | _xpr(config), (before or before_all,)))
        if config.teach is not None:
            teach = config.teach.model_dump() | {"encoder": teacher_identity(config.teach.encoder)}
            chain.append(Step("taught", self._teach, {"teach": teach}, (xpr[-1],)))
        last = chain[-1].name
        chain.append(Step("scores", self._score, {"measure": config.measure.model_dump()}, (last,)))
        return [*chain, Step("final", self._finish, {"name": config.name}, (xpr[-1], "scores"))]

    def _body(self, folder: Path) -> None:
        config, body = self.config, self.config.body
        if body is not None:
            whole, tokenizer = load_base(config.base, attention=self._attention)
            model, small = small_body(whole, tokenizer, body, self.data.texts(), attention=self._attention)
            facts = {"name": config.name, "languages": config.languages, "max_length": config.max_length}
            save_cross_encoder(model, small, folder, **facts)  # type: ignore[arg-type]

    def _start(self) -> tuple[CrossEncoder, PreTrainedTokenizerFast]:
        """The model before training."""
        if self.config.body is None:
            return load_base(self.config.base, attention=self._attention)
        model, tokenizer, _ = load_cross_encoder(self.out / "body", attention=self._attention)
        return model, tokenizer

    def _xpi(self, folder: Path) -> None:
        stage = self.config.xpi.stage if self.config.xpi else self.config.xpr
        model, tokenizer = self._start()
        pairs, validation = self.data.xpi_pairs(), self.data.validation
        train_stage(model, tokenizer, pairs, validation, self.config, stage, folder, device=self.device)

    def _xpr(self, number: int, before: str | None, folder: Path) -> None:
        if before is None:
            model, tokenizer = self._start()
        else:
            weights = LAST if before == "xpi" else BEST
            model, tokenizer, _ = load_cross_encoder(self.out / before / weights, attention=self._attention)
        if number == 0:
            model.reset_head(seed=self.config.seed)  # stage 2 starts with a fresh one
        pairs, validation = self.data.xpr_stages()[number], self.data.validation
        train_stage(model, tokenizer, pairs, validation, self.config, self.config.xpr, folder, device=self.device)

    def _teach(self, folder: Path) -> None:
        teach_config = self.config.teach
        if teach_config is not None:
            teach(
                [pair for stage in self.data.xpr_stages() for pair in stage],
                self._own_scorer(bf16=True).scores,
                self.data.validation,
                teach_config,
                folder,
                seed=self.config.seed,
                checkpoint_minutes=self.config.checkpoint_minutes,
                device=self.device,
            )

    def _score(self, folder: Path) -> None:
        settings = self.config.measure
        scorers = self._scorers()
        scores = {}
        for source in settings.sets:
            languages = settings.languages or self.config.languages
            sets = sets_of(self.data.read(source), languages, settings.couples, queries=settings.queries)
            scores[source.label] = measure(scorers, sets)
        write_json_atomically(folder / SCORES, scores)

    def _scorers(self) -> dict[str, Scorer]:
        scorers: dict[str, Scorer] = {RERANKER: self._own_scorer(), BM25: bm25}
        taught = None if self.config.teach is None else str(self.out / "taught" / MODEL)
        for name, bi_encoder in ((BI_ENCODER, self.config.measure.bi_encoder), (TAUGHT, taught)):
            if bi_encoder is not None:
                encoder = self.data.load_model(bi_encoder)
                encoders = each_text_once(encoder.encode_query), each_text_once(encoder.encode_document)
                scorers[name] = BiEncoderScorer(*encoders)
        return scorers

    def _own_scorer(self, *, bf16: bool = False) -> CrossEncoderScorer:
        """The best re-ranker of the last stage."""
        model, tokenizer, facts = load_cross_encoder(self.out / self.xpr_steps[-1] / BEST, attention=self._attention)
        return CrossEncoderScorer(model.to(self.device), tokenizer, max_length=facts.max_length, bf16=bf16)

    def _finish(self, folder: Path) -> None:
        """Both checkpoints with their records, and what the best one scores."""
        stages = [*(["xpi"] if self.config.xpi else []), *self.xpr_steps]
        seen = {name: pairs_seen(self.out / name) for name in stages}
        commit, scores = training_commit(self.out / self.xpr_steps[-1]), read_scores(self.out)
        for name in (BEST, LAST):
            shutil.copytree(self.out / self.xpr_steps[-1] / name, folder / name, dirs_exist_ok=True)
            write_record(
                folder / name,
                self.config,
                self.data,
                git_commit=commit,
                pairs_seen=seen,
                scores=scores if name == BEST else {},
            )
        if self.config.teach is not None:
            shutil.copytree(self.out / "taught" / MODEL, folder / "bi-encoder", dirs_exist_ok=True)
        shutil.copyfile(self.out / "scores" / SCORES, folder / SCORES)
        logger.info("the re-ranker is in %s; %s holds the weights of the end", folder / BEST, folder / LAST)

    @property
    def _attention(self) -> str:
        return "eager" if self.device.type == "cpu" else "sdpa"


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


def read_scores(out: Path) -> dict[str, Any]:
    """Set -> scorer -> metric -> couple -> score, of a finished run."""
    scores: dict[str, Any] = json.loads((out / "scores" / SCORES).read_text(encoding="utf-8"))
    return scores


def _shared(config: RerankConfig) -> dict[str, Any]:
    """What every stage's result depends on: the held-out questions come from the training set."""
    names = ("languages", "max_length", "seed", "train", "validation")
    measured = [source.path for source in (*config.measure.sets, *config.measure.unseen)]
    values = config.model_dump()
    return {name: values[name] for name in names} | {"base": teacher_identity(config.base), "measured": measured}


def _xpr(config: RerankConfig) -> dict[str, Any]:
    encoder = config.negatives.encoder
    negatives = config.negatives.model_dump() | {"encoder": teacher_identity(encoder) if encoder else None}
    settings = {"strategy": config.strategy, "xpr": config.xpr.model_dump(), "negatives": negatives}
    return settings | ({"code_switch": config.code_switch.model_dump()} if config.code_switch else {})
