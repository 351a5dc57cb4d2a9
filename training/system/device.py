"""Picks the device and its precision, describes the hardware, and checks for a compiler."""

from __future__ import annotations

import os
import platform
import shutil
import sysconfig
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

import torch

from training.errors import ConfigError


def pick_device() -> torch.device:
    """Return this process's GPU, else the CPU."""
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")


def autocast(device: torch.device, *, enabled: bool = True) -> AbstractContextManager[None]:
    """Compute in bf16 where the hardware has it (GPUs since Ampere, CPUs with AVX512-BF16 or AMX), else float32."""
    return torch.autocast(device.type, dtype=torch.bfloat16) if enabled and has_bf16(device) else nullcontext()


def has_bf16(device: torch.device) -> bool:
    """Return whether the hardware computes in bf16."""
    if device.type == "cuda":
        return bool(torch.cuda.is_bf16_supported(including_emulation=False))
    return bool(torch.cpu._is_avx512_bf16_supported() or torch.cpu._is_amx_tile_supported())


def check_compiler(stage: str) -> None:
    """Check that torch.compile can build a stage's layers.

    Raises: ConfigError: there is no C++ compiler, or no headers of this Python.
    """
    compiler = os.environ.get("CXX", "g++")
    if shutil.which(compiler) is None:
        raise ConfigError(
            f"{stage}.compile is true and there is no C++ compiler {compiler!r}: "
            "install one (Debian: g++), name one in CXX, or set it to false"
        )
    headers = Path(sysconfig.get_path("include"))
    if not (headers / "Python.h").is_file():
        raise ConfigError(
            f"{stage}.compile is true and there is no {headers / 'Python.h'}, which torch.compile "
            "needs: install Python's headers (Debian: python3-dev), or set it to false"
        )


def describe_hardware() -> str:
    """Return the processor, its cores, torch's threads and any GPUs, in one line."""
    parts = [f"{cpu_model()}, {os.cpu_count()} cores, {torch.get_num_threads()} threads"]
    parts += [torch.cuda.get_device_name(index) for index in range(torch.cuda.device_count())]
    return "; ".join(parts)


def cpu_model() -> str:
    """Return the processor's name."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []  # not Linux
    named = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(named, "") or platform.processor() or platform.machine()
