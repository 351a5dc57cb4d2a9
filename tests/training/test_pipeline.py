import json
from pathlib import Path

import pytest

from training.__main__ import main
from training.config import RunConfig, build
from training.errors import StepMismatchError
from training.pipeline import Step, folder_fingerprint, restart_from, run_steps

STAGES = {name: {"pairs": 10} for name in ("assistant", "bottleneck", "student_stage", "contrastive")}


def config(**changes: object) -> RunConfig:
    values = {"name": "x", "languages": ["de"], "corpus": {"sources": {"news": {}}}, **STAGES, **changes}
    return build(RunConfig, values, where="test")


class Work:
    """Three steps in a row that record when they run; `second` can be told to die half-way."""

    def __init__(self) -> None:
        self.ran: list[str] = []
        self.dies = False

    def steps(self) -> list[Step]:
        return [
            Step("first", lambda c: {"seed": c.seed}, ("data",), self.work("first")),
            Step("second", lambda c: {"name": c.name}, ("first",), self.work("second")),
            Step("third", lambda _: {}, ("second",), self.work("third")),
        ]

    def work(self, name: str):
        def run(folder: Path) -> None:
            self.ran.append(name)
            if name == "second" and self.dies:
                (folder / "half").write_text("half-done")
                raise KeyboardInterrupt
            (folder / "result").write_text(name)

        return run


def test_finished_steps_are_skipped(tmp_path: Path) -> None:
    work = Work()
    for _ in range(2):
        run_steps(work.steps(), config(), tmp_path, data_fingerprint="d")
    assert work.ran == ["first", "second", "third"]


def test_a_killed_step_runs_again_in_its_folder_and_earlier_ones_do_not(tmp_path: Path) -> None:
    work = Work()
    work.dies = True
    with pytest.raises(KeyboardInterrupt):
        run_steps(work.steps(), config(), tmp_path, data_fingerprint="d")
    assert not (tmp_path / "second" / "done.json").exists()
    work.dies = False
    run_steps(work.steps(), config(), tmp_path, data_fingerprint="d")
    assert work.ran == ["first", "second", "second", "third"]
    assert (tmp_path / "second" / "half").exists()


def test_other_settings_are_refused_by_name_and_spoil_nothing(tmp_path: Path) -> None:
    work = Work()
    run_steps(work.steps(), config(), tmp_path, data_fingerprint="d")
    with pytest.raises(StepMismatchError, match=r"first was made with other settings \(seed\).*--restart-from first"):
        run_steps(work.steps(), config(seed=2), tmp_path, data_fingerprint="d")
    run_steps(work.steps(), config(), tmp_path, data_fingerprint="d")
    assert work.ran == ["first", "second", "third"]


def test_a_half_done_step_of_another_configuration_is_refused(tmp_path: Path) -> None:
    work = Work()
    work.dies = True
    with pytest.raises(KeyboardInterrupt):
        run_steps(work.steps(), config(), tmp_path, data_fingerprint="d")
    with pytest.raises(StepMismatchError, match=r"second was made with other settings \(name\)"):
        run_steps(work.steps(), config(name="y"), tmp_path, data_fingerprint="d")


def test_a_change_of_a_late_step_keeps_the_early_ones(tmp_path: Path) -> None:
    work = Work()
    run_steps(work.steps(), config(), tmp_path, data_fingerprint="d")
    restart_from("second", work.steps(), tmp_path)
    run_steps(work.steps(), config(name="y"), tmp_path, data_fingerprint="d")
    assert work.ran == ["first", "second", "third", "second", "third"]


def test_other_data_is_refused(tmp_path: Path) -> None:
    work = Work()
    run_steps(work.steps(), config(), tmp_path, data_fingerprint="d")
    with pytest.raises(StepMismatchError, match="other data or other earlier steps"):
        run_steps(work.steps(), config(), tmp_path, data_fingerprint="e")


def test_the_data_fingerprint_follows_names_and_sizes(tmp_path: Path) -> None:
    (tmp_path / "a.tsv").write_text("one")
    first = folder_fingerprint(tmp_path)
    assert folder_fingerprint(tmp_path) == first
    (tmp_path / "a.tsv").write_text("three")
    assert folder_fingerprint(tmp_path) != first


def test_a_finished_step_records_its_settings_and_the_commit(tmp_path: Path) -> None:
    run_steps(Work().steps(), config(), tmp_path, data_fingerprint="d")
    done = json.loads((tmp_path / "first" / "done.json").read_text())
    assert done["settings"] == {"seed": 1}
    assert done["git_commit"]


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--config", "none.yaml"], "there is no configuration file none.yaml"),
        (["--config", "{config}", "--restart-from", "stage9"], "there is no step 'stage9'"),
        (["--config", "{config}", "--until", "stage9"], "there is no step 'stage9'"),
        (["--config", "{config}"], "there is no evaluation folder"),
    ],
)
def test_a_run_that_cannot_start_says_why_in_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], complaint: str
) -> None:
    shipped = Path(__file__).parents[2] / "training/configs/smoke.yaml"
    filled = [argument.format(config=shipped) for argument in arguments]
    assert main([*filled, "--data", str(tmp_path / "data"), "--out", str(tmp_path / "out")]) == 2
    errors = [line for line in capsys.readouterr().err.splitlines() if line.startswith("error: ")]
    assert len(errors) == 1
    assert complaint in errors[0]
