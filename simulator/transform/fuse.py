"""``fuse``: consecutive element-wise kernels become one kernel, with one launch.

Two neighbours on a stream are fused if only the second task waits for the first, and if the second waits only for the
first, for its own launch, and for tasks that the first waits for. Their launches must follow each other on the host.
Inside a series, two neighbours are fused if the first passes a tensor to the second.

Law: operations and collectives stay the same, bytes decrease by the passed tensors, and the order of the remaining
tasks is kept. A fused kernel moves the bytes of its parts, without the second part's reads of the first part's result
and without the first part's writes that only the second part reads (`Elementwise.next_read_bytes`,
``next_only_bytes``).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import ClassVar

import numpy as np

from simulator.operators import Amount, Elementwise, HostWork
from simulator.program import TaskGraph
from simulator.transform.editable import EditableProgram, EditableTask, editable, rebuilt
from simulator.transform.launches import Launches, with_launches
from simulator.transform.transformation import (
    TRANSFORMATIONS,
    Changed,
    Groups,
    Transformation,
    mean_over_ranks,
)
from simulator.work import Kernel, KernelSeries


class Fuse(Transformation):
    """Consecutive element-wise kernels become one kernel, with one launch."""

    description: ClassVar[str] = "consecutive element-wise kernels become one kernel, with one launch"

    def apply(self, graph: TaskGraph, groups: Groups) -> Changed:  # noqa: ARG002 - an interface
        """The graph with fewer kernels; raises as `Transformation.apply`."""
        programs = editable(graph)
        meant = self.matched(programs)
        fusers = [_Fuser(program, set(tasks)) for program, tasks in zip(programs, meant, strict=True)]
        for fuser in fusers:
            fuser.fuse()
        changed = [number for number, fuser in enumerate(fusers) if fuser.kernels]
        if not changed:
            expected = "consecutive element-wise kernels whose results only the next kernel needs"
            raise self.refused("no two kernels can become one", expected)
        saved = mean_over_ranks(graph, [fuser.saved_bytes for fuser in fusers])
        counts = {
            "kernels_saved": float(sum(fuser.kernels for fuser in fusers)),
            "launches_saved": sum(fuser.launches for fuser in fusers),
            "bytes_saved": saved,
        }
        return Changed(rebuilt(graph, programs, changed), counts)


TRANSFORMATIONS.add("fuse", Fuse, Fuse.description)


@dataclass(slots=True)
class _Fuser:
    """Fuses kernels of a program.

    Attributes:
        kernels: number of saved kernels; ``launches``: number of saved launches; ``saved_bytes``: saved bytes of each
            rank.
    """

    program: EditableProgram
    meant: set[EditableTask]
    kernels: int = 0
    launches: float = 0.0
    saved_bytes: Amount = 0.0
    _launches: Launches = field(init=False)
    _dependents: dict[EditableTask, list[tuple[EditableTask, int]]] = field(init=False)
    _next: dict[EditableTask, EditableTask] = field(init=False)
    _merged: dict[EditableTask, EditableTask] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._launches, self._dependents = Launches(self.program), self.program.dependents()
        self._next = {one: two for tasks in self.program.by_stream().values() for one, two in pairwise(tasks)}

    def fuse(self) -> None:
        """Fuse kernels inside series, then tasks."""
        for task in self.meant:
            if isinstance(task.work, KernelSeries):
                self._fuse_series(task, task.work)
        for stream, tasks in self.program.by_stream().items():
            if self.program.is_in_order(stream):
                self._fuse_neighbours(tasks)
        self.program.merge(self._merged)

    def _fuse_neighbours(self, tasks: Sequence[EditableTask]) -> None:
        """Fuse tasks of a stream; if the host runs the kernels, launches are between them."""
        launching = {self._launches.of(task) for task in tasks}
        parts: list[EditableTask] = []
        for task in tasks:
            if task in launching:
                continue
            if parts and self._fits(parts, task):
                self._join(parts[0], task)
                parts.append(task)
            else:
                parts = [task]

    def _fits(self, parts: Sequence[EditableTask], task: EditableTask) -> bool:
        """Whether a task can be fused with the kernels before it."""
        first, inside = parts[0], {*parts, task}
        if not (first in self.meant and task in self.meant and _streams(first.work) and _streams(task.work)):
            return False
        one, other = self._launches.of(first), self._launches.of(task)
        waits = {*first.after, *((part, 0) for part in parts), (other, 0)}
        if any((user not in inside) or lag for part in parts for user, lag in self._dependents[part]):
            return False
        return all(wait in waits for wait in task.after) and (one is other or self._launches_fit(parts, task))

    def _launches_fit(self, parts: Sequence[EditableTask], task: EditableTask) -> bool:
        """Whether two launches start only these kernels and are consecutive, apart from kernels on the host."""
        one, other = self._launches.of(parts[0]), self._launches.of(task)
        if one is None or other is None or other.after:
            return False
        if set(self._launches.launched(one)) - set(parts) or list(self._launches.launched(other)) != [task]:
            return False
        following = self._next.get(one)
        while following is not None and (following in parts or following in self._merged):
            following = self._next.get(following)
        return following is other

    def _join(self, first: EditableTask, second: EditableTask) -> None:
        """Merge the second task into the first."""
        if not isinstance(first.work, Elementwise) or not isinstance(second.work, Elementwise):
            raise TypeError("only element-wise kernels are one")
        first.work, saved = joined(first.work, second.work)
        self._merged[second] = first
        self.kernels += 1
        self.saved_bytes = self.saved_bytes + saved
        host, gone = self._launches.of(first), self._launches.of(second)
        if host is gone:
            self._save_launches(host, 1)
        elif host is not None and gone is not None and isinstance(host.work, HostWork):
            self.launches += host.work.launches + kernel_launches(gone) - 1.0
            host.work = replace(host.work, launches=1.0)
            self._merged[gone] = host

    def _fuse_series(self, task: EditableTask, series: KernelSeries) -> None:
        """Fuse neighbours of a series that pass a tensor."""
        kernels, gone, saved = fused_series(series)
        if gone:
            self._save_launches(self._launches.of(task), gone)
            task.work = replace(series, kernels=kernels)
            self.kernels += gone
            self.saved_bytes = self.saved_bytes + saved

    def _save_launches(self, host: EditableTask | None, number: int) -> None:
        """Remove launches from a host task, unless one launch starts many kernels."""
        if host is not None and isinstance(host.work, HostWork) and self._launches.counts(host):
            self.launches += number
            host.work = with_launches(host.work, host.work.launches - number)


def kernel_launches(host: EditableTask) -> float:
    """Number of launches of a host task."""
    return host.work.launches if isinstance(host.work, HostWork) else 0.0


def _streams(work: object) -> bool:
    """Whether a kernel reads and writes memory in order, element by element."""
    return isinstance(work, Elementwise) and work.access == "stream"


def joined(first: Elementwise, second: Elementwise) -> tuple[Elementwise, Amount]:
    """One kernel with the work of two kernels, and the saved bytes."""
    read = np.minimum(first.next_read_bytes, second.read_bytes)
    written = np.minimum(first.next_only_bytes, first.write_bytes)
    work = replace(
        second,
        read_bytes=_plain(first.read_bytes + second.read_bytes - read),
        write_bytes=_plain(first.write_bytes + second.write_bytes - written),
    )
    return work, _plain(read + written)


def _plain(amount: Amount) -> Amount:
    return amount if np.ndim(amount) else float(amount)


def fused_series(series: KernelSeries) -> tuple[tuple[tuple[int, Kernel], ...], int, Amount]:
    """Kernels of a series after fusion, the number of saved kernels, and the saved bytes."""
    kept: list[tuple[int, Kernel]] = []
    gone, saved = 0, 0.0
    for count, kernel in series.kernels:
        before = kept[-1] if kept else None
        if before is not None and before[0] == count and _passes(before[1]) and _streams(kernel):
            one = before[1]
            if isinstance(one, Elementwise) and isinstance(kernel, Elementwise):
                work, bytes_saved = joined(one, kernel)
                kept[-1] = (count, work)
                gone, saved = gone + count, saved + count * float(np.mean(bytes_saved))
                continue
        kept.append((count, kernel))
    return tuple(kept), gone, saved


def _passes(kernel: Kernel) -> bool:
    """Whether a kernel passes a tensor to the next kernel."""
    return isinstance(kernel, Elementwise) and kernel.access == "stream" and bool(np.any(kernel.next_read_bytes))
