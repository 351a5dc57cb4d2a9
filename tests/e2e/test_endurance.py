"""The endurance scenarios, for some seconds each: their promises, but for those that need an idle machine or hours."""

import asyncio
import math
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from benchmarks.endurance.crash import crash
from benchmarks.endurance.overload import Overload, Reservoir, overload
from benchmarks.endurance.process import running_service
from benchmarks.endurance.shutdown import Shutdown, shutdown
from benchmarks.endurance.small_disk import own_mounts
from benchmarks.endurance.soak import Soak, mixed_request, soak
from benchmarks.endurance.wire import SENTENCES, Known, batch_request

MIB = 2**20


def long(test: Callable[..., None]) -> Callable[..., None]:
    return pytest.mark.slow(pytest.mark.timeout(900)(test))


@long
def test_overload_is_answered_with_vectors_or_429(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("benchmarks.endurance.overload.USUAL_TIMES", 6)  # the machine may slow down meanwhile
    with running_service(max_texts=64, max_queue_texts=128) as service:  # a short queue fills in seconds
        found = asyncio.run(overload(service, seconds=6))
    assert set(found.statuses) == {200, 429}
    assert (found.lost, found.wrong) == (0, 0)
    assert found.rechecked > 0
    assert found.growth_bytes < 16 * MIB
    assert found.recovery_s < 10  # `make endurance` asks for 2, of a machine with nothing else to do


@long
def test_sigterm_under_load_loses_nothing_accepted() -> None:
    with running_service(shutdown_timeout_s=300, drain_delay_s=5) as service:
        found = asyncio.run(shutdown(service, seconds=3))
    assert found.failures() == []


@long
def test_killed_writers_lose_nothing_acknowledged(tmp_path: Path) -> None:
    found = crash(tmp_path, rounds=10)
    assert found.faults == []
    assert found.changes >= 10
    assert found.cut > 3


@long
def test_writers_killed_on_a_full_disk_lose_nothing() -> None:
    if subprocess.run(own_mounts(["true"]), capture_output=True, check=False).returncode:
        pytest.skip("this system lets no process have mounts of its own")
    command = [sys.executable, "-m", "benchmarks.endurance", "full-disk", "--rounds", "8"]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ended.stdout.splitlines()[-1] == "PASS"
    assert ended.returncode == 0


@long
def test_a_short_soak_is_answered_in_full() -> None:
    with running_service(log_level="WARNING") as service:
        found = asyncio.run(soak(service, seconds=6, sample_s=0.5))
    assert set(found.statuses) <= {200, 422}
    assert found.statuses[200] > 0
    assert math.isfinite(found.mib_per_10_min)


def test_the_slope_of_a_soak_leaves_out_its_warm_up() -> None:
    seconds = [float(second) for second in range(0, 1800, 10)]
    memory = [100 * MIB + int(min(second, 600) * MIB + second * 2 * MIB / 600) for second in seconds]
    found = Soak(Counter({200: 1}), seconds, memory)
    assert found.mib_per_10_min == pytest.approx(2, abs=0.01)
    assert found.failures() == ["memory climbs by 2.00 MiB in ten minutes"]


@pytest.mark.parametrize(
    ("statuses", "samples", "failures"),
    [
        ({200: 9, 422: 1}, 4, []),
        ({200: 9, 422: 1, 500: 1}, 4, ["other statuses than expected: {500: 1}"]),
        ({422: 900}, 4, ["no response with 200, of 900", "900 responses with 422, expected about 100"]),
        ({200: 500, 422: 400}, 4, ["400 responses with 422, expected about 100"]),
        ({}, 1, ["no response with 200, of 0", "1 samples of memory are too few for a slope"]),
    ],
)
def test_a_soak_tells_what_should_not_be_answered(statuses: dict[int, int], samples: int, failures: list[str]) -> None:
    found = Soak(Counter(statuses), [float(second) for second in range(samples)], [MIB] * samples)
    assert found.failures() == failures


def test_an_overload_has_kept_its_promises_only_if_all_of_them() -> None:
    resident_bytes = [100 * MIB, 120 * MIB, 119 * MIB, 121 * MIB]
    kept = Overload(100.0, 3000, 10.0, Counter({200: 5, 429: 20}), resident_bytes=resident_bytes)
    assert kept.failures() == []
    kept.statuses[503] = kept.lost = kept.wrong = 1
    kept.resident_bytes[-1], kept.recovery_s = 130 * MIB, 2.5
    assert len(kept.failures()) == 5


def test_less_than_three_times_the_capacity_is_no_overload() -> None:
    found = Overload(100.0, 2900, 10.0, Counter({200: 5, 429: 20}), resident_bytes=[MIB, MIB])
    assert found.failures() == ["only 2.9 times the capacity was sent, not 3"]


def test_the_answers_that_are_asked_again_are_of_the_whole_load() -> None:
    reservoir = Reservoir(50)
    for number in range(5000):
        reservoir.add(number, b"")
    kept = [number for number, _ in reservoir.kept]
    assert len(set(kept)) == 50
    assert all(5 <= sum(number // 1000 == fifth for number in kept) <= 20 for fifth in range(5))


def test_a_shutdown_with_more_answers_than_arrivals_fails() -> None:
    kept = Shutdown(Counter({200: 5}), received_after=2, logged=Counter({200: 5}), exit_code=0)
    assert kept.failures() == []
    kept.logged[200] += 1
    assert len(kept.failures()) == 1


def test_a_wrong_or_short_answer_is_seen() -> None:
    known = Known([b"[0.5,0.25]"] * len(SENTENCES))
    whole = b"[[0.5,0.25]" + b",[1,0]" * 31 + b"]"
    assert known.is_right(3, whole)
    assert not known.is_right(3, whole.replace(b"0.25", b"0.26"))
    assert not known.is_right(3, whole.replace(b",[1,0]", b"", 1))


def test_no_two_requests_of_a_load_are_the_same() -> None:
    assert len({batch_request(number) for number in range(100)}) == 100
    assert len({mixed_request(number) for number in range(72)}) > 50
