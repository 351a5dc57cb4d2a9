"""`python -m training --config FILE --data DIR --out DIR`: the whole batch job; run again to resume."""

from __future__ import annotations

import argparse
import dataclasses
import logging
import signal
import sys
from pathlib import Path

from training.config.parsing import read_yaml
from training.config.run import load_config
from training.corpora.sources.fetch import ensure_sources
from training.errors import PeerError, TrainingError
from training.optimisation.processes import is_main_process, join_processes, on_main_process
from training.pipeline.preflight import check_evaluation, check_machine
from training.pipeline.run import Run
from training.pipeline.runner import run_alone, run_steps
from training.pipeline.steps import steps_of
from training.reranking.config import is_reranker
from training.reranking.job import run_rerank_job
from training.system.hardware import describe_hardware

logger = logging.getLogger(__name__)


def main(arguments: list[str] | None = None) -> int:
    """Run the job. Returns: 0 when done, 2 with one sentence when it cannot go on, 130 on Ctrl-C."""
    parser = argparse.ArgumentParser(
        prog="training/run.sh", description="Distil a small cross-lingual sentence encoder."
    )
    parser.add_argument(
        "--config", type=Path, required=True, help="YAML configuration, e.g. training/configs/default.yaml"
    )
    parser.add_argument(
        "--data", type=Path, default=Path("data"), help="folder with parallel/<source>/en-<lang>.* and eval/ (data)"
    )
    parser.add_argument("--base", metavar="MODEL", help="the encoder to start from, in place of the configuration's")
    parser.add_argument("--out", type=Path, help="folder for every step's results (runs/<name of the configuration>)")
    parser.add_argument("--restart-from", metavar="STEP", help="discard this step and all that follow from it")
    parser.add_argument("--until", metavar="STEP", help="stop after this step")
    options = parser.parse_args(arguments)
    join_processes()
    level = logging.INFO if is_main_process() else logging.WARNING
    logging.basicConfig(level=level, format="%(asctime)s %(levelname)s %(message)s", stream=sys.stderr)
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # `docker stop` ends a run like Ctrl-C
    again = "run the same command"
    if options.restart_from:
        again += f", without --restart-from once {options.restart_from} has begun,"
    try:
        run_job(options)
    except PeerError:
        return 2  # the process that failed says why
    except TrainingError as exc:
        print(f"error: {exc}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print(f"stopped; {again} to go on", file=sys.stderr)
        return 130
    except OSError as exc:
        print(f"error: {exc} (finished steps are kept; {again} to go on)", file=sys.stderr)
        return 2
    return 0


def run_job(options: argparse.Namespace) -> None:
    """Run all steps, or those up to `--until`, holding the lock of the output folder."""
    if is_reranker(read_yaml(options.config)):
        run_rerank_job(options)
        return
    config = load_config(options.config)
    if options.base:
        config = dataclasses.replace(config, base=options.base)
    check_machine(config)
    run = Run(config, options.data, options.out or Path("runs") / config.name)
    logger.info("device %s: %s", run.device, describe_hardware())
    with run_alone(run.out):
        # before the fingerprint of the data is taken
        on_main_process(lambda: ensure_sources(config.corpus, config.languages, run.data))
        on_main_process(lambda: check_evaluation(config, run.data))
        run_steps(
            steps_of(run),
            run.config,
            run.out,
            data_fingerprint=run.data_fingerprint(),
            restart_from=options.restart_from,
            until=options.until,
        )


if __name__ == "__main__":
    sys.exit(main())
