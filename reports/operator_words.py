"""Description of a task: its colour on the timeline, and a line of text with its shapes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from inputs.quantities import format_quantity
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
    HostWork,
    Interaction,
    Measured,
    SsdRead,
)
from simulator.work import KernelSeries, Work

KIND_NAMES: Mapping[str, str] = {
    "gemm": "GEMM",
    "attention": "attention",
    "convolution": "convolution",
    "embedding": "embedding lookup, update, cache fill",
    "interaction": "interaction",
    "elementwise": "elementwise",
    "optimizer": "dense optimizer",
    "all_to_all": "all_to_all",
    "all_reduce": "all_reduce",
    "all_gather": "all_gather",
    "reduce_scatter": "reduce_scatter",
    "send": "send",
    "comm_other": "other collective",
    "copy": "copy",
    "host": "host",
    "idle": "delay",
}
"""Kinds in order of the legend, with their names; the colour of each is a variable of ``page.css``."""

_KINDS: dict[type, str] = {
    Gemm: "gemm",
    Attention: "attention",
    Convolution: "convolution",
    EmbeddingLookup: "embedding",
    EmbeddingUpdate: "embedding",
    CacheFill: "embedding",
    Interaction: "interaction",
    Elementwise: "elementwise",
    DenseOptimizer: "optimizer",
    Copy: "copy",
    SsdRead: "copy",
    HostWork: "host",
    Delay: "idle",
}
_MEASURED = {Category.COMM: "comm_other", Category.COPY: "copy"}
"""Colours of measured tasks, which say no more than their category."""


def kind_of(work: Work) -> str:
    """The key of `KIND_NAMES` a task with this work is coloured as."""
    if isinstance(work, CollectiveCall):
        op = "send" if work.op == "sendrecv" else work.op
        return op if op in KIND_NAMES else "comm_other"
    if isinstance(work, Measured):
        return _measured_kind(work)
    if isinstance(work, KernelSeries):
        return next(kind for known, kind in _KINDS.items() if known.__name__ == work.name)
    return _KINDS.get(type(work), "host")


def _measured_kind(work: Measured) -> str:
    """Kinds of kernels by words in their names."""
    name = work.name.lower()
    if work.category is Category.COMPUTE:
        return next((kind for kind, words in _KERNEL_WORDS.items() if any(w in name for w in words)), "elementwise")
    return _MEASURED.get(work.category, "host")


LONGEST_NAME = 120
"""Characters of a kernel's signature that a page holds, for each of its tasks."""
_KERNEL_WORDS = {"gemm": ("gemm", "cutlass", "cublas"), "embedding": ("embedding",), "optimizer": ("adam", "sgd")}
"""Words in the names of kernels, for their colour only."""


def describe(work: Work) -> str:
    """One line with the shapes or amounts; the mean over ranks where they differ."""
    writer = _WRITERS.get(type(work))
    return writer(work) if writer else ""


def _call(work: CollectiveCall) -> str:
    times = f"{work.repeats} times " if work.repeats > 1 else ""
    return f"{times}{_bytes(work.bytes)} per rank, {work.dtype}, on {work.communicator}"


def _gemm(work: Gemm) -> str:
    times = f"{work.count} times " if work.count > 1 else ""
    return f"{times}m n k = {_count(work.m)} {_count(work.n)} {_count(work.k)}, {work.precision}"


def _convolution(work: Convolution) -> str:
    inputs, outputs = ("x".join(map(str, shape)) for shape in (work.inputs, work.outputs))
    window = f"{work.kernel[0]}x{work.kernel[1]}" + (f" / {work.stride}" if work.stride > 1 else "")
    what = {"forward": "", "inputs": ", gradient of inputs", "weights": ", gradient of weights"}[work.direction]
    groups = f", {work.groups} groups" if work.groups > 1 else ""
    return f"{work.images} images, {inputs} to {outputs}, {window}{groups}, {work.precision}{what}"


def _attention(work: Attention) -> str:
    return f"{format_quantity(_mean(work.flops), 'flops')}, {_bytes(work.bytes)} moved, heads of {work.head_dim}"


def _series(work: KernelSeries) -> str:
    count, longest = work.kernels[0]
    more = f" and {work.launches - count} more kernels" if len(work.kernels) > 1 else ""
    return f"{count} x {describe(longest)}{more}"


def _embedding(work: EmbeddingLookup | EmbeddingUpdate) -> str:
    return f"{_count(work.lookups)} lookups in {_count(work.tables)} tables"


def _interaction(work: Interaction) -> str:
    return f"{format_quantity(_mean(work.flops), 'flops')}, {_moved(work)}"


def _moved(work: Interaction | Elementwise) -> str:
    return f"{_bytes(np.add(work.read_bytes, work.write_bytes))} moved"


def _optimizer(work: DenseOptimizer) -> str:
    return f"{_count(work.parameters)} parameters, {_bytes(work.traffic_bytes)} moved"


def _copy(work: Copy) -> str:
    return f"{_bytes(work.bytes)}, {work.direction}"


def _ssd_read(work: SsdRead) -> str:
    return f"{_bytes(work.bytes)}, from SSDs to host memory"


def _measured(work: Measured) -> str:
    return work.name[:LONGEST_NAME]


def _delay(work: Delay) -> str:
    return work.cause


def _host(work: HostWork) -> str:
    return f"{work.launches:g} kernel launches" if work.launches else ""


_WRITERS: Mapping[type, Callable[[Any], str]] = {
    CollectiveCall: _call,
    Gemm: _gemm,
    Attention: _attention,
    KernelSeries: _series,
    Convolution: _convolution,
    EmbeddingLookup: _embedding,
    EmbeddingUpdate: _embedding,
    Interaction: _interaction,
    Elementwise: _moved,
    DenseOptimizer: _optimizer,
    Copy: _copy,
    SsdRead: _ssd_read,
    HostWork: _host,
    Measured: _measured,
    Delay: _delay,
}


def _mean(amount: Amount) -> float:
    return float(np.mean(amount))


def _bytes(amount: Amount) -> str:
    return format_quantity(_mean(amount), "bytes")


def _count(amount: Amount) -> str:
    return format_quantity(_mean(amount), "count")
