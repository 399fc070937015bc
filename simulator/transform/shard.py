"""``shard``: ranks of a group divide the matrix products of a layer among them.

With ``join: all_gather`` a rank computes its part of the columns of each product, and an all_gather joins the results.
With ``all_reduce`` a rank computes its part of the summed dimension, and an all_reduce adds the partial results up.
With ``nothing`` the results stay divided. Tasks behind the products on their stream, and tasks that waited for the
products, wait for the exchange. Ranks of the group must have the same inputs, as in a tensor group: the batch stays the
same.

Law: operations of a product are divided by the size of the group, and the exchange moves the bytes of the results; the
order between tasks is kept.
"""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar, Literal, TypeAlias

import numpy as np
from pydantic import Field

from inputs.errors import InputError, nearest_name
from simulator.collective_calls import CollectiveCall, CollectiveOp
from simulator.operators import Amount, Gemm, HostWork
from simulator.precisions import BYTES_PER_ELEMENT
from simulator.program import IntArray, Stream, TaskGraph
from simulator.transform.editable import EditableProgram, EditableTask, editable, rebuilt
from simulator.transform.launches import Launches, with_launches
from simulator.transform.transformation import (
    TRANSFORMATIONS,
    Changed,
    Groups,
    Transformation,
    mean_over_ranks,
)
from simulator.work import KernelSeries, Work

Join: TypeAlias = Literal["all_gather", "all_reduce", "nothing"]
SHARD_COMM = "shard_comm"
"""Stream of the exchanges."""

WIRE = {"tf32": "fp32"}
"""Number format of results on the wire, if it differs from the format of the product."""

MEMORY = "memory counts whole weights: shard divides work, and the weights of a task are unknown"


class Shard(Transformation):
    """Ranks of a group divide the matrix products of a layer, and an exchange joins the results."""

    description: ClassVar[str] = "ranks of a group divide the matrix products of a layer among them"

    over: str = Field(min_length=1, description="group of ranks: world, node, domain (NVLink), or a communicator")
    join: Join = Field(
        "all_gather",
        description="all_gather: columns are divided, and gathered after the product; all_reduce: the summed "
        "dimension is divided, and partial results are added up; nothing: columns stay divided",
    )

    def apply(self, graph: TaskGraph, groups: Groups) -> Changed:
        """The graph with divided products; raises as `Transformation.apply`."""
        programs = editable(graph)
        meant = [[task for task in tasks if _products(task.work)] for tasks in self.matched(programs)]
        if not any(meant):
            raise self.refused("no task that matches has a matrix product", "names of matrix products")
        instance = self._instance(graph, groups)
        in_step = any(isinstance(work, CollectiveCall) and work.in_step for p in graph.programs for work in p.work)
        moved: list[Amount] = []
        for program, tasks in zip(programs, meant, strict=True):
            size = _sizes(instance, program.ranks)
            sharder = _Sharder(program, self.over, self.join, size, in_step=in_step)
            moved.append(sum((sharder.shard(task) for task in tasks), 0.0))
            sharder.finish()
        counts = {"tasks_divided": float(sum(map(len, meant))), "bytes_exchanged": mean_over_ranks(graph, moved)}
        done = rebuilt(graph, programs, [number for number, tasks in enumerate(meant) if tasks])
        if self.join != "nothing":
            done = replace(done, communicators={**done.communicators, self.over: instance})
        return Changed(done, counts, notes=(MEMORY,))

    def _instance(self, graph: TaskGraph, groups: Groups) -> IntArray:
        """Instance number of each rank ``[W]``."""
        known = {**groups, **graph.communicators}
        if self.over not in known:
            expected, near = f"one of {', '.join(sorted(known))}", nearest_name(self.over, known)
            raise InputError("no such group of ranks", key="over", given=self.over, expected=expected, nearest=near)
        instance = known[self.over]
        if int(np.unique(instance[instance >= 0], return_counts=True)[1].max(initial=1)) < 2:
            expected = "a group with two ranks or more"
            raise InputError(
                "each group has one rank, which has all columns", key="over", given=self.over, expected=expected
            )
        return instance


