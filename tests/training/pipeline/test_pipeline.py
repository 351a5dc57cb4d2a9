import fcntl
import json
import logging
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
import yaml
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import StaticEmbedding
from tokenizers import Tokenizer
from tokenizers.models import WordLevel

from tests.training.files import write
from training.__main__ import main
from training.config.parsing import build
from training.config.run import EvaluationConfig, RunConfig
from training.errors import ConfigError, CorpusError, StepMismatchError
from training.pipeline.inputs import without_missing_dev
from training.pipeline.run import Run
from training.pipeline.runner import Step, run_steps, share_steps
from training.system.device import describe_hardware, pick_device
from training.system.files import files_under, fingerprint_files

SMOKE = Path(__file__).parents[3] / "training/configs/smoke.yaml"
STAGES = {name: {"pairs": 10} for name in ("assistant", "bottleneck", "student_stage", "contrastive")}


def config(**changes: object) -> RunConfig:
    values = {"name": "x", "languages": ["de"], "corpus": {"sources": {"news": {}}}, **STAGES, **changes}
    return build(RunConfig, values, where="test")


class Work:
    """Three steps in a row that record when they run; `second` can be told to die half-way."""

    def __init__(self) -> None:
        self.ran: list[str] = []
        self.dies = False

    def steps(self, settings: RunConfig) -> list[Step]:
        return [
            Step("first", self.work("first"), {"seed": settings.seed}, ("data",)),
            Step("second", self.work("second"), {"name": settings.name}, ("first",)),
            Step("third", self.work("third"), {}, ("second",)),
        ]

    def run_steps(self, settings: RunConfig, out: Path, *, data_fingerprint: str = "d", **options: Any) -> None:
        run_steps(self.steps(settings), settings, out, data_fingerprint=data_fingerprint, **options)

    def work(self, name: str):
        def run(folder: Path) -> None:
            self.ran.append(name)
            if name == "second" and self.dies:
                (folder / "half").write_text("half-done")
                raise KeyboardInterrupt
            (folder / "result").write_text(name)

        return run


def one_step(
    out: Path,
    settings: dict[str, Any] | None = None,
    work: Callable[[Path], None] = lambda folder: None,
    data: str = "d",
) -> None:
    """Run one step, `only`."""
    run_steps([Step("only", work, settings or {}, ("data",))], config(), out, data_fingerprint=data)


@pytest.fixture
def work() -> Work:
    return Work()


def start_run(folder: Path, *more: str, config: Path = SMOKE) -> int:
    """Run the command from `data` to `out`."""
    return main(["--config", str(config), "--data", str(folder / "data"), "--out", str(folder / "out"), *more])


ALL = ["first", "second", "third"]


def test_a_change_of_a_late_step_keeps_the_early_ones(work: Work, tmp_path: Path) -> None:
    work.run_steps(config(), tmp_path)
    work.run_steps(config(name="y"), tmp_path, restart_from="second")  # `second` reads the name
    assert work.ran == [*ALL, "second", "third"]


def test_a_restart_discards_all_dependents_even_beyond_until(work: Work, tmp_path: Path) -> None:
    work.run_steps(config(), tmp_path)
    work.run_steps(config(), tmp_path, restart_from="first", until="first")
    assert not (tmp_path / "second").exists()
    work.run_steps(config(), tmp_path)
    assert work.ran == [*ALL, *ALL]


@pytest.mark.parametrize(
    ("changes", "options", "reason"),
    [
        ({"seed": 2}, {}, r"first was made with other settings \(seed\).*--restart-from first"),
        ({"seed": 2}, {"restart_from": "second"}, r"first was made with other settings \(seed\)"),
        ({}, {"data_fingerprint": "e"}, "other data or other earlier steps"),
    ],
)
def test_other_settings_or_data_are_refused_and_spoil_nothing(
    work: Work, tmp_path: Path, changes: dict[str, int], options: dict[str, Any], reason: str
) -> None:
    work.run_steps(config(), tmp_path)
    with pytest.raises(StepMismatchError, match=reason):
        work.run_steps(config(**changes), tmp_path, **options)
    assert "seed: 1" in (tmp_path / "config.yaml").read_text()
    work.run_steps(config(), tmp_path)
    assert work.ran == ALL


def test_killed_step_runs_again_in_its_folder(work: Work, tmp_path: Path) -> None:
    work.dies = True
    with pytest.raises(KeyboardInterrupt):
        work.run_steps(config(), tmp_path)
    assert not (tmp_path / "second" / "done.json").exists()
    with pytest.raises(StepMismatchError, match=r"second was made with other settings \(name\)"):
        work.run_steps(config(name="y"), tmp_path)
    work.dies = False
    work.run_steps(config(), tmp_path)
    assert work.ran == ["first", "second", "second", "third"]
    assert (tmp_path / "second" / "half").exists()


