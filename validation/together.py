"""Lookups of ranks that are under way at the same time, and what that makes them longer (`docs/decisions/129`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from hardware_specs.cpu_kernels import MOST_TOGETHER, PASSING, CpuKernels, Followed
from simulator.compute import CpuModel
from simulator.operators import EmbeddingLookup, FloatArray
from simulator.program import IntArray, Program
from validation.yardstick import FEWEST, FULLY, from_middle, lookups_slowness

LEAST = FEWEST // 2
"""Of them that are a state of their own: one alone may have been held up."""
FARTHER = 1.3
"""By how much more time, at least, cores that are far from each other need."""
TRIED = np.linspace(1.0, MOST_TOGETHER, 101)
"""Of ``lookups_together``."""


@dataclass(frozen=True, slots=True)
class Together:
    """How much of what a job's lookups do is done while others' are under way, and what that takes longer.

    Attributes:
        share: part of it, 0 to 1.
        kernels: of the machine, which tell the rest.
    """

    share: float
    kernels: CpuKernels

    def slower(self, yardstick_s: Mapping[str, float]) -> float:
        """By how much longer the lookups take than if those of one rank waited for the others'.

        Args:
            yardstick_s: of the yardstick's pieces: which of them tells how far cores are from each other is not known
                of all measurements; then as usual.
        """
        return 1.0 + self.share * (self.kernels.together(yardstick_s.get(PASSING)) - 1.0)


def lookups_slower(
    now_s: Mapping[str, float], then_s: Mapping[str, float], together: Together | None, followed: Followed = FULLY
) -> float:
    """By how much longer lookups take than when the machine was calibrated.

    By another part of the yardstick than all else, and as far as they are under way beside those of other ranks by how
    far their cores are from each other.

    Args:
        now_s: usual times of the yardstick's pieces now, seconds.
        then_s: the same then.
        together: what is predicted of lookups beside others'; None: there are none.
        followed: how closely jobs go with the yardstick.
    """
    by_state = together.slower(now_s) / together.slower(then_s) if together else 1.0
    return lookups_slowness(now_s, then_s, followed) * by_state


class Longer(NamedTuple):
    """Of each task and rank ``[T, P]``: what other ranks' lookups make it longer, and for how long they are under way.

    Both in seconds; 0 of all but lookups.
    """

    longer_s: FloatArray
    beside_s: FloatArray


@dataclass(frozen=True, slots=True)
class LookedUp:
    """Lookups of a job that was measured.

    Attributes:
        longer: what they took over what is expected of them alone.
        share: part of them that is done beside others', 0 to 1.
        passing_s: what the yardstick's ``passing`` took meanwhile.
        weight: part that they are of the iteration.
    """

    longer: float
    share: float
    passing_s: float
    weight: float


def near_and_far_s(passing_s: Sequence[float]) -> tuple[float, float] | None:
    """What ``passing`` takes between cores that are near each other, and far: middles of two groups of measurements.

    None where it is all one group.
    """
    told = np.log(np.sort(passing_s))
    if len(told) < FEWEST:
        return None
    spreads = [
        told[:cut].var() * cut + told[cut:].var() * (len(told) - cut) for cut in range(LEAST, len(told) - LEAST + 1)
    ]
    cut = LEAST + int(np.argmin(spreads))
    near_s, far_s = (float(np.exp(np.median(group))) for group in (told[:cut], told[cut:]))
    return (near_s, far_s) if far_s > FARTHER * near_s else None


def fit_together(jobs: Sequence[LookedUp], kernels: CpuKernels) -> float:
    """``lookups_together`` with which jobs differ least in what their lookups take longer than expected.

    Args:
        jobs: that tell.
        kernels: of the machine, which tell what is near.
    """
    if len(jobs) < FEWEST:
        return 1.0
    longer, share, weight = np.array([(np.log(job.longer), job.share, job.weight) for job in jobs]).T
    off = []
    for together in TRIED:
        tried = kernels.model_copy(update={"lookups_together": together})
        by = [tried.together(job.passing_s) for job in jobs]
        off.append(from_middle(longer - np.log(1.0 + share * (np.array(by) - 1.0)), weight))
    return round(float(TRIED[int(np.argmin(off))]), 3)


def lookups_beside(program: Program, compute: object, start_ps: IntArray, end_ps: IntArray) -> Longer:
    """What lookups in an iteration are longer for others' lookups, on the caches of one node.

    Args:
        program: T tasks of P ranks.
        compute: the model of their kernels.
        start_ps: when tasks start in an iteration ``[T, P]``.
        end_ps: when they end ``[T, P]``.
    """
    found = Longer(*np.zeros((2, *start_ps.shape)))
    tasks = [task for task, work in enumerate(program.work) if isinstance(work, EmbeddingLookup)]
    if not tasks or not isinstance(compute, CpuModel) or program.rank_count == 1:
        return found
    begin, end = start_ps[tasks] / 1e12, end_ps[tasks] / 1e12
    edges = np.unique([begin, end])
    low, length = edges[:-1], np.diff(edges)
    under_way = (begin[..., None] <= low) & (end[..., None] > low)  # [tasks, ranks, pieces of time]
    ranks = np.any(under_way, axis=0).sum(axis=0)
    slower = np.maximum(1.0, compute.lookup_share * ranks)
    found.longer_s[tasks] = under_way @ (length * (1.0 - 1.0 / slower))
    found.beside_s[tasks] = under_way @ (length * (ranks > 1) / slower)
    return found
