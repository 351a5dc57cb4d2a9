"""`python -m training --config FILE --data DIR --out DIR`: the whole batch job; run again to resume."""

from __future__ import annotations

import argparse
import logging
import sys
from dataclasses import asdict
from pathlib import Path

import yaml

from training.config import load_config
from training.errors import TrainingError
from training.pipeline import restart_from, run_steps
from training.steps import Run


def main(arguments: list[str] | None = None) -> int:
    """Run the job. Returns: 0 when done, 2 with one sentence when it cannot go on, 130 on Ctrl-C."""
    parser = argparse.ArgumentParser(
        prog="training/run.sh", description="Distil a small cross-lingual sentence encoder."
    )
    parser.add_argument(
        "--config", type=Path, required=True, help="YAML configuration, e.g. training/configs/default.yaml"
    )
    parser.add_argument(
        "--data", type=Path, required=True, help="folder with parallel/<source>/en-<lang>.tsv[.gz] and eval/"
    )
    parser.add_argument("--out", type=Path, required=True, help="folder for every step's results")
    parser.add_argument("--restart-from", metavar="STEP", help="discard this step and all that follow from it")
    parser.add_argument("--until", metavar="STEP", help="stop after this step")
    options = parser.parse_args(arguments)
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s", stream=sys.stderr)
    try:
        config = load_config(options.config)
        run = Run(config, options.data, options.out)
        steps = run.steps()
        if options.restart_from:
            restart_from(options.restart_from, steps, options.out)
        if options.until:
            names = [step.name for step in steps]
            if options.until not in names:
                raise TrainingError(f"there is no step {options.until!r}; steps: {', '.join(names)}")
            steps = steps[: names.index(options.until) + 1]
        options.out.mkdir(parents=True, exist_ok=True)
        resolved = yaml.safe_dump(asdict(config), sort_keys=False, allow_unicode=True)
        (options.out / "config.yaml").write_text(resolved, encoding="utf-8")
        run_steps(steps, config, options.out, data_fingerprint=run.data_fingerprint())
    except TrainingError as exc:
        print(f"error: {exc}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("stopped; run the same command to go on", file=sys.stderr)
        return 130
    except OSError as exc:
        print(f"error: {exc} (finished steps are kept; run the same command to go on)", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
