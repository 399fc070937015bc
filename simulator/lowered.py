"""Lowered programs: what the engine executes. Integers of picoseconds, activities on numbered resources.

`simulator.lowering` makes them from a `TaskGraph` and the models; tests and benchmarks make them directly. An
*activity* is one or more phases in sequence, each a latency and then work that uses resources; a collective instance
is an activity with many members, a copy over a shared link one with one member.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Protocol

import numpy as np

from simulator.operators import FloatArray
from simulator.program import IntArray, Program, Tasks
from simulator.rank_classes import RankClasses

PS_PER_S = 1e12


def picoseconds(seconds: float) -> int:
    """Seconds as integer picoseconds, half up."""
    return int(np.floor(seconds * PS_PER_S + 0.5))


def picoseconds_of(seconds: FloatArray) -> IntArray:
    """Seconds as int64 picoseconds, half up; same shape."""
    return np.floor(seconds * PS_PER_S + 0.5).astype(np.int64)


@dataclass(frozen=True, slots=True)
class Phase:
    """A latency, then work.

    Attributes:
        latency_ps: time before the work starts; uses no resource.
        work_ps: duration of the work when the activity is alone; 0 for no work.
        resources: resource numbers the work uses ``[U]``, distinct.
        usage: share of each resource's capacity used when alone ``[U]``, in (0, 1].
    """

    latency_ps: int
    work_ps: int
    resources: IntArray
    usage: FloatArray


@dataclass(frozen=True, slots=True)
class Activity:
    """The phases of one activity.

    ``label`` names it in errors and reports. ``release_phase`` (optional, ``[members]`` in rank order) is the phase
    after which each member goes on; without it all members go on after the last phase.
    """

    label: str
    phases: tuple[Phase, ...]
    release_phase: IntArray | None = None


class Durations(Protocol):
    """Durations of the private tasks of a group."""

    def at(self, iteration: int) -> IntArray:
        """Durations in ps of iteration ``iteration`` ``[T, P]``, or ``[T, 1]`` when all ranks agree."""
        ...


@dataclass(frozen=True, slots=True)
class ConstantDurations:
    """The same durations in every iteration.

    Attributes:
        values: durations of classes of ranks ``[T, C]``, or ``[T, 1]`` when all ranks agree.
        classes: ranks that agree in all durations; None: each column is one rank's, or all ranks'.
    """

    values: IntArray
    classes: RankClasses | None = None

    def at(self, iteration: int) -> IntArray:  # noqa: ARG002 - the protocol's argument
        """Durations in ps, equal in all iterations."""
        if self.classes is None or self.values.shape[1] == 1:
            return self.values
        return self.classes.on_ranks(self.values)


def longest_ps(durations: Durations) -> IntArray:
    """Duration of each task in iteration 0 on the rank where it is longest ``[T]``."""
    values = durations.values if isinstance(durations, ConstantDurations) else durations.at(0)
    return np.asarray(values.max(axis=1, initial=0))


@dataclass(frozen=True, slots=True)
class DrawnDurations:
    """Durations given for each iteration, ``[K, T, P]``."""

    values: IntArray

    def at(self, iteration: int) -> IntArray:
        """Durations in ps of iteration ``iteration`` ``[T, P]``."""
        drawn: IntArray = self.values[iteration]
        return drawn


@dataclass(frozen=True, slots=True)
class LoweredGroup(Tasks):
    """The program of one group of ranks, lowered.

    Attributes:
        durations: durations of private tasks.
        activity_tasks: task numbers that are activities ``[A]``, ascending.
        instances: number of the activity (index into `LoweredProgram.activities`) of each activity task and rank
            ``[A, P]``; -1 where the rank takes no part: the task then takes no time.
    """

    durations: Durations
    activity_tasks: IntArray
    instances: IntArray

    @staticmethod
    def of(program: Program, durations: Durations, activity_tasks: IntArray, instances: IntArray) -> LoweredGroup:
        """The group of a program, with its times and activities."""
        tasks = {each.name: getattr(program, each.name) for each in fields(Tasks)}
        return LoweredGroup(**tasks, durations=durations, activity_tasks=activity_tasks, instances=instances)

    @staticmethod
    def with_rows(program: Program, durations: Durations, rows: Mapping[int, IntArray]) -> LoweredGroup:
        """The group of a program whose activities are given by task, a number per rank each ``[P]``."""
        tasks = np.array(sorted(rows), dtype=np.int64)
        instances = np.array([rows[task] for task in tasks.tolist()], dtype=np.int64).reshape(
            len(tasks), program.rank_count
        )
        return LoweredGroup.of(program, durations, tasks, instances)


@dataclass(frozen=True, slots=True, eq=False)
class Background:
    """Traffic of others, which takes a share of some resources and does not give way.

    Attributes:
        resources: resource numbers; no two backgrounds have one in common.
        share: fraction of their capacity, in (0, 1).
        on_ps: length of a burst.
        off_ps: pause between two bursts; 0 for traffic all the time.
        phase_ps: a time at which a burst begins; there are bursts before and after it.
    """

    resources: IntArray
    share: float
    on_ps: int = 0
    off_ps: int = 0
    phase_ps: int = 0

    def is_on(self, now: int) -> bool:
        """Whether there is traffic at ``now`` ps; at the end of a burst there is none."""
        return self.off_ps == 0 or self._into_period(now) < self.on_ps

    def next_change(self, now: int) -> int:
        """The next beginning or end of a burst after ``now`` ps."""
        into = self._into_period(now)
        return now + (self.on_ps if into < self.on_ps else self.on_ps + self.off_ps) - into

    def _into_period(self, now: int) -> int:
        return (now - self.phase_ps) % (self.on_ps + self.off_ps)


@dataclass(frozen=True, slots=True, eq=False)
class FusedCalls:
    """Calls of a communicator that a coordinator fuses at run time (`simulator.engine.fusing`).

    Attributes:
        call_of: number of the call that each task makes ``[T]``, by group; -1: none.
        bytes: size of each call's buffer ``[C]``.
        sizes: sizes of the activities that fused calls run as ``[S]``, ascending; the last is the largest.
        activities: their numbers ``[S]``.
        fusion_bytes: most bytes that are fused.
        cycle_ps: least time from one look at what is ready to the next.
        negotiation_ps: time of an agreement on what is ready everywhere.
        announcement_ps: time before each buffer in which ranks hear of it.
        copy_ps_per_byte: time to copy into the buffer and back, where several calls are fused.
    """

    call_of: tuple[IntArray, ...]
    bytes: IntArray
    sizes: IntArray
    activities: IntArray
    fusion_bytes: int
    cycle_ps: int
    negotiation_ps: int
    copy_ps_per_byte: float
    announcement_ps: int = 0


@dataclass(frozen=True, slots=True)
class LoweredProgram:
    """Everything the engine needs.

    Attributes:
        activities: the activities of one iteration; instance numbers index this list.
        resource_count: L; resources are numbered 0..L-1.
        resource_names: a name per resource for reports (may be empty).
        background: traffic of other jobs on the resources.
        fused: calls that coordinators fuse, by the name of the controller that a stream gives.
    """

    groups: tuple[LoweredGroup, ...]
    activities: Sequence[Activity]
    resource_count: int
    resource_names: Sequence[str] = field(default=())
    background: tuple[Background, ...] = ()
    fused: Mapping[str, FusedCalls] = field(default_factory=dict)

    @property
    def world_size(self) -> int:
        """Ranks over all groups."""
        return sum(g.rank_count for g in self.groups)

    @property
    def varies(self) -> bool:
        """Whether durations differ between iterations."""
        return any(not isinstance(group.durations, ConstantDurations) for group in self.groups)


def phase(
    latency_ps: int = 0,
    work_ps: int = 0,
    resources: Sequence[int] = (),
    usage: Sequence[float] | float = 1.0,
) -> Phase:
    """A `Phase` from plain sequences; a scalar usage holds for all resources."""
    numbers = np.asarray(resources, dtype=np.int64)
    shares = np.broadcast_to(np.asarray(usage, dtype=np.float64), numbers.shape)
    return Phase(latency_ps, work_ps, numbers, shares)
