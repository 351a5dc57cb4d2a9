"""Checks the machine and the evaluation sets before the first step of a run. Writes nothing."""

from __future__ import annotations

import logging
from pathlib import Path

from training.config.run import RunConfig, stage_key
from training.evaluation.report import check_sets
from training.evaluation.sts import DevScore, find_sts
from training.system.device import check_compiler

logger = logging.getLogger(__name__)


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


def without_missing_dev(config: RunConfig, data: Path) -> RunConfig:
    """The configuration, without dev scores where the default dev set is missing."""
    wanted = {pair for language in config.scored_languages for pair in (f"en-{language}", f"{language}-en")}
    if (
        not config.validates
        or config.evaluation.dev is not None
        or wanted & find_sts(data / "eval" / config.dev_folder).keys()
    ):
        return config
    logger.info("no dev scores during training: eval/%s has none of these languages", config.dev_folder)
    stages = {stage_key(name): config.stage(name) for name in config.stages}
    without = {key: stage.model_copy(update={"validate_pairs": None}) for key, stage in stages.items()}
    return config.model_copy(update=without)
