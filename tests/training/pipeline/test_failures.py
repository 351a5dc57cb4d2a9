"""What a run leaves and says when it is stopped from outside: real processes, real signals, real full disks."""

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch

from tests.training.small_job import train_tiny

# each test starts several processes, which take seconds to import torch
pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]
ROOT = Path(__file__).parents[3]


def start(out: Path, *arguments: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "tests.training.small_job", str(out), *arguments]
    return subprocess.Popen(command, cwd=ROOT, stderr=subprocess.PIPE, text=True)


def finish(process: subprocess.Popen[str]) -> tuple[int, str]:
    errors = process.communicate(timeout=250)[1]
    assert "Traceback" not in errors
    return process.returncode, errors


def states(out: Path) -> list[Path]:
    return sorted((out / "assistant/resume").glob("*.pt"))


def wait_for_a_checkpoint(process: subprocess.Popen[str], out: Path) -> None:
    while not states(out):
        assert process.poll() is None, process.communicate()[1]
        time.sleep(0.01)


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory: pytest.TempPathFactory) -> dict[str, torch.Tensor]:
    folder = tmp_path_factory.mktemp("uninterrupted")
    train_tiny(folder)
    return torch.load(folder / "weights.pt", weights_only=True)


def test_a_run_stopped_by_ctrl_c_ends_like_an_uninterrupted_one(
    tmp_path: Path, uninterrupted: dict[str, torch.Tensor]
) -> None:
    process = start(tmp_path, "--checkpoint-minutes=0")
    wait_for_a_checkpoint(process, tmp_path)
    process.send_signal(signal.SIGINT)
    code, errors = finish(process)
    assert code == 130
    assert errors.splitlines()[-1] == "stopped; run the same command to go on"
    assert {path.name for path in (tmp_path / "assistant").iterdir()} <= {"started.json", "log.jsonl", "resume"}
    assert states(tmp_path)
    assert finish(start(tmp_path))[0] == 0
    assert {path.name for path in (tmp_path / "assistant").iterdir()} == {
        "started.json", "done.json", "log.jsonl", "weights.pt",
    }  # fmt: skip
    weights = torch.load(tmp_path / "assistant/weights.pt", weights_only=True)
    assert all(torch.equal(weights[name], tensor) for name, tensor in uninterrupted.items())


def test_full_disk_and_damaged_checkpoints_are_one_sentence(tmp_path: Path) -> None:
    code, errors = finish(start(tmp_path, "--checkpoint-minutes=0", "--file-size-limit=50000"))
    assert code == 2
    assert errors.splitlines()[-1] == (
        f"error: [Errno 27] File too large: '{tmp_path}/assistant/resume' "
        "(finished steps are kept; run the same command to go on)"
    )
    assert list((tmp_path / "assistant/resume").iterdir()) == []
    assert not (tmp_path / "assistant/done.json").exists()
    process = start(tmp_path, "--checkpoint-minutes=0")  # there is room again, and then a container is stopped
    wait_for_a_checkpoint(process, tmp_path)
    process.send_signal(signal.SIGTERM)
    assert finish(process)[0] == 130
    for path in states(tmp_path):
        path.write_bytes(b"damaged")
    code, errors = finish(start(tmp_path))
    assert code == 2
    assert errors.splitlines()[-1].startswith("error: assistant: every checkpoint under ")
