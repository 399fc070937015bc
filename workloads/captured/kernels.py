"""Operators of recorded works, as the models of kernels know them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from simulator.categories import Category
from simulator.operators import Attention, Convolution, Copy, DenseOptimizer, Elementwise, Gemm, Interaction, Marker
from simulator.precisions import BYTES_PER_ELEMENT, Precision
from simulator.work import Operator
from workloads.captured.lookups import lookup_kernel, update_kernel
from workloads.captured.records import (
    AttentionWork,
    Collective,
    ConvolutionWork,
    CopyWork,
    DType,
    HostWait,
    Lookup,
    Moved,
    OptimizerWork,
    Product,
    RecordedWork,
    Update,
)
from workloads.captured.settings import CapturedSettings

_COMPUTED_IN: dict[DType, Precision] = {"fp64": "fp64", "fp32": "fp32", "bf16": "bf16", "fp16": "fp16", "fp8": "fp8"}
"""Arithmetic of products by the type of their elements; integers, whose products no library tunes, count as fp32."""


def precision_of(dtype: DType, *, tf32: bool) -> Precision:
    """Arithmetic of products of tensors.

    Args:
        tf32: whether products of fp32 tensors compute in tf32.
    """
    found = _COMPUTED_IN.get(dtype, "fp32")
    return "tf32" if tf32 and dtype == "fp32" else found


def operators_of(settings: CapturedSettings) -> tuple[Operator | None, ...]:
    """Operator of each work of a job; None for collectives and waits of the host."""
    return tuple(_operator(work, settings) for work in settings.job.works)


def _operator(work: RecordedWork, settings: CapturedSettings) -> Operator | None:
    if isinstance(work, Collective | HostWait):
        return None
    return _MADE[type(work)](work, settings)


SMALL = 64 * 64
"""Elements of the smallest common tile of a library: batches of smaller products are bound by memory."""


def _product(work: Product, settings: CapturedSettings) -> Gemm | Interaction:
    """A product; batches of small matrices as the dot interaction of a DLRM, which is one of them."""
    precision = precision_of(work.dtype, tf32=settings.tf32)
    if work.count > 1 and work.m * work.n <= SMALL:
        size = float(work.count * BYTES_PER_ELEMENT[precision])
        read = work.m * work.k + (0 if work.own_factor else work.k * work.n)
        flops = 2.0 * work.m * work.n * work.k * work.count
        return Interaction(flops, size * read, size * work.m * work.n, precision)
    return Gemm(work.m, work.n, work.k, precision, work.count, work.transposed)


def _attention(work: AttentionWork, settings: CapturedSettings) -> Attention:
    precision = precision_of(work.dtype, tf32=settings.tf32)
    return Attention(work.flops, work.bytes, work.head_dim, work.sequence, precision, work.causal, work.backward)


def _convolution(work: ConvolutionWork, settings: CapturedSettings) -> Convolution:
    precision = precision_of(work.dtype, tf32=settings.tf32)
    return Convolution(
        images=work.images,
        inputs=work.inputs,
        outputs=work.outputs,
        kernel=work.kernel,
        stride=work.stride,
        groups=work.groups,
        precision=precision,
        direction=work.direction,
    )


def _moved(work: Moved, settings: CapturedSettings) -> Elementwise:  # noqa: ARG001 - one signature for all works
    return Elementwise(
        work.read_bytes,
        work.write_bytes,
        next_read_bytes=work.next_read_bytes,
        next_only_bytes=work.next_only_bytes,
    )


def _optimizer(work: OptimizerWork, settings: CapturedSettings) -> DenseOptimizer:  # noqa: ARG001 - as above
    return DenseOptimizer(float(work.parameters), work.bytes)


def _copy(work: CopyWork, settings: CapturedSettings) -> Copy | Marker:
    """A copy; none to a device where there is no device."""
    if settings.host is not None and work.direction != "d2d":
        return Marker(Category.COPY)
    return Copy(work.bytes, work.direction)


_MADE: dict[type, Callable[[Any, CapturedSettings], Operator]] = {
    Product: _product,
    AttentionWork: _attention,
    ConvolutionWork: _convolution,
    Moved: _moved,
    Lookup: lookup_kernel,
    Update: update_kernel,
    OptimizerWork: _optimizer,
    CopyWork: _copy,
}
