"""`crosslet align MODEL --pairs FILE --out DIR`: a head for a language pair, in minutes, on a CPU.

An artifact gets its head by an edit of its graph, a checkpoint by modules behind its own.
"""

from __future__ import annotations

import argparse
import logging
import math
import shutil
import sys
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NoReturn

import torch
from tqdm import tqdm

from export.errors import ExportError
from export.evaluation.models import load_model
from export.head import add_head
from service.model.artifact import MANIFEST_FILE, ArtifactError, DataLicence
from training.alignment.candidates import METHODS, Candidate
from training.alignment.head import STRUCTURES, write_checkpoint
from training.alignment.job import Task, align
from training.alignment.losses import DISTANCES, STRATEGIES
from training.alignment.pairs import PairFile, Split, read_pairs, split_file
from training.alignment.report import write_report
from training.alignment.scores import MAX_SEARCH_LOSS, PairTask, ServedScores
from training.alignment.study import run_study
from training.alignment.trainer import Epoch, Progress, Settings
from training.corpora.leakage import EvaluationSentences
from training.errors import AlignmentError, LoadError
from training.system.command import exit_status
from training.system.files import check_folder

MODEL = "model"  # in --out
REFUSED = 1
MIN_TEST_PAIRS = 10  # of --test


def main(arguments: list[str] | None = None) -> int:
    """Returns: 0; 1 where nothing is gained or something harmed; 2 with one sentence; 130 on Ctrl-C."""
    options = _parser().parse_args(arguments)
    logging.basicConfig(format="%(message)s", stream=sys.stderr)
    logging.getLogger("training").setLevel(logging.INFO)
    return exit_status(lambda: run(options), stopped="stopped; nothing was written")


def run(options: argparse.Namespace) -> int:
    """Read, align, report, write; or a study."""
    torch.set_num_threads(1)  # small matrices: a second thread costs more than it brings
    if options.study:
        if options.model is not None or options.pairs is not None:
            raise AlignmentError("--study names its models and pairs; leave MODEL and --pairs out")
        run_study(options.study, options.data or Path(), options.out, load_model)
        print(f"report: {options.out / 'report.md'}")
        return 0
    if options.model is None or options.pairs is None:
        raise AlignmentError("give MODEL and --pairs, or --study")
    out = model_folder(options)
    pairs, split = read_split(options)
    model = load_model(options.model, trust_remote_code=options.trust_remote_code)
    settings, most = _settings(options), options.max_search_loss
    task = Task(model, pairs, split, options.data, options.method, settings, max_search_loss=most)
    outcome = align(task, _bar(task.settings.epochs))
    before, after, method = outcome.before, outcome.after, outcome.chosen.name
    write_report(task, outcome, options.out, model=Path(options.model).name)
    print_gain(options, task, before, after, method)
    if (reason := outcome.refusal) and is_refused(options, reason):
        return REFUSED
    rows = {"before": before.test, "before, less one mean": outcome.rows["before: less one mean"], "after": after.test}
    facts = record(task, before, after, method) | {"scores": rows}
    source = f"{pairs.path.name}, pairs of the head"
    with TemporaryDirectory(prefix=".model-", dir=options.out) as scratch:
        written = Path(scratch) / MODEL
        write_model(
            *(options.model, written, outcome.chosen),
            alignment=facts,
            source=source,
            licence=options.licence,
            trust_remote_code=options.trust_remote_code,
        )
        remove_model(out)
        written.replace(out)
    print(f"model: {out}")
    return 0


def model_folder(options: argparse.Namespace) -> Path:
    """The folder for the model, in --out.

    Raises: AlignmentError: it exists and may not be replaced, or --out cannot be written.
    """
    check_folder(options.out, error=AlignmentError)
    out: Path = options.out / MODEL
    if out.exists() and not options.overwrite:
        raise AlignmentError(f"{out} exists; --overwrite replaces it")
    return out


def read_split(options: argparse.Namespace) -> tuple[PairFile, Split]:
    """The pairs, without sentences of the evaluation sets that ship with this project, and their split.

    Raises: AlignmentError: one sentence on what is wrong with a file.
    """
    barred = EvaluationSentences.shipped()
    pairs = read_pairs(options.pairs, languages=options.languages, min_score=options.min_score, barred=barred)
    test = read_pairs(options.test, languages=pairs.languages, least=MIN_TEST_PAIRS) if options.test else None
    return pairs, split_file(pairs, test, seed=options.seed)


def print_gain(
    options: argparse.Namespace, task: PairTask, before: ServedScores, after: ServedScores, method: str
) -> None:
    """Print the gain and the place of the report."""
    gains = [f"P@{k} {before.test[key]:.1f} -> {after.test[key]:.1f}" for k, key in ((1, "p1"), (5, "p5"))]
    print(f"{task.pairs.label}, {len(task.split.test):,} test pairs: {', '.join(gains)} ({method})")
    print(f"report: {options.out / 'report.md'}")


def is_refused(options: argparse.Namespace, reason: str) -> bool:
    """Whether --force is not given; then say why no model is written."""
    if not options.force:
        print(f"refused: {reason}; --force writes the model all the same", file=sys.stderr)
    return not options.force