def test_restarting_a_shared_step_remakes_it_in_the_store(work: Work, tmp_path: Path) -> None:
    """The store is what cells of an ablation link to, so other cells get the new result, too."""
    share_steps(work.steps(config()), tmp_path / "cell", tmp_path / "store", data_fingerprint="d")
    work.run_steps(config(), tmp_path / "cell")
    work.run_steps(config(), tmp_path / "cell", restart_from="third")
    assert work.ran == ["first", "second", "third", "third"]
    assert (tmp_path / "cell/third").is_symlink()
    assert (tmp_path / "cell/third/result").exists()


def test_interrupted_restart_leaves_no_later_step(work: Work, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    work.run_steps(config(), tmp_path)
    monkeypatch.setattr("shutil.rmtree", Mock(side_effect=KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        work.run_steps(config(), tmp_path, restart_from="first")
    monkeypatch.undo()
    work.run_steps(config(), tmp_path)
    assert work.ran == ["first", "second", "third", "third"]


def test_a_removed_setting_is_named(tmp_path: Path) -> None:
    one_step(tmp_path, {"a": 1, "b": 2})
    with pytest.raises(StepMismatchError, match=r"other settings \(b\)"):
        one_step(tmp_path, {"a": 1})


def share_and_run(work: Work, settings: RunConfig, folder: Path) -> None:
    share_steps(work.steps(settings), folder, folder.parent / "steps", data_fingerprint="d")
    work.run_steps(settings, folder)


def test_two_runs_share_common_steps(work: Work, tmp_path: Path) -> None:
    share_and_run(work, config(), tmp_path / "one")
    share_and_run(work, config(name="y"), tmp_path / "two")  # `second` reads the name
    assert work.ran == ["first", "second", "third", "second", "third"]
    assert (tmp_path / "one/first").resolve() == (tmp_path / "two/first").resolve()
    assert (tmp_path / "one/second").resolve() != (tmp_path / "two/second").resolve()
    assert len(list((tmp_path / "steps").iterdir())) == 5


def test_shared_run_finds_work_of_restored_settings(work: Work, tmp_path: Path) -> None:
    for name in ("x", "y", "x"):
        share_and_run(work, config(name=name), tmp_path / "one")
    assert work.ran == ["first", "second", "third", "second", "third"]


def test_a_folder_of_shared_steps_can_be_moved(tmp_path: Path) -> None:
    share_and_run(Work(), config(), tmp_path / "here/one")
    (tmp_path / "here").rename(tmp_path / "there")
    assert (tmp_path / "there/one/third/result").read_text() == "third"


def test_refused_step_can_run_with_another_corpus(tmp_path: Path) -> None:
    with pytest.raises(CorpusError):
        one_step(tmp_path, {}, Mock(side_effect=CorpusError("no text")))
    one_step(tmp_path, {}, data="corrected")
    assert (tmp_path / "only" / "done.json").exists()


def test_a_step_that_cannot_start_leaves_no_file_to_another(tmp_path: Path) -> None:
    def work(folder: Path) -> None:
        (folder / "vectors").mkdir()
        (folder / "vectors/kept.npz").write_text("of these settings")
        (folder / "kept.npz").write_text("of these settings")
        raise ConfigError("passages.batch_size is 192")

    with pytest.raises(ConfigError):
        one_step(tmp_path, {"kept": 1}, work)
    one_step(tmp_path, {"kept": 2}, lambda folder: None)
    assert {path.name for path in (tmp_path / "only").iterdir()} == {"started.json", "done.json"}


def test_a_step_refused_while_resuming_keeps_its_record(tmp_path: Path) -> None:
    def work(folder: Path, stop: type[BaseException] | None = None) -> None:
        (folder / "resume").mkdir(exist_ok=True)
        (folder / "resume" / "0000000100-abcd.pt").write_text("state")
        if stop is not None:
            raise stop

    for stop in (KeyboardInterrupt, ConfigError):  # killed; then the teacher cannot be read
        with pytest.raises(stop):
            one_step(tmp_path, {"rate": 0.1}, partial(work, stop=stop))
    with pytest.raises(StepMismatchError, match=r"other settings \(rate\)"):
        one_step(tmp_path, {"rate": 0.2}, work)
    one_step(tmp_path, {"rate": 0.1}, work)
    assert json.loads((tmp_path / "only" / "done.json").read_text())["resumed"] is True
    assert {path.name for path in (tmp_path / "only").iterdir()} == {"started.json", "done.json"}  # no checkpoints


def test_a_fingerprint_follows_names_contents_and_links(tmp_path: Path) -> None:
    data, elsewhere, seen = tmp_path / "data", tmp_path / "elsewhere", set()
    data.mkdir()
    elsewhere.mkdir()
    (elsewhere / "c.tsv").write_text("three")
    for change in (
        lambda: (data / "a.tsv").write_text("one"),
        lambda: (data / "a.tsv").write_text("two"),  # the same size
        lambda: (data / "a.tsv").rename(data / "b.tsv"),
        lambda: (data / "linked").symlink_to(elsewhere),
    ):
        change()
        seen.add(fingerprint_files(files_under(data), relative_to=tmp_path))
    assert len(seen) == 4


def test_a_finished_step_records_its_settings_and_the_commit(tmp_path: Path) -> None:
    Work().run_steps(config(), tmp_path)
    done = json.loads((tmp_path / "first" / "done.json").read_text())
    assert done["settings"] == {"seed": 1}
    assert done["git_commit"]
    assert "threads" in done["hardware"]
    assert done["resumed"] is False


@pytest.mark.parametrize(
    ("config", "arguments", "complaint"),
    [
        (Path("none.yaml"), [], "there is no configuration file none.yaml"),
        (SMOKE, ["--restart-from", "stage9"], "there is no step 'stage9'"),
        (SMOKE, ["--until", "stage9"], "there is no step 'stage9'"),
        (SMOKE, [], "source 'sentences' has no en-<language>.tsv"),
    ],
)
def test_a_run_that_cannot_start_says_why_in_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], config: Path, arguments: list[str], complaint: str
) -> None:
    for language in ("de", "es") if "step" in complaint else ():
        write(tmp_path / f"data/parallel/sentences/en-{language}.tsv", "A cat\tEine Katze")
    assert start_run(tmp_path, *arguments, config=config) == 2
    (error,) = [line for line in capsys.readouterr().err.splitlines() if line.startswith("error: ")]
    assert complaint in error


def test_the_log_says_on_which_device_a_run_computes(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO):
        start_run(tmp_path)
    assert f"device {pick_device()}: {describe_hardware()}" in caplog.messages


def test_a_malformed_evaluation_line_is_found_before_any_step(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The scores come last: hours later, and a mended file would be other data."""
    write(tmp_path / "data/parallel/sentences/en-de.tsv", "A cat\tEine Katze")
    write(tmp_path / "data/eval/stsb/test/en-de.tsv", "1.0\tone\teins", "2.0\ttwo")
    assert start_run(tmp_path) == 2
    assert "en-de.tsv line 2 has 2 columns" in capsys.readouterr().err
    assert not (tmp_path / "out/corpus").exists()


def test_a_named_dev_set_is_found_missing_before_any_step(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    settings = yaml.safe_load(SMOKE.read_text())
    settings["contrastive"] |= {"validate_pairs": 10}
    settings["evaluation"] |= {"dev": "none"}
    path = tmp_path / "run.yaml"
    path.write_text(yaml.safe_dump(settings))
    write(tmp_path / "data/parallel/sentences/en-de.tsv", "A cat\tEine Katze")
    write(tmp_path / "data/eval/stsb/test/en-de.tsv", "1.0\tone\teins", "2.0\ttwo\tzwei")
    assert start_run(tmp_path, config=path) == 2
    assert "nothing to validate on" in capsys.readouterr().err
    assert not (tmp_path / "out/corpus").exists()


def test_dev_scores_need_a_dev_set(tmp_path: Path) -> None:
    asked = config(contrastive={"pairs": 10, "validate_pairs": 5})
    assert without_missing_dev(asked, tmp_path).contrastive.validate_pairs is None
    write(tmp_path / "eval/stsb/dev/en-de.tsv", "1.0\tone\teins", "2.0\ttwo\tzwei")
    assert without_missing_dev(asked, tmp_path) == asked
    named = asked.model_copy(update={"evaluation": EvaluationConfig(dev="none")})
    assert without_missing_dev(named, tmp_path) == named


def test_a_stopped_restart_says_how_to_resume(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("training.__main__.run_job", Mock(side_effect=KeyboardInterrupt))
    assert main(["--config", "x.yaml", "--restart-from", "contrastive"]) == 130
    assert "without --restart-from once contrastive has begun, to go on" in capsys.readouterr().err


def test_a_base_without_a_transformer_is_one_sentence(tmp_path: Path) -> None:
    words = Tokenizer(WordLevel({"[UNK]": 0, "a": 1}, "[UNK]"))
    SentenceTransformer(modules=[StaticEmbedding(words, embedding_dim=4)], device="cpu").save(str(tmp_path / "base"))
    run = Run(config(base=str(tmp_path / "base")), tmp_path, tmp_path / "out")
    with pytest.raises(ConfigError, match="base has no transformer to start from"):
        run.load_base()


def test_two_runs_into_one_folder_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out"
    out.mkdir()
    with (out / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert start_run(tmp_path) == 2
    assert f"another run is writing to {out}" in capsys.readouterr().err
