"""Gradients that all ranks sum: in buckets, each all_reduced as soon as backward has filled it.

As DDP does it, and with the buckets that the simulator counts (`workloads.graph.buckets.gradient_buckets`); not DDP
itself, whose first iteration has other buckets than the rest, hence another order of summation, so that a resumed run
would differ in its last bits from one that was not interrupted.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor
from torch.nn import Parameter
from torch.profiler import record_function

from trainer.dense import LinearLayer
from trainer.devices import DTYPES
from trainer.exchange import Started, all_reduce
from trainer.job import TrainingJob
from trainer.waits import wait
from workloads.dlrm.iteration.job import COPIED_TABLES
from workloads.graph.buckets import Bucket, gradient_buckets


@dataclass(slots=True)
class _Entry:
    """A gradient in the buffer; ``missing``: parts that backward has not made yet."""

    parts: int
    missing: int


@dataclass(slots=True)
class _Open:
    """A bucket of an iteration: its part of the buffer, and the sent tensor."""

    bucket: Bucket
    gradient: Tensor
    wire: Tensor
    work: Started | None = field(default=None)


class BucketedGradients:
    """One buffer for the gradients of layers and copied tables, cut into buckets.

    Attributes:
        dense: the part of layers.
        copied: the part of copied tables.
    """

    def __init__(
        self, job: TrainingJob, layers: Sequence[LinearLayer], copied: Sequence[int], device: torch.device
    ) -> None:
        """Make the buffers and hook the layers.

        Args:
            job: sizes of buckets, precision on the wire.
            layers: layers in the order in which backward makes their gradients.
            copied: parameters of each copied table.
        """
        sizes = [(layer.layer.name, layer.layer.parameters) for layer in layers]
        sizes += [(COPIED_TABLES, size) for size in copied]
        framework, wire = job.settings.framework, DTYPES[job.settings.precision.all_reduce]
        self._scale = 1.0 / job.world_size
        self._gradient = torch.zeros(sum(size for _, size in sizes), dtype=torch.float32, device=device)
        made = gradient_buckets(sizes, framework.first_bucket_bytes.value, framework.bucket_bytes.value)
        parts = self._gradient.split([bucket.parameters for bucket in made])
        self._open = [
            _Open(bucket, part, part if wire == part.dtype else torch.empty_like(part, dtype=wire))
            for bucket, part in zip(made, parts, strict=True)
        ]
        self._next = 0
        self._ready: set[str] = set()
        first = 0
        for layer in layers:
            self._hook(layer, first)
            first += layer.layer.parameters
        self.dense, self.copied = self._gradient[:first], self._gradient[first:]

    def ready(self, name: str) -> None:
        """Start the all_reduces of buckets that the gradients of ``name`` complete, in the order of buckets."""
        self._ready.add(name)
        while self._next < len(self._open) and self._open[self._next].bucket.ready_after in self._ready:
            part = self._open[self._next]
            if part.wire is not part.gradient:
                part.wire.copy_(part.gradient)
            with record_function(f"gradient_all_reduce_{self._next}"):
                part.work = all_reduce(part.wire)
            self._next += 1

    def wait(self) -> None:
        """Wait until all gradients are summed, and reset for the next iteration."""
        for part in self._open:
            if part.work is not None:
                wait(part.work)
            if part.wire is not part.gradient:
                part.gradient.copy_(part.wire)
            part.work = None
        self._next = 0
        self._ready.clear()

    def _hook(self, layer: LinearLayer, first: int) -> None:
        """Let backward put the gradients of a layer into the buffer, divided by the ranks in the same pass."""
        entry = _Entry(len(layer.parameters), len(layer.parameters))
        for parameter in layer.parameters:
            place = self._gradient[first : first + parameter.numel()].view(parameter.shape)
            taker = _Taker(self, layer.layer.name, entry, place, self._scale)
            parameter.register_post_accumulate_grad_hook(taker)
            first += parameter.numel()


@dataclass(frozen=True, slots=True)
class _Taker:
    """Takes one gradient over as soon as backward has made it."""

    buckets: BucketedGradients
    name: str
    entry: _Entry
    place: Tensor
    scale: float

    def __call__(self, parameter: Parameter | Tensor) -> None:
        """Copy the gradient into its place; report when the layer is complete."""
        gradient, parameter.grad = parameter.grad, None
        if gradient is None:
            raise RuntimeError(f"{self.name} has no gradient")
        torch.mul(gradient, self.scale, out=self.place)
        self.entry.missing -= 1
        if not self.entry.missing:
            self.entry.missing = self.entry.parts
            self.buckets.ready(self.name)
