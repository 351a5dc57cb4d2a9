import logging
import resource
from pathlib import Path

import pytest
import torch

from training.errors import CheckpointError
from training.optimisation.checkpoints import FOLDER, load_newest, remove_states, save_state

CPU = torch.device("cpu")


def save(folder: Path, *steps: int) -> None:
    for step in steps:
        save_state({"step": step, "weights": torch.full((4,), float(step))}, folder, name=f"{step:010d}")


def newest(folder: Path) -> int | None:
    state = load_newest(folder, device=CPU, stage="student")
    return state and state["step"]


def damage(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


def test_a_stage_without_states_starts_from_scratch(tmp_path: Path) -> None:
    assert newest(tmp_path / "none") is None


def test_a_state_comes_back_as_it_was(tmp_path: Path) -> None:
    save(tmp_path, 7)
    state = load_newest(tmp_path, device=CPU, stage="student")
    assert state is not None
    assert torch.equal(state["weights"], torch.full((4,), 7.0))


def test_only_the_newest_is_kept(tmp_path: Path) -> None:
    save(tmp_path, 5, 90, 100, 1_000)
    assert len(list(tmp_path.iterdir())) == 1
    assert newest(tmp_path) == 1_000


def test_a_damaged_newest_state_falls_back_to_the_one_before(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    save(tmp_path, 10)
    (earlier,) = tmp_path.iterdir()
    content = earlier.read_bytes()
    save(tmp_path, 20)
    earlier.write_bytes(content)  # a kill after the newer one was written and before this one was removed
    damage(max(tmp_path.iterdir()))
    with caplog.at_level(logging.WARNING):
        assert newest(tmp_path) == 10
    assert "is damaged (its checksum differs): resuming from the one before" in caplog.text
    save(tmp_path, 15)  # the run resumed from before the damaged state
    assert [path.name[:10] for path in tmp_path.iterdir()] == ["0000000015"]


def test_a_truncated_state_is_damaged(tmp_path: Path) -> None:
    save(tmp_path, 10)
    (path,) = tmp_path.iterdir()
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(CheckpointError, match=r"student: every checkpoint under .* is damaged; --restart-from student"):
        newest(tmp_path)


def test_a_partial_write_is_ignored(tmp_path: Path) -> None:
    save(tmp_path, 10)
    (tmp_path / ".partial").write_bytes(b"half")
    assert newest(tmp_path) == 10


def test_a_full_disk_keeps_the_previous_state_and_no_partial_one(tmp_path: Path) -> None:
    save(tmp_path, 10)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (600, hard))  # what a full disk does to a write
    try:
        with pytest.raises(OSError, match=f"{tmp_path}"):
            save(tmp_path, 20)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert len(list(tmp_path.iterdir())) == 1
    assert newest(tmp_path) == 10


def test_a_finished_stage_frees_the_disk(tmp_path: Path) -> None:
    save(tmp_path / FOLDER, 10)
    remove_states(tmp_path)
    remove_states(tmp_path)
    assert list(tmp_path.iterdir()) == []
