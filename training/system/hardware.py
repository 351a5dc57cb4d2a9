"""Describes the hardware in one line, for the records of a run."""

from __future__ import annotations

import os
import platform
from pathlib import Path

import torch


def describe_hardware() -> str:
    """The processor, its cores, torch's threads and any GPUs."""
    parts = [f"{cpu_model()}, {os.cpu_count()} cores, {torch.get_num_threads()} threads"]
    parts += [torch.cuda.get_device_name(index) for index in range(torch.cuda.device_count())]
    return "; ".join(parts)


def cpu_model() -> str:
    """The processor's name."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []  # not Linux
    named = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(named, "") or platform.processor() or platform.machine()
