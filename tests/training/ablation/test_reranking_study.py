import json
from pathlib import Path

import pytest
import yaml

from tests.training.reranking.small import settings, student_base, write_data
from training.ablation.__main__ import main
from training.ablation.document import to_markdown
from training.ablation.findings import Verdict
from training.ablation.reranking_report import (
    INSURANCE_QA,
    ZERO_SHOT,
    StudyReport,
    findings_table,
    strategies_table,
    verdict,
    zero_shot_table,
)
from training.ablation.reranking_study import mixes, study_cells, study_spec
from training.config.parsing import read_yaml
from training.reranking.job import RERANKER

MIXED_CELLS = ("mixed", "mixed by question")
STAGE = {"epochs": 1.0, "batch_size": 8, "learning_rate": 3.0e-3}


def write_study(folder: Path, *, keys: dict[str, object] | None = None, **changes: object) -> Path:
    """A study of tiny runs. `keys`: the study's own; `changes`: the run's."""
    folder.mkdir(exist_ok=True)
    base = student_base(folder / "base")
    run = settings(base, xpi={"sources": ["talk"], "count": 32, "stage": STAGE}, xpr=STAGE) | changes
    path = folder / "study.yaml"
    path.write_text(yaml.safe_dump({"kind": "reranker-study", "title": "Three strategies", "run": run, **(keys or {})}))
    return path


def train(spec: Path, data: Path, out: Path, *more: str) -> int:
    return main([str(spec), "--data", str(data), "--out", str(out), *more])


def as_scores(cell_mrr: dict[str, float], label: str = "xquad") -> dict:
    """Scores of cells by their MRR; acc@1 is ten points under it."""
    offsets = {"acc@1": -10, "acc@10": 9, "mrr": 0, "map": 0}
    return {
        cell: {label: {RERANKER: {metric: {"mixed": mrr + offset} for metric, offset in offsets.items()}}}
        for cell, mrr in cell_mrr.items()
    }


