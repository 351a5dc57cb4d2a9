"""Where tensors live and how wide they multiply."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext

import torch


def pick_device() -> torch.device:
    """The first GPU, else the CPU."""
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")


def autocast(device: torch.device) -> AbstractContextManager[None]:
    """bf16 where the hardware multiplies it (GPUs from Ampere on, CPUs with AVX512-BF16 or AMX), else float32."""
    if device.type == "cuda":
        has_bf16 = torch.cuda.is_bf16_supported(including_emulation=False)
    else:
        has_bf16 = torch.cpu._is_avx512_bf16_supported() or torch.cpu._is_amx_tile_supported()
    return torch.autocast(device.type, dtype=torch.bfloat16) if has_bf16 else nullcontext()
