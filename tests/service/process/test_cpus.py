import os
from pathlib import Path

import pytest

from service.process.cpus import cgroup_quota, usable_cpus


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


V1_QUOTA, V1_PERIOD = "cpu.cfs_quota_us", "cpu.cfs_period_us"


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({"cpu.max": "150000 100000\n"}, 1.5),
        ({"cpu.max": "max 100000\n"}, None),
        ({f"cpu/{V1_QUOTA}": "50000", f"cpu/{V1_PERIOD}": "100000"}, 0.5),
        ({f"cpu/{V1_QUOTA}": "-1", f"cpu/{V1_PERIOD}": "100000"}, None),
        ({f"cpu/docker/1/{V1_QUOTA}": "250000", f"cpu/docker/1/{V1_PERIOD}": "100000"}, 2.5),  # below the root
    ],
)
def test_a_quota_of_either_version_is_read(tmp_path: Path, files: dict[str, str], expected: float | None) -> None:
    write(tmp_path / "own", "5:cpu,cpuacct:/docker/1\n0::/\n")
    for name, text in files.items():
        write(tmp_path / "root" / name, text)
    assert cgroup_quota(tmp_path / "root", tmp_path / "own") == expected


def test_half_a_cpu_still_gives_one_worker(tmp_path: Path) -> None:
    write(tmp_path / "cpu.max", "50000 100000")
    assert usable_cpus(tmp_path) == 1


@pytest.mark.parametrize(
    ("own", "limits", "expected"),
    [
        ("0::/a/b", {"a/b": "50000 100000"}, 0.5),
        ("0::/a/b", {"a": "200000 100000", "a/b": "max 100000"}, 2.0),
        ("0::/a/b", {"a": "100000 100000", "a/b": "400000 100000"}, 1.0),  # a group has no more than those above it
        ("0::/a", {"": "300000 100000"}, 3.0),  # a container: its own group is mounted as the root
        ("0::/../x", {"x": "150000 100000"}, 1.5),
        ("0::/a", {"other": "50000 100000"}, None),
    ],
)
def test_smallest_cpu_quota_of_the_groups_counts(
    tmp_path: Path, own: str, limits: dict[str, str], expected: float | None
) -> None:
    write(tmp_path / "own", f"4:memory:/m\n{own}\n")
    for group, text in limits.items():
        write(tmp_path / "root" / group / "cpu.max", text)
    assert cgroup_quota(tmp_path / "root", tmp_path / "own") == expected


def test_without_a_quota_the_affinity_mask_counts(tmp_path: Path) -> None:
    assert usable_cpus(tmp_path) == len(os.sched_getaffinity(0))
