"""Configures ONNX Runtime so that an int8 graph gives the same vectors on every processor."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import onnxruntime

CPU_INFO = Path("/proc/cpuinfo")
VNNI = frozenset({"avx512_vnni", "avx_vnni"})  # x86 instructions that accumulate products of bytes in 32 bits


def keep_exact(options: onnxruntime.SessionOptions) -> None:
    """Prevent overflow when products of bytes are accumulated.

    Without VNNI, x86 adds pairs of uint8 x int8 products in 16 bits, which may overflow. With this option ONNX Runtime
    holds weights as uint8 and accumulates exactly, but more slowly.
    """
    if not has_vnni():
        options.add_session_config_entry("session.x64quantprecision", "1")  # no effect on other processors


def has_vnni(cpu_info: Path = CPU_INFO) -> bool:
    """Return whether this is an x86 processor with VNNI; False if unknown."""
    try:
        lines = cpu_info.read_text().splitlines()
    except OSError:  # not Linux
        return False
    return any(line.startswith("flags") and not VNNI.isdisjoint(line.split()) for line in lines)
