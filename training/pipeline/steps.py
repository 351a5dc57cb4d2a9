"""The steps of a run in order: what each reads, and which settings its result depends on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
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
        lambda c: {**_tokenizer(c), **({} if c.tokenizer.kind == "new" else _base(c))},
    ),
    "tokens": (jobs.tokenize, lambda c: {"max_length": c.student.max_length}),
    "start": (jobs.start, lambda c: {**_lexical(c), **_base(c), **_labels(c), "teacher": teacher_identity(c.teacher)}),
    "assistant": (jobs.teach_assistant, lambda c: stage_settings(c, "assistant")),
    "shrunk": (jobs.shrink, lambda c: _student(c)),
    "bottleneck": (jobs.align_bottleneck, lambda c: stage_settings(c, "bottleneck")),
    "student": (jobs.teach_student, lambda c: stage_settings(c, "student")),
    "contrastive": (jobs.contrast, lambda c: stage_settings(c, "contrastive")),
}


def steps_of(run: Run) -> list[Step]:
    """Corpus to final; a stage that is not trained has no step, a model that is measured has one more."""
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
    """What a stage's result depends on. Options left unset do not count: a new one leaves finished runs valid."""
    settings = {key: value for key, value in asdict(config.stage(name)).items() if value is not None}
    if "patience" in settings:  # the dev score then chooses the weights
        settings["scored_languages"] = config.scored_languages
        settings |= {} if config.evaluation.dev is None else {"dev": config.evaluation.dev}
    return settings


def _corpus(config: RunConfig) -> Settings:
    """Whether what is missing may be fetched does not count, and is written as it was when it did."""
    settings = {**asdict(config.corpus), "fetch": False, "languages": config.languages, "seed": config.seed}
    if config.corpus.keep_repeats is None:  # a new option leaves finished runs valid
        del settings["keep_repeats"]
    return settings


def _tokenizer(config: RunConfig) -> Settings:
    """Empty options do not count, and `english_share`, a key of earlier releases, does: finished runs stay valid."""
    settings = {key: value for key, value in asdict(config.tokenizer).items() if value != []}
    return {**settings, "english_share": None}


def _labels(config: RunConfig) -> Settings:
    """What is as it was before there was a choice does not count."""
    labels = {**asdict(config.labels), "beside": [teacher_identity(name) for name in config.labels.beside]}
    return {
        **({"labels": labels} if config.has_label_space else {}),
        **({"head": config.head} if config.head != "base" else {}),
    }


def _student(config: RunConfig) -> Settings:
    return {key: value for key, value in asdict(config.student).items() if key != "layers" or value is not None}


def _after(run: Run, name: str) -> tuple[str, ...]:
    """The steps that a step reads."""
    first = {"corpus": ("data",), "tokenizer": ("corpus",), "tokens": ("tokenizer",), "start": ("tokens",)}
    return first[name] if name in first else (run.before(name),)


def _base(config: RunConfig) -> Settings:
    return {"base": teacher_identity(config.base or config.teacher)}


def _lexical(config: RunConfig) -> Settings:
    return asdict(config.lexical) if config.tokenizer.kind == "new" else {}


def _score_settings(config: RunConfig) -> Settings:
    settings = asdict(config.evaluation)
    return {key: value for key, value in settings.items() if value is not None and key not in ("steps", "dev")}
