"""What is put into a card after the export."""

import json
import shutil
from pathlib import Path

import pytest

from export.describe import main
from service.model.artifact import load_manifest, verify_files

SCORES = {"stsb_test": {"en-de": 68.83, "average": 68.83}, "tatoeba_p5": {"de": 99.0}, "tatoeba_p1": {"de": 92.2}}
SCORES["search_min_score"] = {"de": 0.464}


@pytest.fixture
def folder(student_artifact: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(student_artifact, tmp_path / "model"))


def written(path: Path, text: str) -> str:
    path.write_text(text, encoding="utf-8")
    return str(path)


def test_scores_and_notes_are_in_the_card_and_the_model_stays(folder: Path, tmp_path: Path) -> None:
    before = load_manifest(folder)
    scores, notes = written(tmp_path / "s.json", json.dumps(SCORES)), written(tmp_path / "n.md", "Made on Mars.\n")
    assert main([str(folder), "--served", scores, "--notes", notes]) == 0
    after, card = load_manifest(folder), (folder / "README.md").read_text(encoding="utf-8")
    verify_files(folder, after)
    assert after.fingerprint == before.fingerprint
    assert card.index("| stsb_test | 68.8 | 68.8 |") < card.index("### Before export") < card.index("61.2")
    assert "| tatoeba_p1 | 92.2 |" in card
    assert "| search_min_score | 0.46 |" in card
    assert "tatoeba_p5" not in card
    assert "## Training\n\nMade on Mars.\n\nOf the last run: commit" in card
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []


def test_files_of_the_user_and_links_to_the_folder_stay(folder: Path, tmp_path: Path) -> None:
    (folder / ".git").mkdir()
    (folder / ".git" / "HEAD").write_text("ref: main")
    (folder / "LICENSE").write_text("MIT")
    (tmp_path / "current").symlink_to(folder)
    before = {path.name: path.stat().st_ino for path in folder.iterdir()}
    assert main([str(tmp_path / "current"), "--notes", written(tmp_path / "n.md", "Made on Mars.")]) == 0
    after = {path.name: path.stat().st_ino for path in folder.iterdir()}
    assert {name for name in before if after.get(name) != before[name]} == {"README.md", "manifest.json"}
    assert after.keys() == before.keys()
    assert (tmp_path / "current").is_symlink()
    assert load_manifest(folder).training["notes"] == "Made on Mars."
    verify_files(folder, load_manifest(folder))


@pytest.mark.parametrize("done", range(2))
def test_a_run_after_a_stop_between_two_files_mends_them(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, done: int
) -> None:
    replaced: list[Path] = []
    move = Path.replace

    def replace(self: Path, target: Path) -> Path:
        if len(replaced) == done:
            raise KeyboardInterrupt
        replaced.append(target)
        return move(self, target)

    notes = written(tmp_path / "n.md", "Made on Mars.")
    monkeypatch.setattr(Path, "replace", replace)
    assert main([str(folder), "--notes", notes]) != 0
    monkeypatch.undo()
    assert main([str(folder), "--notes", notes]) == 0
    assert "Made on Mars." in (folder / "README.md").read_text()
    verify_files(folder, load_manifest(folder))


def test_what_is_not_given_stays(folder: Path, tmp_path: Path) -> None:
    assert main([str(folder), "--served", written(tmp_path / "s.json", json.dumps(SCORES))]) == 0
    assert main([str(folder), "--notes", written(tmp_path / "n.md", "Made on Mars.")]) == 0
    assert load_manifest(folder).evaluation["served"]["stsb_test"]["en-de"] == 68.83
    assert load_manifest(folder).training["notes"] == "Made on Mars."


@pytest.mark.parametrize("text", ["{", "{}", "[]", '{"stsb_test": 3}'])
def test_a_file_of_something_else_changes_nothing(
    folder: Path, tmp_path: Path, text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    before = (folder / "README.md").read_bytes()
    assert main([str(folder), "--served", written(tmp_path / "s.json", text)]) == 2
    assert "crosslet evaluate --out" in capsys.readouterr().err
    assert (folder / "README.md").read_bytes() == before


def test_notes_that_are_no_text_are_one_sentence(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "n.md").write_bytes(b"\xff")
    assert main([str(folder), "--notes", str(tmp_path / "n.md")]) == 2
    assert "not UTF-8 text" in capsys.readouterr().err


def test_nothing_to_write_is_said(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(folder)]) == 2
    assert "give --served, --notes or both" in capsys.readouterr().err
