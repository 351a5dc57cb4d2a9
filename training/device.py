"""Where tensors live and how wide they multiply."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext

import torch


def pick_device() -> torch.device:
    """The first GPU, else the CPU."""
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")


def autocast(device: torch.device) -> AbstractContextManager[None]:
    """bf16 where the hardware multiplies it (GPUs; CPUs with AVX512-BF16 or AMX: 2-3 times faster), else float32."""
    if device.type == "cpu" and not torch.ops.mkldnn._is_mkldnn_bf16_supported():
        return nullcontext()
    return torch.autocast(device.type, dtype=torch.bfloat16)
