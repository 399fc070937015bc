"""Search for the fastest plan of a network's blocks that fits: estimates order the plans, runs decide.

KARMA (Wahib et al., SC 2020) plans in two steps. First, as many of the first blocks leave device memory as do not fit,
and the last blocks stay. Then swapped blocks are recomputed if recomputation hides copies. Both steps give starts of
this search, and so do plans with one decision for all blocks. From each start the search changes the decisions of one
block or of two blocks as long as the estimated time falls. Estimates follow a schedule step by step on idle links; the
search simulates the best plans.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import combinations, compress, cycle, product
from math import inf

from simulator.compute import ComputeModel
from simulator.operators import Copy, HostWork
from simulator.work import Operator
from workloads.convnet.block_plan import DECISIONS, BlockPlan, Decision, copied
from workloads.convnet.out_of_core import OutOfCore
from workloads.convnet.swap_schedule import KERNELS, OUT, STREAM_OF, BlockBytes, Step, StepKind
from workloads.convnet.swapping_pass import UPDATES, host_update_s, kernels_of

MOST_STARTS = 3
"""Number of starts of the search for each size of blocks; the starts with the shortest estimates are taken."""

COPY_SHARES = (0.0, 0.25, 0.5, 0.75, 1.0, 2.0)
MARGIN = 1.001
"""Ratios of the price of a copied byte to the price of a stored byte; factor on the price at which recomputing a block
costs as much as keeping it: above this price recomputing is cheaper."""

PASSES: tuple[StepKind, StepKind] = ("forward", "backward")
REPEATS: tuple[Decision, Decision] = ("recompute", "recompute_swapped")
NO_ROOM = (inf, inf)
PICOSECONDS = 12
"""Digits after the decimal point of estimates in seconds; smaller differences count as equal."""


@dataclass(frozen=True, slots=True)
class SearchLimits:
    """Largest numbers of estimated and of simulated plans.

    One estimate takes a millisecond, one run of ResNet-50 half a second (``karma_resnet50`` on a 2.5 GHz core).
    """

    estimated: int
    simulated: int


OF_A_RUN, OF_A_PLAN, OF_A_COMPARISON = SearchLimits(1000, 2), SearchLimits(3000, 4), SearchLimits(10_000, 16)
"""Limits of the search before a run, of ``plan``, and of ``plan --compare``."""


@dataclass(slots=True)
class StepTimes:
    """Times of steps on idle links.

    Attributes:
        compute: model of the times of operators.
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
        """Time of an iteration without launches and exchanges, seconds; a step begins after the steps it waits for."""
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

    def again_s(self, job: OutOfCore) -> list[float]:
        """Time to recompute each block, seconds."""
        return [
            self.step_s(job, ("recompute", block)) if job.blocks[block].again else 0.0
            for block in range(len(job.blocks))
        ]

    def passes_s(self, job: OutOfCore) -> float:
        """Time of both passes without recomputation, seconds."""
        return sum(self.step_s(job, (kind, block)) for kind in PASSES for block in range(len(job.blocks)))

    def _seconds(self, work: Operator) -> float:
        return float(self.compute.duration_s(work))


