"""GPUs of this machine, as PyTorch counts them."""

from __future__ import annotations

import torch


def gpu_count() -> int:
    """GPUs that PyTorch can use; 0 when it was built without CUDA or NCCL."""
    if not torch.cuda.is_available() or not torch.distributed.is_nccl_available():
        return 0
    return torch.cuda.device_count()


def gpu_name() -> str:
    """Name that the driver gives to the first of them."""
    return str(torch.cuda.get_device_name(0))