def record(task: PairTask, before: ServedScores, after: ServedScores, method: str) -> dict[str, object]:
    """What the model's card says of the change."""
    return {
        "languages": task.pairs.label,
        "pairs": len(task.split.train),
        "test_pairs": len(task.split.test),
        "method": method,
        "scores": {"before": before.test, "after": after.test},
        "probe": {"before": before.guard.probe, "after": after.guard.probe},
        "similarity": {"before": before.guard.sts, "after": after.guard.sts},
        "search": {"before": before.guard.search, "after": after.guard.search},
    }


def write_model(
    model: str,
    out: Path,
    head: Candidate,
    *,
    alignment: Mapping[str, Any],
    source: str,
    licence: str,
    trust_remote_code: bool = False,
) -> None:
    """Write a copy of the model whose vectors went through the head.

    Args:   model: folder of an artifact or a checkpoint, or a hub name.  alignment: what the card says of the head.
            source, licence: of the pairs.
    Raises: AlignmentError: the model cannot take a head, or nothing can be written.
    """
    data = DataLicence(source, licence, "", int(alignment["pairs"]))
    try:
        if (Path(model) / MANIFEST_FILE).is_file():
            add_head(Path(model), out, head, alignment=alignment, data=data)
        else:
            facts = {"alignment": alignment, "data": asdict(data)}
            write_checkpoint(model, out, head, **facts, trust_remote_code=trust_remote_code)
    except (ArtifactError, ExportError, LoadError) as exc:
        raise AlignmentError(str(exc)) from exc


def remove_model(out: Path) -> None:
    """Remove what an earlier run wrote."""
    if out.is_dir():
        shutil.rmtree(out)


def _bar(total: int) -> Progress:
    """A progress bar that appears with the first epoch, after the bars of the vectors."""
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
    add("--method", choices=METHODS, default="best", help="default: the best on dev that harms nothing")
    add("--structure", choices=STRUCTURES, default=default.structure, help="of the siamese head; default: %(default)s")
    add("--no-bias", action="store_true", help="of its layers")
    add("--dropout", type=float, default=default.dropout, help="default: %(default)s; the paper: 0.2")
    add("--distance", choices=DISTANCES, default=default.distance, help="default: %(default)s")
    add("--margin", type=float, default=default.margin, help="in the units of the distance; default: %(default)s")
    add("--negatives", choices=STRATEGIES, default=default.negatives, help="default: %(default)s")
    add(
        "--learning-rate", type=finite_rate, default=default.learning_rate, help="default: %(default)s; the paper: 5e-6"
    )
    add("--batch", type=int, default=default.batch, help="pairs; default: %(default)s")
    add("--epochs", type=at_least_1, default=default.epochs, help="default: %(default)s; the paper: 70")
    add("--trust-remote-code", action="store_true", help="run Python files of the model's folder")
    return parser


def add_arguments(parser: argparse.ArgumentParser, *, pairs_required: bool) -> None:
    """Add the options that `align` and `adapt` share.  pairs_required: whether MODEL and --pairs must be given."""
    add = parser.add_argument
    add(
        "model",
        metavar="MODEL",
        nargs=None if pairs_required else "?",
        help="folder of an artifact or a checkpoint; `align` also takes any sentence-transformers model",
    )
    add(
        "--pairs",
        type=Path,
        metavar="FILE",
        required=pairs_required,
        help="zh-vi.tsv: left<TAB>right, or what `mine` writes",
    )
    add("--out", type=Path, required=True, metavar="DIR", help="folder for the report and the model")
    add("--test", type=Path, metavar="FILE", help="pairs to measure with; default: part of --pairs is held out")
    add("--languages", type=_pair, metavar="zh,vi", help="of the two columns; default: the file's name says them")
    add("--min-score", type=float, metavar="X", help="of pairs that `crosslet mine` found")
    add("--licence", default="not stated", help="of the pairs, for the card; default: %(default)s")
    add(
        "--data",
        type=Path,
        metavar="DIR",
        help="folder with stsb/dev or eval/stsb/dev: similarity must not fall either",
    )
    add(
        "--max-search-loss",
        type=float,
        default=MAX_SEARCH_LOSS,
        metavar="X",
        help="points that searches in the languages known before may lose; default: %(default)s",
    )
    add("--seed", type=int, default=0, help="default: %(default)s")
    add("--force", action="store_true", help="write the model though nothing is gained, or too much is lost")
    add("--overwrite", action="store_true", help="replace the model of an earlier run in --out")


def at_least_1(text: str) -> int:
    """A whole number of 1 or more, for argparse."""
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text} is below 1")
    return number


def finite_rate(text: str) -> float:
    """A learning rate: a finite number above 0, for argparse."""
    rate = float(text)
    if not 0 < rate < math.inf:
        raise argparse.ArgumentTypeError(f"{text} is no finite number above 0")
    return rate


def _pair(text: str) -> tuple[str, str]:
    names = tuple(name.strip() for name in text.split(","))
    if len(names) != 2 or not all(names):
        raise argparse.ArgumentTypeError(f"{text!r} is not two languages, e.g. zh,vi")
    return names[0], names[1]


if __name__ == "__main__":
    sys.exit(main())
