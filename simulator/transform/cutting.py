"""Equal parts of the work of a task: each has the same share of its operations and bytes."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from simulator.operators import (
    Attention,
    CollectiveCall,
    Convolution,
    Copy,
    DenseOptimizer,
    Elementwise,
    Gemm,
    Interaction,
    Kernel,
    KernelSeries,
    Measured,
    Work,
    scaled,
)

_AMOUNTS: dict[type, tuple[str, ...]] = {
    Interaction: ("flops", "read_bytes", "write_bytes"),
    DenseOptimizer: ("parameters", "traffic_bytes"),
    Copy: ("bytes",),
    CollectiveCall: ("bytes",),
    Measured: ("seconds",),
}
"""Amounts of an operator that are divided."""


def part_of(work: Work, parts: int) -> Work | None:
    """One of equal parts; None where the work cannot be cut so.

    Rows of a product and images of a convolution are divided; amounts of other kernels, and bytes of collectives, too.
    """
    if isinstance(work, KernelSeries):
        kernels = [(count, _kernel_part(kernel, parts)) for count, kernel in work.kernels]
        cut = tuple((count, kernel) for count, kernel in kernels if kernel is not None)
        return replace(work, kernels=cut) if len(cut) == len(kernels) else None
    if isinstance(work, Gemm | Attention | Elementwise):
        return _kernel_part(work, parts)
    if isinstance(work, Convolution):
        return None if work.images % parts else replace(work, images=work.images // parts)
    names = next((names for kind, names in _AMOUNTS.items() if isinstance(work, kind)), ())
    return replace(work, **{name: getattr(work, name) / parts for name in names}) if names else None


def _kernel_part(kernel: Kernel, parts: int) -> Kernel | None:
    if isinstance(kernel, Gemm):
        return replace(kernel, m=kernel.m / parts) if np.all(np.asarray(kernel.m) >= parts) else None
    if isinstance(kernel, Attention):
        return replace(kernel, flops=kernel.flops / parts, bytes=kernel.bytes / parts)
    return replace(scaled(kernel, 1.0 / parts), pieces=kernel.pieces / parts)
