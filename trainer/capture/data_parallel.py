"""Stand-in for ``torch.nn.parallel.DistributedDataParallel``, whose C++ part needs tensors with memory.

Gradients go into buckets as PyTorch's reducer puts them there: in the reverse order of parameters in the first
iteration, then in the order in which the backward pass made them (pytorch c10d/reducer.cpp, rebuildBuckets).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch.nn import Module, Parameter

from workloads.graph.buckets import GRADIENT_BYTES, gradient_buckets

FIRST_BUCKET_BYTES = 1 << 20
"""Size at which the first bucket is closed (pytorch c10d/reducer.hpp, kDefaultFirstBucketBytes)."""
BUCKET_MIB = 25.0
"""Size at which others are (DistributedDataParallel's bucket_cap_mb)."""


@dataclass(slots=True)
class _Filled:
    """A bucket: its parameters, its buffer, and the parameters whose gradient is missing."""

    parameters: list[Parameter]
    buffer: Tensor
    missing: set[int] = field(default_factory=set)
    work: Any = None


class CapturedDataParallel(Module):
    """A module whose gradients all ranks of a group average."""

    def __init__(
        self,
        module: Module,
        device_ids: Any = None,  # noqa: ARG002 - arguments of the original
        output_device: Any = None,  # noqa: ARG002
        dim: int = 0,  # noqa: ARG002
        broadcast_buffers: bool = True,
        process_group: Any = None,
        bucket_cap_mb: float | None = None,
        gradient_as_bucket_view: bool = False,
        **_: Any,
    ) -> None:
        """Wrap a module; the first iteration has buckets in the reverse order of its parameters."""
        super().__init__()
        self.module = module
        self._group = process_group
        self._cap = (BUCKET_MIB if bucket_cap_mb is None else bucket_cap_mb) * 2**20
        self._view = gradient_as_bucket_view
        self._buffers_to_send = [*module.buffers()] if broadcast_buffers else []
        self._sync, self._open, self._next = True, False, 0
        self._made: list[Parameter] = []
        self._rebuilt = False
        trained = [parameter for parameter in module.parameters() if parameter.requires_grad]
        self._filled = self._buckets(trained[::-1])
        for parameter in trained:
            parameter.register_post_accumulate_grad_hook(self._ready)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """The module's own result; buffers come from the first rank before it."""
        if self.training and torch.is_grad_enabled() and self._sync:
            self._send_buffers()
        if self._made and not self._rebuilt:
            self._filled, self._rebuilt = self._buckets(self._made), True
        return self.module(*args, **kwargs)

    def _send_buffers(self) -> None:
        """Send the first rank's buffers to all, those of one type in one message (DistributedDataParallel does so)."""
        for dtype in dict.fromkeys(buffer.dtype for buffer in self._buffers_to_send):
            own = [buffer for buffer in self._buffers_to_send if buffer.dtype == dtype]
            flat = torch.cat([buffer.reshape(-1) for buffer in own])
            dist.broadcast(flat, 0, group=self._group)
            for buffer, part in zip(own, flat.split([buffer.numel() for buffer in own]), strict=True):
                buffer.copy_(part.view(buffer.shape))

    @contextmanager
    def no_sync(self) -> Iterator[None]:
        """Leave gradients as they are inside the block."""
        before, self._sync = self._sync, False
        try:
            yield
        finally:
            self._sync = before

    def _buckets(self, parameters: Sequence[Parameter]) -> list[_Filled]:
        """Buckets of gradients in the order in which they become ready."""
        sizes = [(str(n), p.numel() * p.element_size() // GRADIENT_BYTES) for n, p in enumerate(parameters)]
        found: list[_Filled] = []
        first = 0
        for bucket in gradient_buckets(sizes, FIRST_BUCKET_BYTES, self._cap):
            last = int(bucket.ready_after) + 1
            own = list(parameters[first:last])
            buffer = own[0].new_empty(sum(parameter.numel() for parameter in own))
            found.append(_Filled(own, buffer, {id(parameter) for parameter in own}))
            first = last
        return found

    def _ready(self, parameter: Tensor) -> None:
        """Start the all_reduces of buckets that a gradient completes, in their order."""
        if not self._sync:
            return
        if not self._open:
            self._open = True
            torch.autograd.Variable._execution_engine.queue_callback(self._finish)  # noqa: SLF001 - as the reducer does
        if not self._rebuilt:
            self._made.append(parameter)  # type: ignore[arg-type]  # a parameter's hook
        bucket = next(bucket for bucket in self._filled if id(parameter) in bucket.missing)
        bucket.missing.discard(id(parameter))
        if parameter.grad is not None:
            self._scaled(bucket, parameter)
        while self._next < len(self._filled) and not self._filled[self._next].missing:
            open_bucket = self._filled[self._next]
            open_bucket.work = dist.all_reduce(open_bucket.buffer, group=self._group, async_op=True)
            self._next += 1

    def _scaled(self, bucket: _Filled, parameter: Tensor) -> None:
        """Put a gradient, divided by the ranks, into its place."""
        if parameter.grad is not None:
            place = self._place(bucket, parameter)
            torch.mul(parameter.grad, 1.0 / dist.get_world_size(self._group), out=place)

    def _place(self, bucket: _Filled, parameter: Tensor) -> Tensor:
        first = 0
        for own in bucket.parameters:
            if own is parameter:
                break
            first += own.numel()
        return bucket.buffer[first : first + parameter.numel()].view(parameter.shape)

    def _finish(self) -> None:
        """Wait for all sums, and copy them back where gradients are no views of buckets."""
        for bucket in self._filled:
            if bucket.work is not None:
                bucket.work.wait()
            for parameter in bucket.parameters:
                if bucket.work is not None and parameter.grad is not None:
                    self._taken(bucket, parameter)
            bucket.work = None
            bucket.missing = {id(parameter) for parameter in bucket.parameters}
        self._next, self._open = 0, False

    def _taken(self, bucket: _Filled, parameter: Parameter) -> None:
        place = self._place(bucket, parameter)
        if self._view:
            parameter.grad = place
        elif parameter.grad is not None:
            parameter.grad.copy_(place)
