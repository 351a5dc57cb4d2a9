import json
from functools import partial
from pathlib import Path

import pytest
import yaml

from tests.parallel_text import write_data_folder
from tests.training.ablation.specs import finish, plan, write_spec
from training.ablation.__main__ import main
from training.ablation.runner import describe_plan, train_trials
from training.errors import ConfigError, DivergedError
from training.pipeline.runner import DONE, Step

TINY = {
    "tokenizer": {"vocab_size": 300, "alphabet": 60, "sentences": 400},
    "lexical": {"pairs": 200, "iterations": 3},
    "assistant": {"pairs": 64, "batch_size": 32},
    "bottleneck": {"pairs": 64, "batch_size": 32},
    "student_stage": {"pairs": 64, "batch_size": 32},
    "contrastive": {"pairs": 64, "batch_size": 32},
    "evaluation": {"steps": ["start"], "sts_rows": 40, "tatoeba_rows": 20},
}


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_data_folder(tmp_path_factory.mktemp("data"), pairs_per_language=200)


def write_by_name(trials, ran: list[str], *, broken: str = "") -> list:
    """The same trials with steps that only write their name, and one of them failing."""

    def work(folder: Path, name: str) -> None:
        ran.append(folder.resolve().name)
        if name == broken:
            raise DivergedError(f"{name}: the loss is nan")
        (folder / "name").write_text(name)

    for trial in trials:
        trial.steps[:] = [
            Step(step.name, partial(work, name=step.name), step.settings, step.after) for step in trial.steps
        ]
    return trials


def test_shared_steps_run_once(data: Path, tmp_path: Path) -> None:
    _, trials = plan(write_spec(tmp_path), data, tmp_path / "out")
    ran: list[str] = []
    assert train_trials(write_by_name(trials, ran), tmp_path / "out") == {}
    assert len(ran) == len(set(ran)) == len({folder for trial in trials for folder in trial.folders.values()})
    assert sum(name.startswith("assistant-") for name in ran) == 1
    assert sum(name.startswith("shrunk-") for name in ran) == 3  # M=3 K=2, M=3 K=1, M=6 K=1
    assert (tmp_path / "out/cells/w-o-MCL/student/name").read_text() == "student"
    assert train_trials(trials, tmp_path / "out") == {}
    assert len(ran) == len(set(ran))  # the second time: nothing


def test_a_repeat_that_would_be_the_same_training_is_refused(data: Path, tmp_path: Path) -> None:
    path = write_spec(
        tmp_path, seeds={"full": [7]}, seed_keys=["bottleneck.seed"], runs={"full": {"stages": ["student"]}}
    )
    with pytest.raises(ConfigError, match=r"seeds.full has 7, but seed_keys changes nothing that the cell trains"):
        plan(path, data, tmp_path / "out")


def test_a_cell_that_fails_is_named_and_the_others_are_trained(data: Path, tmp_path: Path) -> None:
    _, trials = plan(write_spec(tmp_path), data, tmp_path / "out")
    ran: list[str] = []
    write_by_name(trials[:1], ran, broken="contrastive")
    write_by_name(trials[1:], ran)
    failures = train_trials(trials, tmp_path / "out")
    assert failures == {"full": "DivergedError: contrastive: the loss is nan"}
    assert [trial.is_done("final") for trial in trials] == [False, True, True, True]
    assert not (trials[0].folders["contrastive"] / DONE).exists()


def test_a_failed_shared_step_is_not_retried_for_every_cell(data: Path, tmp_path: Path) -> None:
    _, trials = plan(write_spec(tmp_path), data, tmp_path / "out")
    ran: list[str] = []
    failures = train_trials(write_by_name(trials, ran, broken="assistant"), tmp_path / "out")
    assert failures == dict.fromkeys(["full", "w-o-MCL", "w-o-Rec", "M=6"], "DivergedError: assistant: the loss is nan")
    assert sum(name.startswith("assistant-") for name in ran) == 1


