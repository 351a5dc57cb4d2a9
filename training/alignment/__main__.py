"""`crosslet align MODEL --pairs FILE --out DIR`: a head for a language pair, in minutes, on a CPU."""

from __future__ import annotations

import argparse
import logging
import sys
from pathlib import Path
from typing import NoReturn

import torch
from tqdm import tqdm

from training.alignment.arguments import add_arguments, at_least_1, exit_status, read_files
from training.alignment.candidates import METHODS
from training.alignment.head import STRUCTURES
from training.alignment.job import Outcome, Task, align
from training.alignment.losses import DISTANCES
from training.alignment.negatives import STRATEGIES
from training.alignment.output import remove_model, write_model
from training.alignment.probe import MAX_LOSS
from training.alignment.report import write_report
from training.alignment.study import run_study
from training.alignment.trainer import Epoch, Progress, Settings
from training.errors import AlignmentError
from training.evaluation.encoders import load_model
from training.system.files import check_folder

MODEL = "model"  # in --out
REFUSED = 1


def main(arguments: list[str] | None = None) -> int:
    """Returns: 0; 1 where a head harms a language; 2 with one sentence where none can be made; 130 on Ctrl-C."""
    options = _parser().parse_args(arguments)
    logging.basicConfig(format="%(message)s", stream=sys.stderr)
    logging.getLogger("training").setLevel(logging.INFO)
    return exit_status(run, options)


def run(options: argparse.Namespace) -> int:
    """Read, align, report, write; or a study."""
    torch.set_num_threads(1)  # small matrices: a second thread costs more than it brings
    if options.study:
        run_study(options.study, options.data or Path(), options.out)
        print(f"report: {options.out / 'report.md'}")
        return 0
    if options.model is None or options.pairs is None:
        raise AlignmentError("give MODEL and --pairs, or --study")
    check_folder(options.out, error=AlignmentError)
    out: Path = options.out / MODEL
    if out.exists() and not options.overwrite:
        raise AlignmentError(f"{out} exists; --overwrite replaces it")
    pairs, test = read_files(options)
    model = load_model(options.model, trust_remote_code=options.trust_remote_code)
    task = Task(model, pairs, test, options.data, options.method, _settings(options))
    outcome = align(task, _bar(task.settings.epochs))
    write_report(task, outcome, options.out, model=Path(options.model).name)
    print(summary(task, outcome))
    print(f"report: {options.out / 'report.md'}")
    if outcome.lost and not options.force:
        lost = ", ".join(f"{name} {points:.2f}" for name, points in outcome.lost.items())
        print(f"refused: points lost beyond {MAX_LOSS}: {lost}; --force writes the model all the same", file=sys.stderr)
        return REFUSED
    remove_model(out)
    facts = record(task, outcome)
    source = f"{pairs.path.name}, pairs of the head"
    write_model(options.model, out, outcome.chosen, alignment=facts, source=source, licence=options.licence)
    print(f"model: {out}")
    return 0


def summary(task: Task, outcome: Outcome) -> str:
    """The gain in one line."""
    before, after = (outcome.scores[name] for name in ("before: as served", "after: less one mean"))
    return (
        f"{task.pairs.label}, {len(outcome.split.test):,} test pairs: P@1 {before['p1']:.1f} -> {after['p1']:.1f}, "
        f"P@5 {before['p5']:.1f} -> {after['p5']:.1f} ({outcome.chosen.name})"
    )


def record(task: Task, outcome: Outcome) -> dict[str, object]:
    """What the model's card says of its head."""
    return {
        "languages": task.pairs.label,
        "pairs": len(outcome.split.train),
        "test_pairs": len(outcome.split.test),
        "method": outcome.chosen.name,
        "scores": {
            "before": outcome.scores["before: as served"],
            "before, less one mean": outcome.scores["before: less one mean"],
            "after": outcome.scores["after: less one mean"],
        },
        "probe": dict(zip(("before", "after"), outcome.probe, strict=True)),
    }


def _bar(total: int) -> Progress:
    """Shows epochs from the first on, which comes when all vectors are there."""
    bars: list[tqdm[NoReturn]] = []

    def show(epoch: Epoch) -> None:
        if not bars:
            bars.append(tqdm(total=total, desc="epochs", unit="epoch"))
        bars[0].set_postfix_str(f"loss {epoch.loss or 0:.4f}, dev P@1 {epoch.p1:.1f}")
        bars[0].update()
        if epoch.number == total:
            bars[0].close()

    return show


def _settings(options: argparse.Namespace) -> Settings:
    names = ("structure", "dropout", "distance", "margin", "negatives", "learning_rate", "batch", "epochs", "seed")
    return Settings(bias=not options.no_bias, **{name: getattr(options, name) for name in names})


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="crosslet align", description="Align a language pair; docs/guide/align.md has more."
    )
    add, default = parser.add_argument, Settings()
    add_arguments(parser, pairs_required=False)
    add("--study", type=Path, metavar="SPEC.yaml", help="the paper's tables; its files are under --data")
    add("--method", choices=METHODS, default="best", help="default: the best on dev that harms no language")
    add("--structure", choices=STRUCTURES, default=default.structure, help="of the siamese head; default: %(default)s")
    add("--no-bias", action="store_true", help="of its layers")
    add("--dropout", type=float, default=default.dropout, help="default: %(default)s; the paper: 0.2")
    add("--distance", choices=DISTANCES, default=default.distance, help="default: %(default)s")
    add("--margin", type=float, default=default.margin, help="in the units of the distance; default: %(default)s")
    add("--negatives", choices=STRATEGIES, default=default.negatives, help="default: %(default)s")
    add("--learning-rate", type=float, default=default.learning_rate, help="default: %(default)s; the paper: 5e-6")
    add("--batch", type=int, default=default.batch, help="pairs; default: %(default)s")
    add("--epochs", type=at_least_1, default=default.epochs, help="default: %(default)s; the paper: 70")
    add("--trust-remote-code", action="store_true", help="run Python files of the model's folder")
    return parser


if __name__ == "__main__":
    sys.exit(main())
