"""Usage of resources by phases: one table for the whole program, equal resources merged.

In a cluster most resources are used alike: the 4,096 NIC ports under two global collectives are one constraint, not
4,096. Resources that every phase, and background traffic, uses to the same share are merged into one *class*; fairness
then works on classes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from inputs.errors import ProgramError
from simulator.lowered import STALL_PERIOD, Activity, LoweredProgram, Phase, latency_at
from simulator.operators import FloatArray
from simulator.program import IntArray

_GOLDEN_GAMMA = 0x9E3779B97F4A7C15  # increment of splitmix64
_MASK_64 = (1 << 64) - 1


@dataclass(frozen=True, slots=True)
class Step:
    """A phase, ready to execute: wait ``latency_ps``, then ``work_ps`` of usage row ``row`` (-1: no work).

    ``other_work_ps`` stands for ``work_ps`` in every second pair of iterations (`simulator.lowered.is_other`),
    ``stalls_in`` for the iterations that have the latency (`simulator.lowered.Phase`).
    """

    latency_ps: int
    work_ps: int
    row: int
    other_work_ps: int
    stalls_in: int | None = None

    def latency_at(self, iteration: int) -> int:
        """The latency in an iteration, ps."""
        return latency_at(self.latency_ps, self.stalls_in, iteration)


@dataclass(frozen=True, slots=True)
class UsageTable:
    """Usage of resource classes by the rows (phases with work) of a program, in compressed rows.

    Attributes:
        steps: steps of each activity.
        ptr: ``[rows + 1]``; row r uses entries ``ptr[r]:ptr[r+1]``.
        classes: class number of each entry.
        usage: share of the class used when alone, of each entry.
        class_count: number of classes.
        class_of: class of each resource ``[L]``; unused resources share the class of the first one.
        owners: owner that takes turns on the one class of each row ``[rows]``, -1 where it shares.
        weights: weights of their parts of full resources ``[rows]``.
    """

    steps: tuple[tuple[Step, ...], ...]
    ptr: IntArray
    classes: IntArray
    usage: FloatArray
    class_count: int
    class_of: IntArray
    owners: IntArray
    weights: FloatArray

    def gather(self, rows: IntArray) -> tuple[IntArray, IntArray, FloatArray, FloatArray]:
        """Entries of several rows: counts ``[rows]``, classes and usage one row after the other, weights ``[rows]``."""
        begin = self.ptr[rows]
        counts = self.ptr[rows + 1] - begin
        ends = np.cumsum(counts)
        entries = np.arange(ends[-1]) + np.repeat(begin - ends + counts, counts)
        return counts, self.classes[entries], self.usage[entries], self.weights[rows]


def build_usage(program: LoweredProgram) -> UsageTable:
    """The usage table of a lowered program.

    Raises:
        ProgramError: a phase would take turns on several resources, have work in some iterations only, a weight that
            is none, or work behind a latency of some iterations.
    """
    for each in (phase for activity in program.activities for phase in activity.phases):
        if each.stalls_in is not None and (each.work_ps or each.stalls_in not in range(STALL_PERIOD)):
            raise ProgramError(f"a phase of {each.work_ps} ps would stall in iterations {each.stalls_in}")
    phases: list[Phase] = []
    steps = tuple(_steps(activity, phases) for activity in program.activities)
    for phase in phases:
        if phase.owner >= 0 and len(phase.resources) > 1:
            raise ProgramError(f"a phase of owner {phase.owner} would take turns on {len(phase.resources)} resources")
        if phase.other_work_ps is not None and phase.other_work_ps <= 0:
            raise ProgramError(f"a phase of {phase.work_ps} ps would have no work in some iterations")
        if not 0.0 < phase.weight < np.inf:
            raise ProgramError(f"a phase of {phase.work_ps} ps would have the weight {phase.weight}")
    taken = [Phase(0, 1, b.resources, np.full(len(b.resources), b.share)) for b in program.background]
    first, class_of = _merge([*phases, *taken], program.resource_count)
    is_first = np.zeros(program.resource_count, dtype=np.bool_)
    is_first[first] = True
    ptr, classes, usage = [0], [], []
    for phase in phases:
        keep = is_first[phase.resources]
        classes.append(class_of[phase.resources[keep]])
        usage.append(phase.usage[keep])
        ptr.append(ptr[-1] + len(classes[-1]))
    return UsageTable(
        steps=steps,
        ptr=np.array(ptr, dtype=np.int64),
        classes=np.concatenate(classes) if classes else np.zeros(0, dtype=np.int64),
        usage=np.concatenate(usage) if usage else np.zeros(0),
        class_count=len(first),
        class_of=class_of,
        owners=np.array([phase.owner if program.slice_ps else -1 for phase in phases], dtype=np.int64),
        weights=np.array([phase.weight for phase in phases], dtype=np.float64),
    )


def _steps(activity: Activity, phases: list[Phase]) -> tuple[Step, ...]:
    """Steps of an activity, at least one; phases with work on resources go to ``phases`` and are numbered as rows."""
    steps = []
    for phase in activity.phases:
        if phase.work_ps > 0 and len(phase.resources):
            other_ps = phase.work_ps if phase.other_work_ps is None else phase.other_work_ps
            steps.append(Step(phase.latency_ps, phase.work_ps, len(phases), other_ps))
            phases.append(phase)
        else:
            steps.append(Step(phase.latency_ps + phase.work_ps, 0, -1, 0, phase.stalls_in))
    return tuple(steps) or (Step(0, 0, -1, 0),)  # a communicator of one rank


def _merge(phases: Sequence[Phase], resource_count: int) -> tuple[IntArray, IntArray]:
    """First resource of each class and the class of each resource ``[L]``.

    Candidates are found by hashing each resource's column and then compared exactly; on a collision of hashes nothing
    is merged.
    """
    column = np.zeros(resource_count, dtype=np.uint64)
    for row, phase in enumerate(phases):
        salt = np.uint64((row + 1) * _GOLDEN_GAMMA & _MASK_64)
        column[phase.resources] += _mix(salt ^ np.ascontiguousarray(phase.usage).view(np.uint64))
    _, first, class_of = np.unique(column, return_index=True, return_inverse=True)
    order = np.argsort(first)  # classes in the order of their first resource
    first, class_of = first[order], np.argsort(order)[class_of]
    if _columns_agree(phases, first[class_of]):
        return first, class_of
    everyone = np.arange(resource_count)
    return everyone, everyone


def _mix(bits: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Scramble 64-bit words (the finaliser of splitmix64, Steele et al. 2014)."""
    bits = (bits ^ (bits >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    bits = (bits ^ (bits >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return bits ^ (bits >> np.uint64(31))


def _columns_agree(phases: Sequence[Phase], stand_in: IntArray) -> bool:
    """Whether every phase uses each resource just as it uses the resource that stands in for it."""
    size = np.bincount(stand_in, minlength=len(stand_in))
    dense = np.zeros(len(stand_in))
    for phase in phases:
        dense[phase.resources] = phase.usage
        stands_in = stand_in[phase.resources] == phase.resources
        same = np.array_equal(dense[stand_in[phase.resources]], phase.usage)
        complete = size[phase.resources[stands_in]].sum() == len(phase.resources)
        dense[phase.resources] = 0.0
        if not (same and complete):
            return False
    return True
