"""Work of a task: operators, series of kernels, collective calls; its category in breakdowns; the memory it touches."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from simulator.categories import Category
from simulator.collective_calls import CollectiveCall
from simulator.operators import (
    Amount,
    Attention,
    CacheFill,
    Convolution,
    Copy,
    Delay,
    DenseOptimizer,
    Elementwise,
    EmbeddingLookup,
    EmbeddingUpdate,
    Gemm,
    HostTraffic,
    HostWork,
    Ingest,
    Interaction,
    Marker,
    Measured,
    SsdRead,
)
from simulator.precisions import BYTES_PER_ELEMENT

Kernel: TypeAlias = Gemm | Attention | Convolution | Elementwise | DenseOptimizer


@dataclass(frozen=True, slots=True)
class KernelSeries:
    """Kernels that follow each other on a stream without anything between them, as one task.

    ``kernels``: each with the number of times that it runs, at least one; ``name``: the operator that the task counts
    as in breakdowns.
    """

    name: str
    kernels: tuple[tuple[int, Kernel], ...]

    @property
    def launches(self) -> int:
        """Number of kernels."""
        return sum(count for count, _ in self.kernels)


Operator: TypeAlias = (
    Gemm
    | Attention
    | KernelSeries
    | Convolution
    | EmbeddingLookup
    | EmbeddingUpdate
    | CacheFill
    | Interaction
    | Elementwise
    | DenseOptimizer
    | Copy
    | SsdRead
    | HostWork
    | Ingest
    | Marker
    | Measured
    | Delay
)

Work: TypeAlias = Operator | CollectiveCall

_CATEGORIES: dict[type, Category] = {
    Copy: Category.COPY, SsdRead: Category.COPY, HostWork: Category.HOST, Ingest: Category.INPUT,
    CollectiveCall: Category.COMM, Delay: Category.IDLE,
}  # fmt: skip


def host_traffic(work: Work) -> HostTraffic | None:
    """Traffic of a task between its GPU and the host; None where there is none."""
    if isinstance(work, EmbeddingLookup | EmbeddingUpdate | CacheFill):
        return work.host
    if isinstance(work, Copy) and work.direction != "d2d":
        return HostTraffic(work.bytes) if work.direction == "h2d" else HostTraffic(write_bytes=work.bytes)
    return HostTraffic(ssd_read_bytes=work.bytes) if isinstance(work, SsdRead) else None


def touched_bytes(work: Work) -> Amount:
    """Bytes that a kernel reads and writes in the memory of the processor that runs it: a scalar, or ``[P]``.

    0 of all that is no kernel, or runs only on GPUs.
    """
    if isinstance(work, Gemm | Convolution):
        return float(BYTES_PER_ELEMENT[work.precision]) * work.elements
    if isinstance(work, EmbeddingLookup):
        return work.row_bytes + work.output_bytes + work.index_bytes
    if isinstance(work, EmbeddingUpdate):
        return work.gradient_bytes + work.weight_bytes + work.state_bytes + work.sort_bytes
    if isinstance(work, Elementwise | Interaction):
        return work.read_bytes + work.write_bytes
    if isinstance(work, DenseOptimizer):
        return work.traffic_bytes
    return 2.0 * work.bytes if isinstance(work, Copy) and work.direction == "d2d" else 0.0


def operator_name(work: Work) -> str:
    """Name of a task's operator in breakdowns; a measured task has only its category."""
    if isinstance(work, CollectiveCall):
        return work.op
    if isinstance(work, KernelSeries):
        return work.name
    return str(work.category) if isinstance(work, Measured) else type(work).__name__


def category_of(work: Work) -> Category:
    """The category a task with this work is counted under in breakdowns."""
    if isinstance(work, Marker | Measured):
        return work.category
    return _CATEGORIES.get(type(work), Category.COMPUTE)
