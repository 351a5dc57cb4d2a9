"""The steps of a run in order: what each one reads, and which settings its result depends on.

A step's settings are fingerprinted: a finished step is used again only if they are unchanged.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from training.config.run import STAGES, RunConfig, Stage
from training.models.teacher import teacher_identity
from training.pipeline import jobs
from training.pipeline.run import Run
from training.pipeline.runner import Step

Settings = dict[str, Any]
JOBS: dict[str, tuple[Callable[[Run, Path], None], Callable[[RunConfig], Settings]]] = {
    "corpus": (jobs.make_corpus, lambda c: _corpus(c)),
    "tokenizer": (
        jobs.make_tokenizer,
        lambda c: {**c.tokenizer.model_dump(), **({} if c.tokenizer.kind == "new" else _base(c))},
    ),
    "tokens": (jobs.tokenize, lambda c: {"max_length": c.student.max_length}),
    "start": (jobs.start, lambda c: {**_lexical(c), **_base(c), **_labels(c), "teacher": teacher_identity(c.teacher)}),
    "assistant": (jobs.teach_assistant, lambda c: stage_settings(c, "assistant")),
    "shrunk": (jobs.shrink, lambda c: {**c.student.model_dump(), "head": c.head}),
    "bottleneck": (jobs.align_bottleneck, lambda c: stage_settings(c, "bottleneck")),
    "student": (jobs.teach_student, lambda c: stage_settings(c, "student")),
    "contrastive": (jobs.contrast, lambda c: stage_settings(c, "contrastive")),
}


def steps_of(run: Run) -> list[Step]:
    """Corpus to final; an untrained stage has no step, and a scored model has an extra one."""
    names = ["corpus", "tokenizer", "tokens", *run.models]
    last = run.models[-1]
    chain: list[Step] = []
    for name in names:
        work, settings = JOBS[name]
        chain.append(Step(name, settings, _after(run, name), partial(work, run), together=name in STAGES))
        if name == last or name in run.config.evaluation.steps:
            chain.append(Step(f"{name}-scores", _score_settings, (name,), partial(jobs.score, run, name)))
    scored = (step.name for step in chain if step.name.endswith("-scores"))
    return [*chain, Step("final", lambda c: {"name": c.name}, (last, *scored), partial(jobs.finish, run))]


def stage_settings(config: RunConfig, name: Stage) -> Settings:
    """The settings that a stage's result depends on."""
    return config.stage(name).model_dump()


def _corpus(config: RunConfig) -> Settings:
    """Without `fetch`, which does not change the result."""
    return {**config.corpus.model_dump(exclude={"fetch"}), "languages": config.languages, "seed": config.seed}


def _labels(config: RunConfig) -> Settings:
    labels = {**config.labels.model_dump(), "beside": [teacher_identity(name) for name in config.labels.beside]}
    return {"labels": labels, "head": config.head}


def _after(run: Run, name: str) -> tuple[str, ...]:
    """The steps that a step reads."""
    first = {"corpus": ("data",), "tokenizer": ("corpus",), "tokens": ("tokenizer",), "start": ("tokens",)}
    return first[name] if name in first else (run.before(name),)


def _base(config: RunConfig) -> Settings:
    return {"base": teacher_identity(config.base or config.teacher)}


def _lexical(config: RunConfig) -> Settings:
    return config.lexical.model_dump() if config.tokenizer.kind == "new" else {}


def _score_settings(config: RunConfig) -> Settings:
    return config.evaluation.model_dump(exclude={"steps", "dev"})
