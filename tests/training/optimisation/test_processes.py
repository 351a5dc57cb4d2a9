import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from tests.ports import reserved_port
from tests.training.optimisation.two_processes import train_stages
from training.errors import ConfigError
from training.optimisation.processes import (
    from_main_process,
    gather_shares,
    is_main_process,
    on_main_process,
    own_share,
    process_count,
    sum_over_processes,
)

ROOT = Path(__file__).parents[3]


def run_together(module: str, arguments: list[str], *, count: int) -> None:
    """`count` processes of a module, as torchrun would start them."""
    shared = {"WORLD_SIZE": str(count), "LOCAL_WORLD_SIZE": str(count), "OMP_NUM_THREADS": "1"}
    with reserved_port() as port:
        meeting = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "GLOO_SOCKET_IFNAME": "lo"}
        processes = [
            subprocess.Popen(
                [sys.executable, "-m", module, *arguments],
                cwd=ROOT,
                env={**os.environ, **meeting, **shared, "RANK": str(rank), "LOCAL_RANK": str(rank)},
                stderr=subprocess.PIPE,
                text=True,
            )
            for rank in range(count)
        ]
        errors = [process.communicate(timeout=250)[1] for process in processes]
    assert [process.returncode for process in processes] == [0] * count, "\n".join(errors)


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path, dict[str, dict[str, torch.Tensor]]]:
    """The four stages by one process and by two, and the one's weights."""
    one, two = tmp_path_factory.mktemp("one"), tmp_path_factory.mktemp("two")
    run_together("tests.training.optimisation.two_processes", [str(two)], count=2)
    return one, two, {name: model.state_dict() for name, model in train_stages(one).items()}


@pytest.mark.slow
@pytest.mark.parametrize("stage", ["assistant", "bottleneck", "student", "contrastive"])
def test_two_processes_give_the_losses_and_weights_of_one(runs: tuple, stage: str) -> None:
    one, two, weights = runs
    log = [[json.loads(line) for line in (run / stage / "log.jsonl").read_text().splitlines()] for run in (one, two)]
    assert len(log[0]) == len(log[1]) > 2
    assert ("tokens" in log[0][0]) == (stage in ("bottleneck", "student"))
    for alone, together in zip(*log, strict=True):
        parts = alone.keys() - {"learning_rates", "pairs_per_s"}
        assert {part: together[part] for part in parts} == pytest.approx(
            {part: alone[part] for part in parts}, abs=2e-5
        )
    first, second = (torch.load(two / f"weights-{rank}.pt", weights_only=True)[stage] for rank in (0, 1))
    for name, expected in weights[stage].items():
        assert torch.equal(first[name], second[name]), name
        torch.testing.assert_close(first[name], expected, atol=1e-5, rtol=1e-5, msg=lambda m, n=name: f"{n}: {m}")


@pytest.mark.slow
def test_dev_scores_come_from_the_main_process_alone(runs: tuple) -> None:
    one, two, _ = runs
    assert (one / "contrastive/dev.jsonl").read_text() == (two / "contrastive/dev.jsonl").read_text()


def test_a_process_alone_is_the_main_one_and_waits_for_nobody() -> None:
    tensor = torch.ones(3, 2)
    assert is_main_process()
    assert process_count() == 1
    assert range(5)[own_share(5)] == range(5)
    assert gather_shares(tensor, 3) is tensor
    assert sum_over_processes(tensor) is tensor
    assert from_main_process(0.25) == 0.25


def test_a_failure_of_the_main_process_is_its_own() -> None:
    def fail() -> None:
        raise ConfigError("a wrong setting")

    with pytest.raises(ConfigError, match="a wrong setting"):
        on_main_process(fail)
