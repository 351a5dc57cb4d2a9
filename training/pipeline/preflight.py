"""What a run needs of its machine and its evaluation sets, looked at before its first step. Makes nothing."""

from __future__ import annotations

from pathlib import Path

from training.config.run import RunConfig
from training.evaluation.dev import DevScore
from training.evaluation.report import check_sets
from training.system.device import check_compiler


def check_machine(config: RunConfig) -> None:
    """A stage that is compiled needs a compiler.

    Raises: ConfigError: there is none.
    """
    for name in config.stages:
        if config.stage(name).compile:
            check_compiler(name)


def check_evaluation(config: RunConfig, data: Path) -> None:
    """What is scored at the end, and on the way, is there and well-formed.

    Raises: EvaluationError: names the file and the line, or says what is missing.
    """
    check_sets(data, config.scored_languages)
    if config.validates:
        DevScore(data, config.scored_languages, dev=config.dev_folder)
