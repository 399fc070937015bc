"""The device of a rank, and streams beside its default one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

import torch
from torch import Tensor

DTYPES = {"fp32": torch.float32, "tf32": torch.float32, "fp16": torch.float16, "bf16": torch.bfloat16}
"""Storage of each number format; tf32 is fp32 that a GPU multiplies with fewer bits."""


class SideStream:
    """A CUDA stream beside the default one; on a CPU, where nothing is asynchronous but collectives, nothing at all."""

    def __init__(self, device: torch.device, *, priority: int = 0, used: bool = True) -> None:
        """Make the stream; a negative priority goes first; one that is not ``used`` stands for the default one."""
        self._stream = torch.cuda.Stream(device, priority=priority) if used and device.type == "cuda" else None

    @contextmanager
    def running(self) -> Iterator[None]:
        """Run work launched inside on this stream; it waits for nothing that is on others."""
        if self._stream is None:
            yield
            return
        with torch.cuda.stream(self._stream):
            yield

    def join(self, tensors: Iterable[Tensor]) -> None:
        """Let the current stream wait for this one, and keep tensors made here until it is done with them."""
        if self._stream is None:
            return
        current = torch.cuda.current_stream()
        current.wait_stream(self._stream)
        for tensor in tensors:
            tensor.record_stream(current)


def arithmetic(device: torch.device, precision: str) -> torch.dtype:
    """Number format of dense activations; sets how a GPU multiplies fp32 matrices (tf32 or fp32)."""
    if device.type == "cuda":
        torch.backends.cuda.matmul.allow_tf32 = precision == "tf32"
        torch.backends.cudnn.allow_tf32 = precision == "tf32"
    return DTYPES[precision]