@dataclass(slots=True)
class BlockSearch:
    """A search for plans.

    Attributes:
        jobs: the job on blocks of several sizes, with any decisions.
        host_room_bytes: host memory for swapped tensors.
        found: plans that fit, with their estimated time, seconds, and the bytes that leave the device or are dropped.
        looked_at: number of estimated plans.
        share: number of estimated plans at which the search goes on to blocks of another size.
    """

    jobs: Sequence[OutOfCore]
    times: StepTimes
    host_room_bytes: float
    limits: SearchLimits = OF_A_RUN
    found: dict[BlockPlan, tuple[tuple[float, float], OutOfCore]] = field(default_factory=dict)
    looked_at: int = 0
    share: int = 0

    def run(self) -> None:
        """Search from the best starts on blocks of each size."""
        for number, job in enumerate(self.jobs, start=1):
            self.share = self.limits.estimated * number // len(self.jobs)
            plain = (start.decided(_plain(start)) for start in self._starts(job))
            starts = {start.plan: start for start in plain if self.cost(start) < NO_ROOM}
            for start in sorted(starts.values(), key=self.cost)[:MOST_STARTS]:
                self._descend(start)

    def fastest(self) -> list[OutOfCore]:
        """Plans with the shortest estimates; among plans with equal estimates the plan that moves fewest bytes."""
        apart: dict[float, OutOfCore] = {}
        for (seconds, _), job in sorted(self.found.values(), key=lambda found: found[0]):
            apart.setdefault(seconds, job)
            if len(apart) == self.limits.simulated:
                break
        return list(apart.values())

    def cost(self, job: OutOfCore) -> tuple[float, float]:
        """Estimated time, and bytes that leave the device or are dropped; `NO_ROOM` if the plan does not fit."""
        known = self.found.get(job.plan)
        if known is not None:
            return known[0]
        if self.looked_at >= self.share or not self.fits(job):
            return NO_ROOM
        self.looked_at += 1
        pairs = list(zip(job.sizes, job.plan.decisions, strict=True))
        moved = sum(sizes.out(decision) + sizes.again(decision) for sizes, decision in pairs)
        cost = round(self.times.iteration_s(job), PICOSECONDS), moved
        self.found[job.plan] = cost, job
        return cost

    def fits(self, job: OutOfCore) -> bool:
        """Whether device and host have room for a plan."""
        return job.schedule.lacking_bytes <= 0.0 and job.schedule.out_bytes <= self.host_room_bytes

    def _starts(self, job: OutOfCore) -> Iterator[OutOfCore]:
        """Starts: one decision for the fewest first blocks with which the plan fits, or for all except the last."""
        count = len(job.blocks)
        for decision in DECISIONS[1:]:
            leaving = (_first(job, decision, blocks) for blocks in range(count))
            fitting = next((job for job in leaving if self.fits(job)), None)
            if fitting is not None:
                yield fitting
            yield _first(job, decision, count - 1)
        yield from self._priced(job)

    def _priced(self, job: OutOfCore) -> Iterator[OutOfCore]:
        """The cheapest decision of each block at prices of a stored byte and of a copied byte, seconds."""
        sizes, again_s = job.sizes, self.times.again_s(job)
        ratios = {seconds / each.inner for seconds, each in zip(again_s, sizes, strict=True) if each.inner}
        for stay in (MARGIN * ratio for ratio in sorted(ratios)):
            for copy in (share * stay for share in COPY_SHARES):
                decisions: list[Decision] = []
                for each, seconds in zip(sizes, again_s, strict=True):
                    whole = each.input + each.inner
                    costs: dict[Decision, float] = {
                        "keep": stay * whole,
                        "swap": copy * whole,
                        "recompute": seconds + stay * each.input,
                        "recompute_swapped": seconds + copy * each.input,
                    }
                    decisions.append(min(DECISIONS, key=costs.__getitem__))
                yield job.decided(decisions)

    def _descend(self, job: OutOfCore) -> None:
        """Change a plan until no change helps; each change that helps is kept."""
        changes = list(_changes([_choices(sizes) for sizes in job.sizes]))
        again_s, passes_s, failed = self.times.again_s(job), self.times.passes_s(job), 0
        for change in cycle(changes):
            tried = job.decided([change.get(block, now) for block, now in enumerate(job.plan.decisions)])
            limit, repeats = self.cost(job), [decision in REPEATS for decision in tried.plan.decisions]
            kernels_s = passes_s + sum(compress(again_s, repeats))  # lower bound of the iteration
            helps = tried.plan != job.plan and kernels_s <= limit[0] and self.cost(tried) < limit
            job, failed = (tried, 0) if helps else (job, failed + 1)
            if failed == len(changes) or self.looked_at >= self.share:
                return


def _first(job: OutOfCore, decision: Decision, blocks: int) -> OutOfCore:
    stay: list[Decision] = ["keep"] * (len(job.blocks) - blocks)
    return job.decided([*[decision] * blocks, *stay])


def _plain(job: OutOfCore) -> list[Decision]:
    """Decisions of a plan, each replaced by the simplest decision that moves the same tensors."""
    return [_plainest(sizes, now) for sizes, now in zip(job.sizes, job.plan.decisions, strict=True)]


def _plainest(sizes: BlockBytes, now: Decision) -> Decision:
    if now in _choices(sizes):
        return now
    if sizes.inner:
        return "recompute"
    return "swap" if copied(now) else "keep"


def _choices(sizes: BlockBytes) -> list[Decision]:
    """Decisions with different effects on a block: a block without inner tensors recomputes nothing."""
    found: list[Decision] = ["keep", "swap"]
    if sizes.inner:
        found += ["recompute"] if sizes.input == 0.0 else ["recompute", "recompute_swapped"]
    return found


def _changes(choices: Sequence[Sequence[Decision]]) -> Iterator[dict[int, Decision]]:
    """New decisions of one block, then of two blocks.

    Args:
        choices: decisions by block.
    """
    for together in (1, 2):
        for blocks in combinations(range(len(choices)), together):
            for decisions in product(*(choices[block] for block in blocks)):
                yield dict(zip(blocks, decisions, strict=True))