TRANSFORMATIONS.add("shard", Shard, Shard.description)


def _products(work: Work) -> list[tuple[int, Gemm]]:
    """Products of a task, each with the number of times that it runs."""
    if isinstance(work, KernelSeries):
        return [(count, kernel) for count, kernel in work.kernels if isinstance(kernel, Gemm)]
    return [(1, work)] if isinstance(work, Gemm) else []


def _sizes(instance: IntArray, ranks: IntArray) -> Amount:
    """Size of the group of each rank: a scalar if all are equal, else ``[P]``; 1 outside all groups."""
    _, place, counts = np.unique(instance, return_inverse=True, return_counts=True)
    sizes = np.where(instance >= 0, counts[place], 1)[ranks].astype(np.float64)
    return float(sizes[0]) if np.all(sizes == sizes[0]) else sizes


class _Sharder:
    """Divides products of a program."""

    def __init__(self, program: EditableProgram, over: str, join: Join, size: Amount, *, in_step: bool) -> None:
        self._program, self._over, self._join, self._size, self._in_step = program, over, join, size, in_step
        self._launches, self._dependents = Launches(program), program.dependents()
        self._streams = program.by_stream()
        self._place = {task: number for own in self._streams.values() for number, task in enumerate(own)}
        self._behind: dict[EditableTask, list[EditableTask]] = {}

    def shard(self, task: EditableTask) -> Amount:
        """Divide the products of a task; returns the bytes of its exchange, a scalar or ``[P]``."""
        products = _products(task.work)
        sizes = [(n, n * g.count * g.m * g.n * BYTES_PER_ELEMENT[g.precision]) for n, g in products]
        task.work = self._divided(task.work)
        if self._join == "nothing":
            return 0.0
        calls, whole = sum(n for n, _ in sizes), sum((size for _, size in sizes), 0.0)
        op: CollectiveOp = "all_gather" if self._join == "all_gather" else "all_reduce"
        precision = products[0][1].precision
        dtype = WIRE.get(precision, precision)
        call = CollectiveCall(op, self._over, whole / calls, dtype, repeats=calls, in_step=self._in_step)
        joined = EditableTask(f"{task.name}_{op}", self._stream(), call, task.section, [(task, 0)])
        self._wait(task, joined)
        self._behind[task] = [joined]
        host = self._launches.of(task)
        if host is not None and isinstance(host.work, HostWork) and self._launches.counts(host):
            host.work = with_launches(host.work, host.work.launches + calls)
        return whole

    def finish(self) -> None:
        """Put the exchanges into the program."""
        self._program.insert(behind=self._behind)

    def _divided(self, work: Work) -> Work:
        if isinstance(work, KernelSeries):
            kernels = ((n, self._part(k) if isinstance(k, Gemm) else k) for n, k in work.kernels)
            return replace(work, kernels=tuple(kernels))
        return self._part(work) if isinstance(work, Gemm) else work

    def _part(self, product: Gemm) -> Gemm:
        if self._join == "all_reduce":
            return replace(product, k=product.k / self._size)
        return replace(product, n=product.n / self._size)

    def _stream(self) -> str:
        if SHARD_COMM not in {stream.name for stream in self._program.streams}:
            self._program.streams.append(Stream(SHARD_COMM))
        return SHARD_COMM

    def _wait(self, task: EditableTask, joined: EditableTask) -> None:
        """Let the successors of a task, and the next task on its stream, wait for the exchange."""
        for other, lag in self._dependents[task]:
            other.after = [(joined if (before, own) == (task, lag) else before, own) for before, own in other.after]
        if self._program.is_in_order(task.stream):
            own = self._streams[task.stream]
            place = self._place[task] + 1
            own[place % len(own)].wait_for(joined, int(place == len(own)))
