"""`crosslet ablate SPEC.yaml --data DIR --out DIR`: trains every cell, then writes a report. Run again to resume."""

from __future__ import annotations

import argparse
import logging
import signal
import sys
from pathlib import Path

from training.ablation.document import write_document
from training.ablation.findings import compare, judge
from training.ablation.report import Report
from training.ablation.reranking_report import StudyReport
from training.ablation.reranking_study import (
    StudySpec,
    describe_cells,
    is_study,
    study_cells,
    study_spec,
    train_cells,
)
from training.ablation.results import Results
from training.ablation.runner import describe_plan, plan_trials, train_in_processes, train_trials
from training.ablation.spec import Cell, load_spec, read_cells
from training.config.parsing import read_yaml
from training.corpora.fetch import ensure_sources
from training.errors import ConfigError
from training.evaluation.encoders import LoadModel, load_model
from training.pipeline.inputs import check_evaluation, check_machine
from training.pipeline.runner import run_alone
from training.system.command import exit_status

REPORT = "report"
FAILED_CELLS = 1


def main(arguments: list[str] | None = None, *, load_model: LoadModel = load_model) -> int:
    """Run the command.

    Args:    load_model: of the bi-encoder that a re-ranking study measures too.
    Returns: 0 if every cell is trained, 1 if some failed, 2 after an error, 130 after Ctrl-C.
    """
    parser = argparse.ArgumentParser(prog="crosslet ablate", description="Train variants of one run and compare them.")
    parser.add_argument("spec", type=Path, metavar="SPEC.yaml", help="e.g. training/configs/ablation.yaml")
    parser.add_argument(
        "--data", type=Path, required=True, help="folder with parallel/ and eval/, as for training/run.sh"
    )
    parser.add_argument("--out", type=Path, required=True, help="folder for steps, cells and the report")
    parser.add_argument("--jobs", type=int, default=1, metavar="N", help="cells trained at a time, on one GPU (1)")
    mode = parser.add_mutually_exclusive_group()
    mode.add_argument("--dry-run", action="store_true", help="print the cells, their steps and the steps they share")
    mode.add_argument("--report-only", action="store_true", help="write the report without training")
    options = parser.parse_args(arguments)
    if options.jobs < 1:
        parser.error(f"--jobs is {options.jobs}; it must be at least 1")
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s", stream=sys.stderr)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    return exit_status(
        lambda: ablate(options, load_model),
        stopped="stopped; run the same command to go on",
        kept=" (finished steps are kept; run the same command to go on)",
    )


def ablate(options: argparse.Namespace, load_model: LoadModel) -> int:
    """Plan, train, report."""
    raw = read_yaml(options.spec)
    if is_study(raw):
        if options.jobs > 1:
            raise ConfigError("--jobs is for students; a re-ranking study trains one cell at a time: leave it out")
        return ablate_reranking(study_spec(raw, where=options.spec.name), options, load_model)
    spec = load_spec(options.spec)
    cells = read_cells(spec, options.spec)
    if not options.dry_run and not options.report_only:
        check_inputs(cells, options.data)
    trials = plan_trials(cells, options.data, options.out)
    if options.dry_run:
        print("\n".join(describe_plan(trials)))
        return 0
    failures: dict[str, str] = {}
    with run_alone(options.out):
        if not options.report_only and options.jobs == 1:
            failures = train_trials(trials, options.out)
        elif not options.report_only:
            failures = train_in_processes(trials, options.out, options.jobs)
        results = Results.of(trials)
        report = Report(spec, results, _command(options), failures)
        write_document(spec.title, list(report.blocks()), options.out / REPORT)
    for claim, finding in spec.findings.items():
        print(f"{claim}: {judge(compare(finding, results, floor=spec.margin))}")
    print(f"report: {options.out / REPORT / 'report.md'}")
    for name, reason in failures.items():
        print(f"failed: {name}: {reason}", file=sys.stderr)
    return FAILED_CELLS if failures else 0


def check_inputs(cells: list[Cell], data: Path) -> None:
    """Fetch missing sources and read each evaluation set once.

    Raises: TrainingError: a cell cannot be trained here, or a set is malformed.
    """
    for cell in cells:
        check_machine(cell.config)
        ensure_sources(cell.config.corpus, cell.config.languages, data)
    unlike = {(tuple(c.scored_languages), c.validates, c.dev_folder): c for c in (cell.config for cell in cells)}
    for config in unlike.values():
        check_evaluation(config, data)


def ablate_reranking(spec: StudySpec, options: argparse.Namespace, load_model: LoadModel) -> int:
    """The study of Chen et al. 2020: plan, train, report."""
    cells = study_cells(spec, options.data, options.out, load_model)
    if options.dry_run:
        print("\n".join(describe_cells(cells)))
        return 0
    with run_alone(options.out):
        if not options.report_only:
            train_cells(cells, options.out)
        write_document(spec.title, list(StudyReport(spec, cells, _command(options)).blocks()), options.out / REPORT)
    print(f"report: {options.out / REPORT / 'report.md'}")
    return 0


def _command(options: argparse.Namespace) -> str:
    spec = options.spec.name if options.spec.is_absolute() else options.spec
    return f"crosslet ablate {spec} --data DIR --out DIR"


if __name__ == "__main__":
    sys.exit(main())
