"""Equal parts of the work of a task: each part has the same share of the operations and bytes."""

from __future__ import annotations

from dataclasses import replace
from typing import TypeVar

import numpy as np

from simulator.collective_calls import CollectiveCall
from simulator.operators import (
    Attention,
    Convolution,
    Copy,
    DenseOptimizer,
    Elementwise,
    Gemm,
    Interaction,
    Measured,
    SsdRead,
    scaled,
)
from simulator.work import Kernel, KernelSeries, Work

_AMOUNTS: dict[type, tuple[str, ...]] = {
    Attention: ("flops", "bytes"),
    Interaction: ("flops", "read_bytes", "write_bytes"),
    DenseOptimizer: ("parameters", "traffic_bytes"),
    Copy: ("bytes",),
    SsdRead: ("bytes",),
    CollectiveCall: ("bytes",),
    Measured: ("seconds",),
}
"""Fields of an operator that are divided."""


def part_of(work: Work, parts: int) -> Work | None:
    """One of several equal parts; None if the work cannot be cut into that number.

    Rows of a product, images of a convolution, amounts of other kernels, and bytes of collectives are divided.
    """
    if isinstance(work, KernelSeries):
        cut = [(count, kernel_part(kernel, parts)) for count, kernel in work.kernels]
        whole = tuple((count, kernel) for count, kernel in cut if kernel is not None)
        return replace(work, kernels=whole) if len(whole) == len(cut) else None
    if isinstance(work, Kernel):
        return kernel_part(work, parts)
    return _amounts_divided(work, parts)


def kernel_part(kernel: Kernel, parts: int) -> Kernel | None:
    """One of several equal parts of a kernel, see `part_of`."""
    if isinstance(kernel, Gemm):
        return replace(kernel, m=kernel.m / parts) if np.all(np.asarray(kernel.m) >= parts) else None
    if isinstance(kernel, Convolution):
        return None if kernel.images % parts else replace(kernel, images=kernel.images // parts)
    if isinstance(kernel, Elementwise):
        return replace(scaled(kernel, 1.0 / parts), pieces=kernel.pieces / parts)
    return _amounts_divided(kernel, parts)


Cut = TypeVar("Cut", bound=Work)


def _amounts_divided(work: Cut, parts: int) -> Cut | None:
    names = next((names for kind, names in _AMOUNTS.items() if isinstance(work, kind)), ())
    return replace(work, **{name: getattr(work, name) / parts for name in names}) if names else None