def test_command_trains_seven_cells_and_writes_tables(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    spec, data, out = write_study(tmp_path), write_data(tmp_path / "data"), tmp_path / "out"
    assert train(spec, data, out, "--dry-run") == 0
    assert "XPI + merged: xpi (shared)" not in (plan := capsys.readouterr().out)
    assert "XPI + cascade: xpi (shared), xpr-1, xpr-2" in plan
    assert train(spec, data, out) == 0
    assert len(list((out / "steps").glob("xpi-*"))) == 1
    pairs = {
        folder.name: sum(
            json.loads((step / "log.jsonl").read_text().splitlines()[-1])["pairs"] for step in folder.glob("xpr*")
        )
        for folder in (out / "cells").iterdir()
    }
    assert pairs.keys() == {"merged", "cascade", "mixed", "xpi-merged", "xpi-cascade", "xpi-mixed", "mixed-by-question"}
    assert len(set(pairs.values())) == 1
    report = (out / "report/report.md").read_text()
    for name, published in INSURANCE_QA.items():
        row = next(line for line in report.splitlines() if line.startswith(f"| {name} |"))
        assert f"{published[0]:.2f}" in row
        assert "–" not in row
    assert "| bi-encoder alone |" in report
    assert str(tmp_path) not in report.replace(str(tmp_path / "base"), "")
    capsys.readouterr()
    assert train(spec, data, out, "--dry-run") == 0
    assert capsys.readouterr().out.count(": done") == 7
    spec.write_text(spec.read_text().replace("epochs: 1.0", "epochs: 2.0"))
    assert train(spec, data, out, "--dry-run") == 0  # what was trained by other settings counts for nothing
    assert ": done" not in capsys.readouterr().out
    assert train(spec, data, out, "--report-only") == 0
    assert "nothing trained yet" in (out / "report/report.md").read_text()


def test_the_other_mix_and_further_bases_have_cells(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data, out = write_data(tmp_path / "data"), tmp_path / "out"
    spec = write_study(tmp_path, keys={"bases": {"mBERT": str(student_base(tmp_path / "mbert", seed=2))}})
    assert train(spec, data, out, "--dry-run") == 0
    plan = capsys.readouterr().out
    assert "mixed by question: xpr, scores, final" in plan
    assert "XPI + mixed, mBERT: xpi, xpr, scores, final" in plan
    assert train(spec, data, out) == 0
    by_pair, by_question, other = (
        yaml.safe_load((out / f"cells/{name}/config.yaml").read_text())
        for name in ("mixed", "mixed-by-question", "mixed-mbert")
    )
    assert (by_pair["mix_by"], by_question["mix_by"]) == ("pair", "question")
    assert by_pair | {"base": other["base"]} == other
    first, second = (out / f"cells/{name}/xpr/last/model.safetensors" for name in ("mixed", "mixed-by-question"))
    assert first.read_bytes() != second.read_bytes()
    rows = [line.split(" | ") for line in (out / "report/report.md").read_text().splitlines()]
    paper = [next(row for row in rows if row[0] == f"| {name}")[5:] for name in ("mixed", "mixed, mBERT")]
    assert paper[0] == paper[1] == ["26.95", "64.92", "39.51", "34.55 |"]
    (finding,) = (row for row in rows if row[0].startswith("| mixed: by pair"))
    assert finding[3] != "–"


@pytest.mark.parametrize(
    ("mix_by", "names"), [("pair", ("mixed", "mixed by question")), ("question", ("mixed by pair", "mixed"))]
)
def test_mixing_by_pair_is_compared_with_by_question(mix_by: str, names: tuple[str, str], tmp_path: Path) -> None:
    path = write_study(tmp_path, mix_by=mix_by)
    assert mixes(study_spec(read_yaml(path), where=path.name)) == names


@pytest.mark.parametrize(
    ("question", "difference", "found"),
    [(45.0, "+5.00", "better by pair"), (50.5, "-0.50", "within noise"), (52.0, "-2.00", "better by question")],
)
def test_the_finding_on_mixing_names_the_better(question: float, difference: str, found: str) -> None:
    scores = as_scores({"mixed": 50.0, "mixed by question": question})
    row = findings_table([scores], margin=1.0, mixes=MIXED_CELLS).rows[-1]
    assert row[1:] == ["MRR", "–", difference, found]


def test_a_set_of_the_paper_stands_beside_its_figures() -> None:
    table = zero_shot_table([as_scores({"mixed": 50.0, "XPI + mixed": 52.5})])
    (row,) = table.rows
    assert row[:3] == ["xquad", "40.00 → 42.50", "47.90 → 56.64"]
    assert row[-1] == "{:.2f} → {:.2f}".format(*(ZERO_SHOT["xquad"][name][2] for name in ("mixed", "XPI + mixed")))


def test_a_finding_is_judged_by_its_smallest_difference() -> None:
    scores = as_scores({"merged": 40.0, "cascade": 44.5, "mixed": 45.0, "XPI + mixed": 42.0})
    found = {row[0]: row[2:] for row in findings_table([scores], margin=1.0, mixes=MIXED_CELLS).rows}
    assert found["mixed is the best strategy"] == ["+4.29", "+0.50", Verdict.WITHIN_NOISE]
    assert found["XPI helps mixed"] == ["+1.35", "-3.00", Verdict.NOT_CONFIRMED]
    assert found["XPI hurts cascade"] == ["+0.93", "–", Verdict.NOT_RUN]
    assert verdict([1.5], 1.0) == Verdict.CONFIRMED


def test_seeds_that_disagree_on_the_sign_decide_nothing() -> None:
    assert verdict([9.0, 0.5], 1.0) == Verdict.CONFIRMED
    assert verdict([9.0, -0.5], 1.0) == verdict([-9.0, 0.5], 1.0) == Verdict.WITHIN_NOISE
    assert verdict([-9.0, -0.5], 1.0) == Verdict.NOT_CONFIRMED


def test_findings_over_seeds_are_mean_differences_with_range() -> None:
    # mixed against the better of the two others, by seed: +1, +4 and -2; XPI: +3 and +6, the last seed lacks it
    seeds = [
        {"merged": 40.0, "cascade": 44.0, "mixed": 45.0, "XPI + mixed": 48.0},
        {"merged": 41.0, "cascade": 40.0, "mixed": 45.0, "XPI + mixed": 51.0},
        {"merged": 47.0, "cascade": 40.0, "mixed": 45.0},
    ]
    table = findings_table([as_scores(seed) for seed in seeds], margin=1.0, mixes=MIXED_CELLS)
    found = {row[0]: row[3:] for row in table.rows}
    assert found["mixed is the best strategy"] == ["+1.00 (-2.00 to 4.00)", Verdict.WITHIN_NOISE]
    assert found["XPI helps mixed"] == ["+4.50 (3.00 to 6.00)", Verdict.CONFIRMED]
    assert "One training each" not in table.note


def test_scores_over_seeds_are_means_with_deviation() -> None:
    trained = [as_scores({"mixed": mrr}) for mrr in (40.0, 42.0, 47.0)]  # deviations -3, -1, 4: sqrt(26 / 2)
    (row,) = strategies_table(["mixed"], trained).rows
    assert row[3] == "43.00 ± 3.61"
    (row,) = strategies_table(["mixed"], trained[:1]).rows
    assert row[3] == "40.00"


@pytest.mark.slow
def test_each_seed_trains_all_cells_in_folders_of_its_own(tmp_path: Path) -> None:
    spec, data, out = write_study(tmp_path, keys={"seeds": [1, 2]}), write_data(tmp_path / "data"), tmp_path / "out"
    assert train(spec, data, out) == 0
    cells = sorted((out / "cells").iterdir())
    assert len(cells) == 14
    mrr = {}
    for cell in cells:
        seed = int(cell.name.rpartition("-seed-")[2])
        assert yaml.safe_load((cell / "config.yaml").read_text())["seed"] == seed
        scores = json.loads((cell / "final/scores.json").read_text())["xset"]
        assert ("bi-encoder" in scores) == (seed == 1)
        mrr[cell.name] = scores[RERANKER]["mrr"]["mixed"]
    one, other = mrr["xpi-mixed-seed-1"], mrr["xpi-mixed-seed-2"]
    report = (out / "report/report.md").read_text()
    assert f"{(one + other) / 2:.2f} ± {abs(one - other) / 2**0.5:.2f}" in report
    assert "14 of 14 trainings are done" in report
    assert report.count("| bi-encoder alone |") == 1


@pytest.mark.slow
def test_more_seeds_keep_what_the_first_has_trained(tmp_path: Path) -> None:
    data, out = write_data(tmp_path / "data"), tmp_path / "out"
    spec = write_study(tmp_path)
    assert train(spec, data, out) == 0
    before = {file: file.stat().st_mtime_ns for file in (out / "steps").glob("*/done.json")}
    spec.write_text(yaml.safe_dump(yaml.safe_load(spec.read_text()) | {"seeds": [1, 2]}))
    assert train(spec, data, out) == 0
    after = {file: file.stat().st_mtime_ns for file in (out / "steps").glob("*/done.json")}
    assert before.items() < after.items()
    assert len(after) == 2 * len(before)


@pytest.mark.parametrize("seed", [1, 2])
def test_one_seed_gives_the_report_of_a_run_with_it(seed: int, tmp_path: Path) -> None:
    data = write_data(tmp_path / "data")
    reports = []
    for name, keys, changes in (("by-run", {}, {"seed": seed}), ("by-key", {"seeds": [seed]}, {})):
        path = write_study(tmp_path, keys=keys, **changes)
        spec = study_spec(read_yaml(path), where=path.name)
        cells = study_cells(spec, data, tmp_path / name)
        assert [cell.run.out.name for cell in cells][-1] == "mixed-by-question"
        assert {cell.run.config.seed for cell in cells} == {seed}
        reports.append(to_markdown(spec.title, list(StudyReport(spec, cells, "crosslet ablate").blocks())))
    assert reports[0] == reports[1]


@pytest.mark.parametrize(
    ("changes", "options", "complaint"),
    [
        ({"keys": {"bases": {"a/b": "folder"}}}, [], "bases"),
        ({"keys": {"seeds": []}}, [], "at least one"),
        ({"keys": {"seeds": [1, 1]}}, [], "must be different seeds"),
        ({"keys": {"seeds": [-1]}}, [], "seeds.0 is -1; it must be at least 0"),
        ({"xpi": None}, [], "run has no xpi"),
        ({"xpr": {**STAGE, "epochs": None, "pairs": 64}}, [], "run.xpr must have epochs"),
        ({"languages": ["en"]}, [], "languages is ['en']; it must have at least two"),
        ({}, ["--jobs", "2"], "trains one cell at a time"),
    ],
)
def test_what_cannot_be_compared_is_refused(
    changes: dict, options: list[str], complaint: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert train(write_study(tmp_path, **changes), tmp_path, tmp_path / "out", *options) == 2
    assert complaint in capsys.readouterr().err


def test_the_shipped_study_loads() -> None:
    path = Path(__file__).parents[3] / "training/configs/reranker-study.yaml"
    assert study_spec(read_yaml(path), where=path.name).run.languages == ["en", "zh"]
