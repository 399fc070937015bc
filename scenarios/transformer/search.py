"""Search for the fastest division of a transformer that fits: best first, by least times, each simulated as a run.

Divisions are looked at in the order of `scenarios.transformer.least_time`. One that fits into the memory of every rank
is simulated; one that does not is looked at again with more recomputation. The search ends when the least time of the
next one exceeds the best simulated time: no division that is left can be faster.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from heapq import heapify, heappop, heappush
from typing import TypeAlias

import numpy as np

from inputs.keys import value_at
from scenarios.capacity import MemoryReport, capacities_bytes
from scenarios.progress import Silent
from scenarios.runner import simulation_of
from scenarios.transformer.divisions import divisions, more_recomputation, sequences_of
from scenarios.transformer.filling import BATCH, SEQUENCES
from scenarios.transformer.least_time import LeastTime
from scenarios.transformer.typed import TransformerResolved, with_changes
from simulator.lowering import Machine
from workloads.transformer.family import TransformerWorkload
from workloads.transformer.settings import TransformerSettings

MOST_SIMULATED, LEAST_SIMULATED, SIMULATED_RANKS = 128, 32, 8192
"""Divisions that are simulated at most: so many ranks in all, within these bounds. One takes 50 ms on 8 ranks, and one
to four seconds on 256 (``llama3_70b_3d_256`` on a 2.5 GHz core)."""


def most_simulated(world_size: int) -> int:
    """Divisions that are simulated at most."""
    return max(LEAST_SIMULATED, min(MOST_SIMULATED, SIMULATED_RANKS // world_size))


@dataclass(frozen=True, slots=True)
class DivisionFound:
    """A division that was looked at.

    Attributes:
        settings: ``KEY=VALUE`` each; with them the scenario has this division.
        microbatches: micro-batches of an iteration on each data group.
        memory_bytes: device memory of the fullest rank.
        excess_bytes: device memory that it lacks; at most 0: it fits.
        items_bytes: memory of the fullest rank by item.
        least_time_s: time below which no iteration ends.
        bubble: share of an iteration in which a stage waits, were all stages equal and messages free.
        iteration_time_s: iteration time of a run; None: it does not fit, or is not simulated.
        exposed_comm: share of the iteration in which ranks communicate and compute nothing; likewise.
        own: whether it is the scenario's.
    """

    settings: tuple[str, ...]
    tensor: int
    pipeline: int
    context: int
    data: int
    virtual_stages: int
    sharding: str
    micro_batch: int
    microbatches: int
    recompute: str
    memory_bytes: float
    excess_bytes: float
    items_bytes: Mapping[str, float]
    least_time_s: float
    bubble: float
    iteration_time_s: float | None = None
    exposed_comm: float | None = None
    own: bool = False

    @property
    def fits(self) -> bool:
        """Whether every rank has room."""
        return self.excess_bytes <= 0.0


Simulate: TypeAlias = Callable[[DivisionFound], tuple[float, float]]
"""Iteration time, seconds, and exposed communication, as a share of it."""


@dataclass(slots=True)
class DivisionSearch:
    """Search among the divisions of a job, and its results.

    Attributes:
        settings: job of the scenario.
        simulated: divisions that were run.
        refused: divisions that do not fit and would else be looked at.
        slower: number of divisions that cannot be faster than the fastest one.
        left: number of divisions that could be, and were not simulated.
        count: number of divisions, without those of recomputation.
    """

    resolved: TransformerResolved
    settings: TransformerSettings
    machine: Machine
    simulated: list[DivisionFound] = field(default_factory=list)
    refused: list[DivisionFound] = field(default_factory=list)
    slower: int = 0
    left: int = 0
    count: int = 0
    _least: LeastTime = field(init=False)
    _queue: list[tuple[float, int, TransformerSettings]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._least = LeastTime(self.machine)

    @property
    def best_s(self) -> float:
        """Shortest iteration time so far."""
        return min((found.iteration_time_s or np.inf for found in self.simulated), default=np.inf)

    @property
    def _next_s(self) -> float:
        """Least time of the next division."""
        return self._queue[0][0] if self._queue else np.inf

    def run(self, simulate: Simulate, *, most: int, further: bool) -> None:
        """Search.

        Args:
            most: divisions that are simulated at most.
            further: whether to go on, up to ``most``, with divisions that cannot be the fastest.
        """
        self._take(self.looked_at(self.settings, own=True), simulate)
        for found in self.in_order():
            self._take(found, simulate)
            if len(self.simulated) >= most or not (further or self._next_s < self.best_s):
                break
        self.slower = sum(least_s >= self.best_s for least_s, *_ in self._queue)
        self.left = len(self._queue) - self.slower

    def in_order(self) -> Iterator[DivisionFound]:
        """Divisions beside the scenario's own by their least times; those that do not fit come again, see above."""
        every = divisions(self.settings, self.resolved.cluster.node.ranks)
        self._queue = [(self._least(settings), number, settings) for number, settings in enumerate(every)]
        self.count = len(self._queue)
        heapify(self._queue)
        while self._queue:
            _, number, settings = heappop(self._queue)
            found = self.looked_at(settings)
            more = more_recomputation(settings)
            if more and not found.fits:
                again = replace(settings, recompute=more[0])
                heappush(self._queue, (self._least(again), number, again))
            if settings != self.settings:
                yield found

    def looked_at(self, settings: TransformerSettings, *, own: bool = False) -> DivisionFound:
        """A division, not simulated."""
        memory = memory_of(self.resolved, settings)
        total = memory.use.total("hbm")
        fullest, sizes = int(total.argmax()), settings.sizes
        chunks = sizes.virtual_stages * settings.microbatches
        return DivisionFound(
            settings=settings_in_words(settings, self.resolved),
            tensor=sizes.tensor,
            pipeline=sizes.pipeline,
            context=sizes.context,
            data=sizes.data,
            virtual_stages=sizes.virtual_stages,
            sharding=sizes.sharding,
            micro_batch=settings.micro_batch,
            microbatches=settings.microbatches,
            recompute=settings.recompute,
            memory_bytes=float(total[fullest]),
            excess_bytes=memory.worst_excess_bytes,
            items_bytes={name: float(held[fullest]) for name, held in memory.items("hbm").items() if held[fullest]},
            least_time_s=self._least(settings),
            bubble=(sizes.pipeline - 1) / (chunks + sizes.pipeline - 1),
            own=own,
        )

    def _take(self, found: DivisionFound, simulate: Simulate) -> None:
        """Simulate a division, or note that it does not fit."""
        if not found.fits:
            self.refused.append(found)
            return
        seconds, exposed = simulate(found)
        self.simulated.append(replace(found, iteration_time_s=seconds, exposed_comm=exposed))


