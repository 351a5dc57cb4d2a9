"""What ONNX Runtime has to be told for an int8 graph to give the same vectors on every processor."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import onnxruntime

CPU_INFO = Path("/proc/cpuinfo")
VNNI = frozenset({"avx512_vnni", "avx_vnni"})  # x86's instructions that sum products of bytes in 32 bits


def keep_exact(options: onnxruntime.SessionOptions) -> None:
    """Have products of bytes summed without overflow.

    x86 without VNNI sums pairs of products of uint8 and int8 in 16 bits, and they overflow. ONNX Runtime can hold the
    weights as uint8 instead, whose products it sums exactly, but slower, and slower than VNNI would.
    """
    if not has_vnni():
        options.add_session_config_entry("session.x64quantprecision", "1")  # does nothing on other processors than x86


def has_vnni(cpu_info: Path = CPU_INFO) -> bool:
    """Whether this is an x86 processor with VNNI; False where nobody says."""
    try:
        lines = cpu_info.read_text().splitlines()
    except OSError:  # not Linux
        return False
    return any(line.startswith("flags") and not VNNI.isdisjoint(line.split()) for line in lines)
