"""`python -m training`, with `--pairs FILE` or `--config FILE --data DIR`: the whole batch job; run again to resume."""

from __future__ import annotations

import argparse
import dataclasses
import logging
import signal
import sys
from pathlib import Path
from typing import get_args

from training.config.parsing import build, read_yaml
from training.config.run import RunConfig, Terms, load_config
from training.corpora.catalog import check_terms, within_terms
from training.corpora.fetch import ensure_sources
from training.errors import ConfigError
from training.evaluation.encoders import LoadModel, load_model
from training.optimisation.processes import is_main_process, join_processes, on_main_process
from training.pipeline.inputs import (
    STARTER,
    check_evaluation,
    check_machine,
    hold_out,
    read_own_pairs,
    with_own_pairs,
    without_missing_dev,
    write_data,
)
from training.pipeline.run import Run
from training.pipeline.runner import run_alone, run_steps
from training.pipeline.steps import steps_of
from training.pipeline.summary import ending
from training.reranking.config import is_reranker
from training.reranking.job import run_rerank_job
from training.system.command import exit_status
from training.system.device import describe_hardware

logger = logging.getLogger(__name__)
DATA = Path("data")


def main(arguments: list[str] | None = None, *, load_model: LoadModel = load_model) -> int:
    """Run the job.

    Args:    load_model: of the bi-encoders that a re-ranker's configuration names.
    Returns: 0 when done, 2 with one sentence when it cannot go on, 130 on Ctrl-C.
    """
    parser = argparse.ArgumentParser(
        prog="training/run.sh", description="Distil a small cross-lingual sentence encoder."
    )
    parser.add_argument(
        "--pairs", type=Path, metavar="FILE", help="english<TAB>translation, a pair a line: all the text"
    )
    parser.add_argument(
        "--languages", type=_languages, metavar="en,de", help="of the columns of --pairs; default: what they look like"
    )
    parser.add_argument(
        "--config", type=Path, help=f"YAML configuration; with --pairs the default is training/configs/{STARTER.name}"
    )
    parser.add_argument("--data", type=Path, help="folder with parallel/<source>/en-<lang>.* and eval/ (data)")
    parser.add_argument("--base", metavar="MODEL", help="the encoder to start from, in place of the configuration's")
    parser.add_argument("--continue-from", metavar="DIR", help="the checkpoint to train further, likewise")
    parser.add_argument(
        "--terms", nargs="+", choices=get_args(Terms), help="leave out text under other licences, by the catalogue"
    )
    parser.add_argument("--out", type=Path, help="folder for every step's results (runs/<name>)")
    parser.add_argument("--restart-from", metavar="STEP", help="discard this step and all that follow from it")
    parser.add_argument("--until", metavar="STEP", help="stop after this step")
    options = parser.parse_args(arguments)
    if options.config is None and options.pairs is None:
        parser.error("give --pairs FILE, or --config FILE and --data DIR")
    if options.data is not None and options.pairs is not None:
        parser.error("--pairs is all the text of a run; leave --data out")
    options.config = options.config or STARTER
    join_processes()
    level = logging.INFO if is_main_process() else logging.WARNING
    logging.basicConfig(level=level, format="%(asctime)s %(levelname)s %(message)s", stream=sys.stderr)
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # `docker stop` ends a run like Ctrl-C
    again = "run the same command"
    if options.restart_from:
        again += f", without --restart-from once {options.restart_from} has begun,"
    return exit_status(
        lambda: run_job(options, load_model),
        stopped=f"stopped; {again} to go on",
        kept=f" (finished steps are kept; {again} to go on)",
    )


def run_job(options: argparse.Namespace, load_model: LoadModel) -> None:
    """Run all steps, or those up to `--until`, holding the lock of the output folder."""
    if is_reranker(read_yaml(options.config)):
        if options.pairs:
            raise ConfigError(f"{options.config} trains a re-ranker, from questions; --pairs distils an encoder")
        if options.terms:
            raise ConfigError(f"{options.config} lists its text itself: set `terms` there instead of --terms")
        options.data = options.data or DATA
        run_rerank_job(options, load_model)
        return
    config = load_config(options.config)
    models = {"base": options.base, "continue_from": options.continue_from}
    given = {name: model for name, model in models.items() if model}
    config = build(RunConfig, config.model_dump() | given, where=options.config.name) if given else config
    config = within_terms(config, options.terms) if options.terms else config
    check_machine(config)
    pairs = options.pairs and read_own_pairs(options.pairs, options.languages)
    out = options.out or Path("runs") / (config.name or (options.pairs or options.config).name.partition(".")[0])
    config = config.model_copy(update={"name": config.name or out.resolve().name})
    with run_alone(out):
        data = options.data or DATA
        if pairs:
            config, data = with_own_pairs(config, pairs), out / "data"
            on_main_process(lambda: write_data(pairs, data))
        run_on(config, data, out, options)


def run_on(config: RunConfig, data: Path, out: Path, options: argparse.Namespace) -> None:
    """Run the steps on a data folder; say how the model came out."""
    check_terms(config.corpus.terms, config.trained_on)
    run = Run(config, data, out)
    logger.info("device %s: %s", run.device, describe_hardware())
    # before the fingerprint of the data is taken
    on_main_process(lambda: ensure_sources(config.corpus, config.languages, data))
    if run.scored != data:
        logger.info("no evaluation set in %s: a part of the pairs is held out", data / "eval")
        on_main_process(lambda: hold_out(config, data, run.scored))
    run = dataclasses.replace(run, config=without_missing_dev(config, run.scored))
    on_main_process(lambda: check_evaluation(run.config, run.scored))
    steps, only = steps_of(run), {"restart_from": options.restart_from, "until": options.until}
    run_steps(steps, run.config, out, data_fingerprint=run.data_fingerprint(), **only)
    if is_main_process() and options.until in (None, "final"):
        print(ending(run))


def _languages(text: str) -> tuple[str, str]:
    left, _, right = text.partition(",")
    if not (left and right):
        raise argparse.ArgumentTypeError(f"{text!r} must be two languages: en,de")
    return left, right


if __name__ == "__main__":
    sys.exit(main())
