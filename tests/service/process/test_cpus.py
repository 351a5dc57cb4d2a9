import os
from pathlib import Path

import pytest

from service.process.cpus import cgroup_quota, usable_cpus

V1_QUOTA, V1_PERIOD = "cpu.cfs_quota_us", "cpu.cfs_period_us"
V1 = "5:cpu,cpuacct:/docker/1\n0::/"


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


@pytest.mark.parametrize(
    ("own", "files", "expected"),
    [
        (V1, {"cpu.max": "150000 100000\n"}, 1.5),
        (V1, {"cpu.max": "max 100000\n"}, None),
        (V1, {f"cpu/{V1_QUOTA}": "50000", f"cpu/{V1_PERIOD}": "100000"}, 0.5),
        (V1, {f"cpu/{V1_QUOTA}": "-1", f"cpu/{V1_PERIOD}": "100000"}, None),
        (V1, {f"cpu/docker/1/{V1_QUOTA}": "250000", f"cpu/docker/1/{V1_PERIOD}": "100000"}, 2.5),  # below the root
        ("0::/a/b", {"a/b/cpu.max": "50000 100000"}, 0.5),
        ("0::/a/b", {"a/cpu.max": "200000 100000", "a/b/cpu.max": "max 100000"}, 2.0),
        ("0::/a/b", {"a/cpu.max": "100000 100000", "a/b/cpu.max": "400000 100000"}, 1.0),  # no more than those above
        ("0::/a", {"cpu.max": "300000 100000"}, 3.0),  # a container: its own group is mounted as the root
        ("0::/../x", {"x/cpu.max": "150000 100000"}, 1.5),
        ("0::/a", {"other/cpu.max": "50000 100000"}, None),
    ],
)
def test_the_smallest_cpu_quota_of_the_groups_counts(
    tmp_path: Path, own: str, files: dict[str, str], expected: float | None
) -> None:
    write(tmp_path / "own", f"4:memory:/m\n{own}\n")
    for name, text in files.items():
        write(tmp_path / "root" / name, text)
    assert cgroup_quota(tmp_path / "root", tmp_path / "own") == expected


def test_half_a_cpu_still_gives_one_worker(tmp_path: Path) -> None:
    assert usable_cpus(tmp_path) == len(os.sched_getaffinity(0))  # no quota: the affinity mask counts
    write(tmp_path / "cpu.max", "50000 100000")
    assert usable_cpus(tmp_path) == 1
