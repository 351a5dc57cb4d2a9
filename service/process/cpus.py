"""Counts the CPUs this process may use: the affinity mask and the cgroup quota."""

import math
import os
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

CGROUP_ROOT = Path("/sys/fs/cgroup")
OWN_CGROUPS = Path("/proc/self/cgroup")


def usable_cpus(cgroup_root: Path = CGROUP_ROOT) -> int:
    """The smaller of the affinity mask and the cgroup quota (rounded up), at least 1."""
    affinity = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    quota = cgroup_quota(cgroup_root)
    return affinity if quota is None else max(1, min(affinity, math.ceil(quota)))


def cgroup_quota(root: Path, own_cgroups: Path = OWN_CGROUPS) -> float | None:
    """Return the smallest CPU quota of this process's cgroup and its ancestors, in CPUs; None if there is no limit.

    The limit of a systemd unit, or of a container in the host's cgroup namespace, is in a group below the root.
    """
    quotas = [_quota(folder) for folder in cgroup_folders("cpu", root, own_cgroups)]
    return min((quota for quota in quotas if quota is not None), default=None)


def cgroup_folders(controller: str, root: Path = CGROUP_ROOT, own_cgroups: Path = OWN_CGROUPS) -> Iterator[Path]:
    """Yield the cgroup folders that may limit this process in one way, cpu or memory; some may not exist."""
    for line in _content(own_cgroups).splitlines() or ["0::/", f"1:{controller}:/"]:
        _, controllers, own = line.split(":", maxsplit=2)  # "0::/system.slice/x.service", or "4:cpu,cpuacct:/docker/1"
        if controllers and controller not in controllers.split(","):
            continue
        hierarchy = root / controller if controllers else root  # version 1 has a folder for each controller
        steps = [part for part in PurePosixPath(own).parts if part not in {"/", ".."}]
        yield from (hierarchy.joinpath(*steps[:count]) for count in range(len(steps) + 1))


def _quota(folder: Path) -> float | None:
    limit = _content(folder / "cpu.max").split()  # version 2: "150000 100000", or "max 100000"
    if len(limit) == 2:
        return None if limit[0] == "max" else int(limit[0]) / int(limit[1])
    quota, period = _content(folder / "cpu.cfs_quota_us"), _content(folder / "cpu.cfs_period_us")  # version 1
    return int(quota) / int(period) if quota and period and int(quota) > 0 else None  # -1: no limit


def _content(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:  # no cgroups, or another version of them: no limit here
        return ""
