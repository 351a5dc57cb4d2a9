"""Checks the machine and the evaluation sets before the first step of a run. Writes nothing."""

from __future__ import annotations

from pathlib import Path

from training.config.run import RunConfig
from training.evaluation.dev import DevScore
from training.evaluation.report import check_sets
from training.system.device import check_compiler


def check_machine(config: RunConfig) -> None:
    """Check that there is a C++ compiler if a stage has `compile: true`.

    Raises: ConfigError: there is none.
    """
    for name in config.stages:
        if config.stage(name).compile:
            check_compiler(name)


def check_evaluation(config: RunConfig, data: Path) -> None:
    """Check that the sets scored during and after training exist and are well-formed.

    Raises: EvaluationError: names the file and the line, or what is missing.
    """
    check_sets(data, config.scored_languages)
    if config.validates:
        DevScore(data, config.scored_languages, dev=config.dev_folder)
