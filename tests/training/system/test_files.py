"""Temporary files that others may have put there, and who may read what training writes."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from tests.training.models.bases import save_family
from tests.training.reranking.small import TEXTS, student_base
from training.models.cross_encoder import load_base
from training.optimisation.checkpoints import save_state
from training.reranking.checkpoint import save_cross_encoder
from training.system.files import partial, write_atomically
from training.system.locks import wait_for


@pytest.fixture
def victim(tmp_path: Path) -> Iterator[Path]:
    """A file that must stay as it is."""
    path = tmp_path / "victim"
    path.write_text("precious")
    yield path
    assert path.read_text() == "precious"


def test_a_link_of_a_temporary_name_is_replaced(tmp_path: Path, victim: Path) -> None:
    path = tmp_path / "report.md"
    partial(path).symlink_to(victim)
    write_atomically(path, lambda temporary: temporary.write_text("new"))
    assert path.read_text() == "new"
    assert not path.is_symlink()


def test_a_state_is_not_written_through_a_link(tmp_path: Path, victim: Path) -> None:
    (tmp_path / "resume").mkdir()
    (tmp_path / "resume" / ".partial").symlink_to(victim)
    save_state({"step": 1}, tmp_path / "resume", name="0000000001")
    (state,) = (tmp_path / "resume").iterdir()
    assert torch.load(state, weights_only=True) == {"step": 1}


def test_a_lock_does_not_empty_what_a_link_leads_to(tmp_path: Path, victim: Path) -> None:
    (tmp_path / "step").mkdir()
    (tmp_path / "step" / ".lock").symlink_to(victim)
    with wait_for(tmp_path / "step"):
        pass


@pytest.fixture(params=[0o022, 0o077], ids=["shared", "private"])
def mode(request: pytest.FixtureRequest) -> Iterator[int]:
    """What a new file gets under an umask."""
    before = os.umask(request.param)
    yield 0o666 & ~request.param
    os.umask(before)


def modes(folder: Path) -> set[int]:
    return {path.stat().st_mode & 0o777 for path in folder.rglob("*") if path.is_file()}


def test_weights_of_a_cross_encoder_follow_the_umask(tmp_path: Path, mode: int) -> None:
    model, tokenizer = load_base(str(save_family("bert", tmp_path / "base", TEXTS)), attention="eager")
    save_cross_encoder(model, tokenizer, tmp_path / "saved", name="x", languages=["en"], max_length=32)
    assert (tmp_path / "saved" / "model.safetensors").exists()
    assert modes(tmp_path / "saved") == {mode}


def test_weights_of_a_sentence_encoder_follow_the_umask(tmp_path: Path, mode: int) -> None:
    folder = student_base(tmp_path / "student")
    assert (folder / "model.safetensors").exists()
    assert modes(folder) == {mode}
