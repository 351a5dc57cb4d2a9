"""Counts the CPUs this process may really use. Knows affinity masks and cgroup quotas; knows nothing about workers."""

import math
import os
from pathlib import Path

CGROUP_ROOT = Path("/sys/fs/cgroup")


def usable_cpus(cgroup_root: Path = CGROUP_ROOT) -> int:
    """The smaller of the affinity mask and the cgroup quota (rounded up), at least 1."""
    affinity = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    quota = cgroup_quota(cgroup_root)
    return affinity if quota is None else max(1, min(affinity, math.ceil(quota)))


def cgroup_quota(root: Path) -> float | None:
    """The CPU quota of the container in CPUs, or None where there is no limit: version 2 first, then version 1."""
    limit = _words(root / "cpu.max")  # "150000 100000", or "max 100000"
    if len(limit) == 2:
        return None if limit[0] == "max" else int(limit[0]) / int(limit[1])
    quota, period = _words(root / "cpu/cpu.cfs_quota_us"), _words(root / "cpu/cpu.cfs_period_us")
    if not quota or not period or int(quota[0]) <= 0:  # -1: no limit
        return None
    return int(quota[0]) / int(period[0])


def _words(path: Path) -> list[str]:
    try:
        return path.read_text().split()
    except OSError:  # not a Linux cgroup, or another version of it: no limit there
        return []
