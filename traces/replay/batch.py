"""Another batch on each rank."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from hardware_specs.processors import Gpu
from inputs.errors import InputError
from simulator.categories import Category
from simulator.compute import gemm_rates, gemm_s
from simulator.lowered import PS_PER_S
from simulator.operators import Copy, Gemm, Measured
from simulator.program import IntArray
from simulator.work import Work, category_of
from traces.kernel_classes import KernelClass, class_of
from traces.replay.job import UNKNOWN, ReplayJob, with_work
from traces.replay.tables import local_batch
from traces.replay.transfers import with_sizes

_OF_PARAMETERS = re.compile(r"multi_tensor|adam|adagrad|sgd|lamb|optimizer|foreach", re.IGNORECASE)
"""Kernels that update dense parameters, as many whatever the batch; embedding kernels are known before."""


@dataclass(slots=True)
class _Shares:
    """Device time by how it was brought to the new batch, in ps."""

    by_shape: int = 0
    in_proportion: int = 0
    kept: int = 0

    def note(self, old: int, new: int) -> str:
        """The assumptions, one line."""
        whole = max(self.by_shape + self.in_proportion + self.kept, 1)
        parts = (self.by_shape, self.in_proportion, self.kept)
        shape, rest, kept = (f"{100 * part / whole:.0f} %" for part in parts)
        return (
            f"a batch of {new:,} instead of {old:,} on each rank: of the kernels' time {shape} by shape, {rest} taken "
            f"to follow the batch, {kept} (optimizers of dense parameters) not"
        )


def with_local_batch(job: ReplayJob, batch: int, gpu: Gpu) -> ReplayJob:
    """The job with another batch on each rank.

    GEMMs of known shape scale with the model of their shape, the extent that is the batch changed. Optimizers of dense
    parameters stay. All other kernels and copies change in proportion, above the GPU's smallest kernel, and so do
    all_to_alls. Host times and collectives of parameters stay.

    Args:
        job: the job; its kernels' times are those of ``gpu``.
        batch: samples of each rank.
        gpu: the GPU the kernels run on.

    Raises:
        InputError: the trace does not say its batch, or the new one is none.
    """
    old = local_batch(job.source)
    if batch < 1:
        raise InputError("is no batch", file="--local-batch", given=batch, expected="at least 1")
    change, shares = _Change(old, batch, gpu), _Shares()
    durations = tuple(own.copy() for own in job.durations_ps)
    changed: list[list[Work]] = []
    for program, own in zip(job.graph.programs, durations, strict=True):
        for task, work in enumerate(program.work):
            if category_of(work) in (Category.COMPUTE, Category.COPY) and np.all(own[task] != UNKNOWN):
                own[task] = _scaled(work, own[task], change, shares)
        changed.append([replace(w, bytes=w.bytes * change.factor) if isinstance(w, Copy) else w for w in program.work])
    graph = with_work(job.graph, changed)
    resized = with_sizes(
        replace(job, graph=graph, durations_ps=durations),
        lambda call: change.factor if call.op == "all_to_all" else 1.0,
    )
    return resized.with_note(shares.note(old, batch))


@dataclass(frozen=True, slots=True)
class _Change:
    """A change of the batch on a GPU."""

    old: int
    new: int
    gpu: Gpu

    @property
    def factor(self) -> float:
        """New batch over old one."""
        return self.new / self.old


def _scaled(work: Work, before: IntArray, change: _Change, shares: _Shares) -> IntArray:
    """The durations of one task with the new batch."""
    spent = int(before.sum())
    if isinstance(work, Measured) and work.shape is not None and change.old in _extents(work.shape):
        shares.by_shape += spent
        rates = gemm_rates(change.gpu, work.shape.precision)
        ratio = float(np.max(gemm_s(_with_batch(work.shape, change), rates) / gemm_s(work.shape, rates)))
        return _whole(before * ratio)
    if isinstance(work, Measured) and _keeps(work):
        shares.kept += spent
        return before
    shares.in_proportion += spent
    above = np.maximum(before - change.gpu.achieved.kernel_floor_s.value * PS_PER_S, 0.0)
    return _whole(before - above + above * change.factor)


def _whole(ps: NDArray[np.floating]) -> IntArray:
    rounded: IntArray = np.rint(ps).astype(np.int64)
    return rounded


def _keeps(work: Measured) -> bool:
    return class_of(work.name) is KernelClass.STREAMING and bool(_OF_PARAMETERS.search(work.name))


def _extents(shape: Gemm) -> tuple[float, ...]:
    return tuple(float(np.max(extent)) for extent in (shape.count, shape.m, shape.k, shape.n))


def _with_batch(shape: Gemm, change: _Change) -> Gemm:
    """The shape with the first extent that is the batch changed: of the count, the rows, the sum, the columns."""
    names = ("count", "m", "k", "n")
    name = names[_extents(shape).index(float(change.old))]
    return replace(shape, **{name: change.new})  # type: ignore[arg-type]
