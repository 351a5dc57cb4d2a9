import os
from pathlib import Path

import pytest

from service.cpus import cgroup_quota, usable_cpus


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


@pytest.mark.parametrize(("text", "expected"), [("150000 100000\n", 1.5), ("max 100000\n", None)])
def test_a_version_2_quota_is_read(tmp_path: Path, text: str, expected: float | None) -> None:
    write(tmp_path / "cpu.max", text)
    assert cgroup_quota(tmp_path) == expected


@pytest.mark.parametrize(("quota", "expected"), [("50000", 0.5), ("-1", None)])
def test_a_version_1_quota_is_read(tmp_path: Path, quota: str, expected: float | None) -> None:
    write(tmp_path / "cpu/cpu.cfs_quota_us", quota)
    write(tmp_path / "cpu/cpu.cfs_period_us", "100000")
    assert cgroup_quota(tmp_path) == expected


def test_half_a_cpu_still_gives_one_worker(tmp_path: Path) -> None:
    write(tmp_path / "cpu.max", "50000 100000")
    assert usable_cpus(tmp_path) == 1


def test_without_a_quota_the_affinity_mask_counts(tmp_path: Path) -> None:
    assert usable_cpus(tmp_path) == len(os.sched_getaffinity(0))