def memory_of(resolved: TransformerResolved, settings: TransformerSettings) -> MemoryReport:
    """Memory of every rank of a job against its capacity."""
    return MemoryReport(TransformerWorkload(settings).memory(), capacities_bytes(resolved.cluster, resolved.world_size))


def simulated(resolved: TransformerResolved, found: DivisionFound) -> dict[str, float]:
    """Results of a run of the scenario with a division, as JSON."""
    analysis = simulation_of(with_changes(resolved, found.settings), Silent()).analysis
    exposed = float(analysis.breakdown.exposed_comm_ps.mean()) / max(analysis.breakdown.window.length_ps, 1)
    return {"iteration_time_s": analysis.iteration.seconds, "exposed_comm": exposed}


def settings_in_words(settings: TransformerSettings, resolved: TransformerResolved) -> tuple[str, ...]:
    """``KEY=VALUE`` settings that give a scenario these sizes, without the ones it has already."""
    section, sizes, whole = resolved.scenario.workload, settings.sizes, {"data", "shard_size"}
    found = [
        f"workload.parallel.{key}={getattr(sizes, key)}"
        for key, has in section.parallel.model_dump().items()
        if key not in whole and has != getattr(sizes, key)
    ]
    if section.parallel.data not in (None, sizes.data):
        found.append(f"workload.parallel.data={sizes.data}")
    shards = section.parallel.shard_size
    if shards is not None and (sizes.sharding, sizes.shard_size) != ("hybrid", shards):
        found.append("workload.parallel.shard_size=null")
    if section.micro_batch_size != settings.micro_batch:
        found.append(f"workload.micro_batch_size={settings.micro_batch}")
    if section.recompute != settings.recompute:
        found.append(f"workload.recompute={settings.recompute}")
    given = [value_at(resolved.document.data, key) for key in (BATCH, SEQUENCES)]
    if found and given == [None, None]:  # the default depends on the sizes
        found.append(f"workload.sequences={sequences_of(settings)}")
    return tuple(found)
