"""Search for the fastest plan of a network's blocks that fits: estimates order the plans, runs decide.

KARMA (Wahib et al., SC 2020) plans in two steps: blocks leave device memory only as far as it is exceeded, the last
ones stay; then swapped blocks are recomputed where that hides copies. Both give starts here, beside one decision for
all blocks. From each start the search changes the decision of one block, and exchanges those of two, as long as the
estimate falls. Estimates follow a schedule step by step on idle links; the best plans are run.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from math import inf

from simulator.compute import ComputeModel
from simulator.operators import Copy, HostWork, Operator
from workloads.convnet.block_plan import DECISIONS, BlockPlan, Decision
from workloads.convnet.out_of_core import OutOfCore
from workloads.convnet.swap_schedule import KERNELS, OUT, STREAM_OF, Step
from workloads.convnet.swapping_pass import UPDATES, host_update_s, kernels_of

MOST_ESTIMATED = 4000
"""Plans that are estimated at most; one takes a millisecond or two."""

MOST_STARTS = 3
"""Starts from which plans are changed, those with the shortest estimates."""

NO_ROOM = (inf, inf)
PICOSECONDS = 12
"""Digits after the point of estimates in seconds: shorter differences are none."""

SIMULATED_IN_A_RUN, SIMULATED_IN_A_PLAN, SIMULATED_IN_A_COMPARISON = 3, 6, 24
"""Plans that are simulated at most: before a run with a plan of its own, by ``plan``, by ``plan --compare``. A run of
ResNet-50 takes half a second (``karma_resnet50`` on a 2.5 GHz core)."""


@dataclass(slots=True)
class StepTimes:
    """Times of steps on idle links.

    Attributes:
        compute: times of operators.
    """

    compute: ComputeModel
    _known: dict[tuple[Step, str, float], float] = field(default_factory=dict)

    def step_s(self, job: OutOfCore, step: Step) -> float:
        """Time of a step, seconds."""
        kernels = STREAM_OF[step[0]] == KERNELS
        size = 0.0 if kernels else job.schedule.copied_bytes(step)
        key = (step, job.blocks[step[1]].last if kernels else "", size)
        if key not in self._known:
            work: list[Operator] = [Copy(size, "d2h" if STREAM_OF[step[0]] == OUT else "h2d")]
            if kernels:
                work = [kernel.work for _, kernel in kernels_of(job, step)]
            self._known[key] = float(sum(map(self._seconds, work)))
        return self._known[key]

    def iteration_s(self, job: OutOfCore) -> float:
        """Time of an iteration without launches and exchanges: each step begins when all that it waits for has ended."""
        schedule = job.schedule
        free_s: dict[str, float] = {}
        ends_s: dict[Step, float] = {}
        for step in schedule.steps:
            stream = STREAM_OF[step[0]]
            waits = (*schedule.needs(step), *schedule.waits.get(step, ()))
            begin_s = max(free_s.get(stream, 0.0), *(ends_s[before] for before in waits), 0.0)
            free_s[stream] = ends_s[step] = begin_s + self.step_s(job, step)
            if step[0] == "gradients_out":
                update = HostWork(seconds=host_update_s(schedule.copied_bytes(step), job.settings))
                free_s[UPDATES] = max(free_s.get(UPDATES, 0.0), ends_s[step]) + self._seconds(update)
        return max(free_s.values())

    def _seconds(self, work: Operator) -> float:
        return float(self.compute.duration_s(work))


@dataclass(slots=True)
class BlockSearch:
    """Plans that were estimated.

    Attributes:
        jobs: the job on blocks of several sizes, with any decisions.
        host_room_bytes: host memory for swapped tensors.
        found: plans that fit, with the time that was estimated, seconds, and the bytes that leave or are dropped.
        looked_at: number of plans that were estimated.
    """

    jobs: Sequence[OutOfCore]
    times: StepTimes
    host_room_bytes: float
    found: dict[BlockPlan, tuple[tuple[float, float], OutOfCore]] = field(default_factory=dict)
    looked_at: int = 0

    def run(self) -> None:
        """Search from the best starts."""
        starts = [start for job in self.jobs for start in self._starts(job) if self.cost(start) < NO_ROOM]
        for start in sorted(starts, key=self.cost)[:MOST_STARTS]:
            self._descend(start)

    def fastest(self, count: int) -> list[OutOfCore]:
        """Plans with the shortest estimates; of those that are estimated alike the one that moves least."""
        apart: dict[float, OutOfCore] = {}
        for (seconds, _), job in sorted(self.found.values(), key=lambda found: found[0]):
            apart.setdefault(seconds, job)
            if len(apart) == count:
                break
        return list(apart.values())

    def cost(self, job: OutOfCore) -> tuple[float, float]:
        """Estimated time, and bytes that leave the device or are dropped; `NO_ROOM` if the plan does not fit."""
        known = self.found.get(job.plan)
        if known is not None:
            return known[0]
        if self.looked_at >= MOST_ESTIMATED or not self.fits(job):
            return NO_ROOM
        self.looked_at += 1
        pairs = list(zip(job.schedule.bytes, job.plan.decisions, strict=True))
        moved = sum(sizes.out(decision) + sizes.again(decision) for sizes, decision in pairs)
        cost = round(self.times.iteration_s(job), PICOSECONDS), moved
        self.found[job.plan] = cost, job
        return cost

    def fits(self, job: OutOfCore) -> bool:
        """Whether device and host have room for a plan."""
        return job.schedule.lacking_bytes <= 0.0 and job.schedule.out_bytes <= self.host_room_bytes

    def _starts(self, job: OutOfCore) -> Iterator[OutOfCore]:
        """One decision for the first blocks, as few as fit, and for all but the last; the others stay."""
        count = len(job.blocks)
        for decision in DECISIONS[1:]:
            leaving = (_first(job, decision, blocks) for blocks in range(count))
            fitting = next((job for job in leaving if self.fits(job)), None)
            if fitting is not None:
                yield fitting
            yield _first(job, decision, count - 1)

    def _descend(self, job: OutOfCore) -> None:
        """Change a plan as long as its cost falls."""
        before = NO_ROOM
        while self.cost(job) < before and self.looked_at < MOST_ESTIMATED:
            before = self.cost(job)
            for places in _changes(len(job.blocks)):
                for decisions in _changed(job.plan.decisions, *places):
                    tried = job.decided(decisions)
                    if self.cost(tried) < self.cost(job):
                        job = tried


def _first(job: OutOfCore, decision: Decision, blocks: int) -> OutOfCore:
    stay: list[Decision] = ["keep"] * (len(job.blocks) - blocks)
    return job.decided([*[decision] * blocks, *stay])


def _changes(count: int) -> Iterator[tuple[int, ...]]:
    """Blocks that are changed together: each alone, and each two."""
    yield from combinations(range(count), 1)
    yield from combinations(range(count), 2)


def _changed(now: Sequence[Decision], first: int, second: int | None = None) -> Iterator[list[Decision]]:
    """Decisions with another one for a block, or with those of two blocks exchanged, if they differ."""
    if second is None:
        yield from ([*now[:first], other, *now[first + 1 :]] for other in DECISIONS if other != now[first])
    elif now[first] != now[second]:
        found = list(now)
        found[first], found[second] = now[second], now[first]
        yield found
