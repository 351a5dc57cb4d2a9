"""`crosslet adapt MODEL --pairs FILE --out DIR`: goes on training a model with a user's pairs, on a CPU."""

from __future__ import annotations

import argparse
import logging
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

from training.adaptation.job import Served, Task, Training, adapt, lost_of, served_scores
from training.adaptation.output import describe_model, write_model
from training.adaptation.report import write_report
from training.adaptation.start import open_start
from training.adaptation.trainer import RATES, UNFROZEN, Settings
from training.alignment.arguments import add_arguments, at_least_1, exit_status, read_files
from training.alignment.output import remove_model
from training.alignment.probe import MAX_LOSS
from training.alignment.split import split_file
from training.errors import AlignmentError
from training.evaluation.encoders import load_model
from training.system.files import check_folder

MODEL = "model"  # in --out
REFUSED = 1


def main(arguments: list[str] | None = None) -> int:
    """Returns: 0; 1 where nothing is gained or a language is harmed; 2 with one sentence; 130 on Ctrl-C."""
    options = _parser().parse_args(arguments)
    logging.basicConfig(format="%(message)s", stream=sys.stderr)
    return exit_status(run, options)


def run(options: argparse.Namespace) -> int:
    """Read, train, export, measure, report; keep the model where it gains and harms nothing."""
    check_folder(options.out, error=AlignmentError)
    out: Path = options.out / MODEL
    if out.exists() and not options.overwrite:
        raise AlignmentError(f"{out} exists; --overwrite replaces it")
    pairs, test = read_files(options)
    split = split_file(pairs, test, seed=options.seed)
    served = load_model(options.model)
    start = open_start(Path(options.model))
    round_words = start.form is not None and start.form.word_bits == 4
    settings = Settings(
        options.unfreeze,
        options.epochs,
        options.learning_rate,
        max_length=min(Settings.max_length, start.max_length),
        seed=options.seed,
        round_words=round_words,
    )
    task = Task(served, start, pairs, split, options.data, settings, options.new_pieces)
    before = served_scores(served, task, name="scores before")
    training = adapt(task)
    options.out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".adapt.", dir=options.out) as scratch:
        written = write_model(replace(task, start=training.start), Path(scratch), licence=options.licence)
        after = served_scores(load_model(str(written)), task, name="scores after")
        write_report(task, training, before, after, options.out, model=Path(options.model).name)
        print(summary(task, training, before, after))
        print(f"report: {options.out / 'report.md'}")
        if (reason := refusal(training, before, after)) and not options.force:
            print(f"refused: {reason}; --force writes the model all the same", file=sys.stderr)
            return REFUSED
        describe_model(written, record(task, training, before, after))
        remove_model(out)
        written.rename(out)
    print(f"model: {out}")
    return 0


def refusal(training: Training, before: Served, after: Served) -> str | None:
    """Why the model is not worth writing, if it is not."""
    if lost := lost_of(before, after):
        return f"points lost beyond {MAX_LOSS}: " + ", ".join(f"{name} {points:.2f}" for name, points in lost.items())
    if training.chosen.dev_p1 <= training.before_p1:
        return f"nothing gained on dev: P@1 {training.before_p1:.1f} before, {training.chosen.dev_p1:.1f} after"
    return None


def summary(task: Task, training: Training, before: Served, after: Served) -> str:
    """The gain in one line."""
    return (
        f"{task.pairs.label}, {len(task.split.test):,} test pairs: "
        f"P@1 {before.test['p1']:.1f} -> {after.test['p1']:.1f}, P@5 {before.test['p5']:.1f} -> {after.test['p5']:.1f} "
        f"(strength {training.chosen.strength:g})"
    )


def record(task: Task, training: Training, before: Served, after: Served) -> dict[str, object]:
    """What the model's card says of its adaptation."""
    return {
        "before": task.model.revision,
        "languages": task.pairs.label,
        "pairs": len(task.split.train),
        "test_pairs": len(task.split.test),
        "new_pieces": training.pieces,
        "method": f"{task.settings.unfreeze}, {task.settings.epochs} passes, strength {training.chosen.strength:g}",
        "scores": {"before": before.test, "after": after.test},
        "probe": {"before": before.probe, "after": after.probe},
    }


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="crosslet adapt", description="Train a model further with your pairs; docs/guide/adapt.md has more."
    )
    add_arguments(parser, pairs_required=True)
    add, default = parser.add_argument, Settings()
    rates = ", ".join(f"{rate:g} ({name})" for name, rate in RATES.items())
    add("--unfreeze", choices=UNFROZEN, default=default.unfreeze, help="what is trained; default: %(default)s")
    add("--epochs", type=at_least_1, default=default.epochs, help="passes over the pairs; default: %(default)s")
    add(
        "--new-pieces",
        type=at_least_1,
        default=0,
        metavar="N",
        help="of a language that the model was not taught, at most, for a Unigram vocabulary; default: none",
    )
    add("--learning-rate", type=float, help=f"default: {rates}")
    return parser


if __name__ == "__main__":
    sys.exit(main())
