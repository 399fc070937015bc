"""Stand-in for ``torch.nn.parallel.DistributedDataParallel``, whose C++ part needs tensors with memory.

Gradients go into buckets as PyTorch's reducer puts them there: in the reverse order of parameters in the first
iteration, then in the order in which the backward pass made them (pytorch c10d/reducer.cpp, rebuildBuckets).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch.nn import Module, Parameter

from inputs.errors import InputError, nearest_name
from workloads.graph.buckets import GRADIENT_BYTES, gradient_buckets

FIRST_BUCKET_BYTES = 1 << 20
"""Size at which the first bucket is closed (pytorch c10d/reducer.hpp, kDefaultFirstBucketBytes)."""
BUCKET_MIB = 25.0
"""Size at which others are (DistributedDataParallel's bucket_cap_mb)."""

HOOKS: dict[str, torch.dtype | None] = {
    "allreduce_hook": None,
    "fp16_compress_hook": torch.float16,
    "bf16_compress_hook": torch.bfloat16,
}
"""Type in which each hook of PyTorch sums gradients; None: their own."""


def _refuse_sparse(module: Module) -> None:
    """Refuse tables with sparse gradients.

    Raises:
        InputError: there is one.
    """
    for name, part in module.named_modules():
        if isinstance(part, torch.nn.Embedding | torch.nn.EmbeddingBag) and part.sparse and part.weight.requires_grad:
            raise InputError(
                "DistributedDataParallel cannot sum sparse gradients with NCCL",
                given=name or type(part).__name__,
                expected="sparse=False, or the table outside of the wrapped module",
            )


@dataclass(slots=True)
class _Filled:
    """A bucket: its parameters, its buffer, and the parameters whose gradient is missing."""

    parameters: list[Parameter]
    buffer: Tensor
    missing: set[int] = field(default_factory=set)
    work: Any = None
    sent: Tensor | None = None


class CapturedDataParallel(Module):
    """A module whose gradients all ranks of a group average."""

    def __init__(
        self,
        module: Module,
        device_ids: Any = None,
        output_device: Any = None,  # noqa: ARG002 - arguments of the original
        dim: int = 0,  # noqa: ARG002
        broadcast_buffers: bool | None = None,
        init_sync: bool = True,  # noqa: ARG002
        process_group: Any = None,
        bucket_cap_mb: float | None = None,
        find_unused_parameters: bool = False,
        check_reduction: bool = False,  # noqa: ARG002
        gradient_as_bucket_view: bool = False,
        static_graph: bool = False,
        **_: Any,
    ) -> None:
        """Wrap a module; the first iteration has buckets in the reverse order of its parameters.

        Raises:
            InputError: a table has sparse gradients, which NCCL does not sum.
        """
        super().__init__()
        _refuse_sparse(module)
        self.module = module
        self.device_ids = device_ids
        self._group = process_group
        self._cap = (BUCKET_MIB if bucket_cap_mb is None else bucket_cap_mb) * 2**20
        self._view, self._unused = gradient_as_bucket_view, find_unused_parameters or static_graph
        ignored = set(getattr(module, "_ddp_params_and_buffers_to_ignore", ()))
        self._buffers_to_send = [b for name, b in module.named_buffers() if name not in ignored]
        if broadcast_buffers is False:
            self._buffers_to_send = []
        self._sync, self._open, self._next = True, False, 0
        self._reduces = True
        self._made: list[Parameter] = []
        self._rebuilt = False
        self._wire: torch.dtype | None = None
        self._hooked, self._unfinished = False, list[int]()
        named = [(name, p) for name, p in module.named_parameters() if p.requires_grad and name not in ignored]
        self._names = {id(parameter): name for name, parameter in named}
        self._filled = self._buckets([parameter for _, parameter in named[::-1]])
        for _name, parameter in named:
            parameter.register_post_accumulate_grad_hook(self._ready)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """The module's own result; buffers come from the first rank before it.

        Raises:
            InputError: a parameter got no gradient in the iteration before.
        """
        self._refuse_unfinished()
        if torch.is_grad_enabled():  # the reducer reads the state before the backward pass
            self._reduces = self._sync
        if self.training and torch.is_grad_enabled() and self._sync:
            self._send_buffers()
        if self._made and not self._rebuilt and not self._unused:  # reducer.hpp, should_rebuild_buckets
            self._filled, self._rebuilt = self._buckets(self._made), True
        return self.module(*args, **kwargs)

    def register_comm_hook(self, state: Any, hook: Any) -> None:
        """Sum gradients in another type; ``state`` is the process group.

        Raises:
            InputError: a hook that is none of PyTorch's simple ones.
        """
        name = getattr(hook, "__name__", str(hook))
        if name not in HOOKS:
            raise InputError(
                "a capture does not know this hook of gradients",
                given=name,
                expected=f"one of {', '.join(HOOKS)}",
                nearest=nearest_name(name, HOOKS),
            )
        self._wire, self._hooked, self._group = HOOKS[name], True, state or self._group

    def join(self, *_: Any, **__: Any) -> AbstractContextManager[None]:
        """A block in which all ranks have as many batches."""
        return nullcontext()

    @contextmanager
    def no_sync(self) -> Iterator[None]:
        """Leave gradients as they are inside the block."""
        before, self._sync = self._sync, False
        try:
            yield
        finally:
            self._sync = before

    def _buckets(self, parameters: Sequence[Parameter]) -> list[_Filled]:
        """Buckets of gradients of one type each, in the order in which their first ones become ready."""
        place = {id(parameter): number for number, parameter in enumerate(parameters)}
        found: list[_Filled] = []
        for dtype in dict.fromkeys(parameter.dtype for parameter in parameters):
            alike = [parameter for parameter in parameters if parameter.dtype == dtype]
            sizes = [(str(n), p.numel() * p.element_size() // GRADIENT_BYTES) for n, p in enumerate(alike)]
            first = 0
            for bucket in gradient_buckets(sizes, FIRST_BUCKET_BYTES, self._cap):
                last = int(bucket.ready_after) + 1
                own = alike[first:last]
                buffer = own[0].new_empty(sum(parameter.numel() for parameter in own))
                found.append(_Filled(own, buffer, {id(parameter) for parameter in own}))
                first = last
        return sorted(found, key=lambda bucket: place[id(bucket.parameters[0])])

    def _ready(self, parameter: Tensor) -> None:
        """Start the all_reduces of buckets that a gradient completes, in their order."""
        if not self._reduces:
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
            self._start(open_bucket)
            self._next += 1

    def _start(self, bucket: _Filled) -> None:
        """Start the sum of a bucket; a hook divides it by the ranks, in its own type."""
        bucket.sent = bucket.buffer
        if self._hooked:
            sent = bucket.buffer if self._wire is None else bucket.buffer.to(self._wire)
            bucket.sent = sent.div_(dist.get_world_size(self._group))
        bucket.work = dist.all_reduce(bucket.sent, group=self._group, async_op=True)

    def _scaled(self, bucket: _Filled, parameter: Tensor) -> None:
        """Put a gradient, divided by the ranks unless a hook does it, into its place."""
        place = self._place(bucket, parameter)
        if parameter.grad is None:
            return
        if self._hooked:
            place.copy_(parameter.grad)
        else:
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
        if self._unused:
            dist.all_reduce(torch.zeros(len(self._names), dtype=torch.int32), group=self._group)  # which ones are used
            for bucket in self._filled[self._next :]:
                self._start(bucket)
        self._unfinished = [p for bucket in self._filled[self._next :] for p in bucket.missing if not self._unused]
        for bucket in self._filled:
            if bucket.work is not None:
                bucket.work.wait()
                if bucket.sent is not bucket.buffer and bucket.sent is not None:
                    bucket.buffer.copy_(bucket.sent)
            for parameter in bucket.parameters:
                if bucket.work is not None and parameter.grad is not None:
                    self._taken(bucket, parameter)
            bucket.work = bucket.sent = None
            bucket.missing = {id(parameter) for parameter in bucket.parameters}
        self._next, self._open = 0, False

    def _send_buffers(self) -> None:
        """Broadcast buffers, all buffers of a type in one tensor (pytorch c10d/comm.cpp, broadcast_coalesced)."""
        for dtype in dict.fromkeys(buffer.dtype for buffer in self._buffers_to_send):
            buffers = [buffer for buffer in self._buffers_to_send if buffer.dtype == dtype]
            flat = torch.cat([buffer.reshape(-1) for buffer in buffers])
            dist.broadcast(flat, 0, group=self._group)
            for buffer, part in zip(buffers, flat.split([b.numel() for b in buffers]), strict=True):
                buffer.copy_(part.view(buffer.shape))

    def _refuse_unfinished(self) -> None:
        """Refuse parameters without gradients, as PyTorch does in the next iteration."""
        if self._unfinished:
            names = ", ".join(sorted(self._names[number] for number in self._unfinished)[:3])
            raise InputError(
                "DistributedDataParallel waits for gradients of parameters that the step does not use",
                given=names,
                expected="find_unused_parameters=True, or only parameters that the loss depends on",
            )

    def _taken(self, bucket: _Filled, parameter: Parameter) -> None:
        place = self._place(bucket, parameter)
        if self._view:
            parameter.grad = place
        elif parameter.grad is not None:
            parameter.grad.copy_(place)