def test_text_that_one_cell_counts_pieces_in_changes_it_alone(data: Path, tmp_path: Path) -> None:
    kinds = {kind: {"tokenizer.kind": kind, "tokenizer.mono": ["more"]} for kind in ("kept", "pruned")}
    path = write_spec(tmp_path, runs=kinds)
    (tmp_path / "data/mono/more").mkdir(parents=True)
    (tmp_path / "data/parallel").symlink_to(data / "parallel")
    folders = []
    for text in ("Hallo", "Guten Tag"):
        (tmp_path / "data/mono/more/de.txt").write_text(text)
        _, trials = plan(path, tmp_path / "data", tmp_path / "out")
        folders.append([trial.folders["tokenizer"].name for trial in trials])
    assert [before == after for before, after in zip(*folders, strict=True)] == [True, False]


def test_the_plan_says_what_is_to_do_shared_and_done(data: Path, tmp_path: Path) -> None:
    _, trials = plan(write_spec(tmp_path), data, tmp_path / "out")
    finish(trials[0], mono=1.0, cross=1.0)
    text = "\n".join(describe_plan(trials))
    assert "w-o-MCL (scored after contrastive)\n    to do: contrastive, contrastive-scores, final\n    done:" in text
    finish(trials[1], mono=1.0, cross=1.0)
    assert list(describe_plan(trials[:2]))[-1] == "2 cells; 15 different steps, 0 to do"


def test_a_dry_run_prints_the_plan_and_writes_nothing(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write_spec(tmp_path)
    assert main([str(path), "--data", str(data), "--out", str(tmp_path / "out"), "--dry-run"]) == 0
    assert "shared with a cell above: corpus, tokenizer, tokens, start" in capsys.readouterr().out
    assert not (tmp_path / "out").exists()


def test_a_malformed_evaluation_line_is_found_before_any_cell(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = write_data_folder(tmp_path / "data", pairs_per_language=20)
    (data / "eval/stsb/test/en-xx.tsv").write_text("1.0\tone\n")
    spec = write_spec(tmp_path, runs={"full": {"evaluation.languages": ["xx"]}})
    assert main([str(spec), "--data", str(data), "--out", str(tmp_path / "out")]) == 2
    assert "en-xx.tsv line 1 has 2 columns" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_a_spec_that_cannot_be_read_is_one_sentence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(tmp_path / "none.yaml"), "--data", str(tmp_path), "--out", str(tmp_path / "out")]) == 2
    assert capsys.readouterr().err == f"error: there is no configuration file {tmp_path / 'none.yaml'}\n"


@pytest.mark.slow
@pytest.mark.parametrize("jobs", ["1", "2"])
def test_two_cells_are_trained_scored_and_reported(data: Path, tmp_path: Path, jobs: str) -> None:
    path = write_spec(
        tmp_path,
        runs={"full": {}, "w/o MCL": {"contrastive.objective": "none"}},
        tables={"Ablation": ["full", "w/o MCL"]},
        figures={"losses": ["full"]},
        findings={"MCL helps": {"order": [["w/o MCL", "full"]]}},
    )
    base = yaml.safe_load((tmp_path / "base.yaml").read_text(encoding="utf-8"))
    (tmp_path / "base.yaml").write_text(yaml.safe_dump({**base, **TINY}), encoding="utf-8")
    out = tmp_path / "out"
    assert main([str(path), "--data", str(data), "--out", str(out), "--jobs", jobs]) == 0
    text = (out / "report/report.md").read_text(encoding="utf-8")
    for name in ("full", "w-o-MCL"):
        scores = json.loads((out / "cells" / name / "contrastive-scores/scores.json").read_text())
        assert f"| {scores['stsb_test_monolingual']['average']:.1f} | {scores['stsb_test']['average']:.1f} |" in text
    assert len(list((out / "report/figures").iterdir())) == 4  # a loss of each stage
    assert len(list((out / "steps").glob("student-*"))) == 1  # stage 3, once for both
