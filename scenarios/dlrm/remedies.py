"""Remedies for a job that does not fit: settings that were tried, with the memory that ranks then need.

The excess decides which remedies are tried. If ranks would fit with fewer bytes of tables, the remedies are, on the
same ranks, every planner, narrower tables, tables outside device memory, tables without constraints, and the fewest of
these together, else fewer samples; then more GPUs of the same node, else more nodes, with the same samples per rank;
then fewer rows. Where a rank is too full without its tables, these are every planner, which places inputs and buffers
elsewhere, and fewer samples: with the same samples per rank more nodes have as much of everything else, and the inputs
of a whole table grow. Jobs with sequences have further settings, which keep the batch
(`scenarios.dlrm.remedy_settings`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations, product
from typing import Protocol

from inputs.errors import InputError
from inputs.quantities import MAX_RANKS
from scenarios.capacity import MemoryReport
from scenarios.changes import in_place_of
from scenarios.dlrm.remedy_settings import (
    ALONE,
    GRADED,
    PLANNER,
    SEARCH,
    SPREADING,
    sequence_settings,
    table_settings,
)
from scenarios.dlrm.typed import DlrmResolved, dlrm_of
from scenarios.resolve import asked_again
from workloads.dlrm.sharding import PLANNERS

GROWTH = 0.15
"""First increase of the number of nodes, as a fraction of it; each further increase is twice as large."""

LARGEST, MOST_RANKS, SOME_MORE = 64, 16_384, 4
"""Largest factor on the scenario's nodes, largest number of ranks, and factor that is tried above that number, too:
planning takes time proportional to the ranks."""

ALL_PLANNERS_RANKS = 1024
"""Largest number of ranks at which every planner is tried; above, `SPREADING`, without improvement of plans."""
SMALL_PLANNING = 20_000
"""Ranks times tables up to which remedies are planned in full; above, first plans without improvement are enough."""

FIRST_PLAN = "in a first plan"

OF_TABLES = ("weights", "optimizer state", "gradients", "caches")
"""Items that smaller tables, or fewer of them on a rank, lessen."""
OF_SAMPLES = ("activations", "communication buffers", "inputs in flight")
"""Items that fewer samples lessen, about in proportion."""

MOST_TOGETHER = 3
"""Largest number of settings that are tried together."""

HALVINGS = 10
"""Largest number of times that the samples of a rank are halved."""


@dataclass(frozen=True, slots=True)
class Found:
    """A plan that fits.

    Attributes:
        memory: memory of every rank under it.
        cost_s: iteration time by the costs of planners, seconds.
        rows_scale: factor on the rows of all tables.
        first: whether the planner goes on from it.
    """

    memory: MemoryReport
    cost_s: float
    rows_scale: float
    first: bool = False


class Attempt(Protocol):
    """Plans a scenario."""

    def __call__(self, resolved: DlrmResolved, *, hasty: bool) -> Found | None:
        """The plan of a run, or the first plan that fits; None if nothing fits."""
        ...


@dataclass(frozen=True, slots=True)
class Remedy:
    """Settings with which the job fits.

    Attributes:
        settings: ``KEY=VALUE`` each.
        found: the plan that was made with them; the first one of a search.
        notes: facts that are printed with its memory.
    """

    settings: tuple[str, ...]
    found: Found
    notes: tuple[str, ...] = ()

    def in_words(self) -> str:
        """The options of a command line, and in brackets the memory of the fullest rank."""
        options = " ".join(f"--set {setting}" for setting in self.settings)
        memory = self.found.memory.fullest() + (f" {FIRST_PLAN}" if self.found.first else "")
        return f"{options} ({'; '.join((*self.notes, memory))})"


@dataclass(frozen=True, slots=True)
class Remedies:
    """Search for remedies.

    Attributes:
        resolved: the scenario that does not fit.
        attempt: plans a changed one.
        least_ranks: smallest number of ranks whose memory holds all tables.
        tables: number of tables.
    """

    resolved: DlrmResolved
    attempt: Attempt
    least_ranks: int
    tables: int

    def all(self, report: MemoryReport | None) -> list[Remedy]:
        """Remedies that tried settings led to, see the module.

        Args:
            report: memory under the scenario's plan; None: there is no plan, because tables find no room.
        """
        if report is not None and report.largest_factor(OF_TABLES) < 0.0:
            return [*self._planners(), *self._of_sequences(), *self.smaller_batch(report)]
        here = self._same_ranks() or self.smaller_batch(report)
        planner_helps = any(len(r.settings) == 1 and _key(r.settings[0]) == PLANNER for r in here)
        return [*here, *self._more_ranks(other_planners=not planner_helps), *self._fewer_rows()]

    def beside_tables(self) -> list[Remedy]:
        """Remedies where nothing is left for tables: settings of sequences, perhaps with others, else fewer samples."""
        here = self._same_ranks() if sequence_settings(self.resolved) else []
        return here or self.smaller_batch()

    def smaller_batch(self, report: MemoryReport | None = None) -> list[Remedy]:
        """The largest of half, a quarter... of the samples with which the job fits.

        Args:
            report: memory under the scenario's plan, which says where to start; None: with half of the samples.
        """
        factor = 0.5 if report is None else report.largest_factor(OF_SAMPLES)
        if factor <= 0.0:
            return []
        first = max(1, math.ceil(-math.log2(factor)))
        found = self._with_samples(first)
        if found is None:
            rest = (self._with_samples(times) for times in range(first + 1, HALVINGS + 1))
            found = next((remedy for remedy in rest if remedy), None)
        else:
            for times in range(first - 1, 0, -1):
                more = self._with_samples(times)
                if more is None:
                    break
                found = more
        return [] if found is None else [found]

    def _with_samples(self, times: int) -> Remedy | None:
        """The job with its samples halved so many times."""
        local = self.resolved.local_batch_size >> times
        found = self._sure((f"workload.global_batch_size={local * self.resolved.world_size}",)) if local else None
        return found and _remedy(found, f"{local} samples each")

    def _same_ranks(self) -> list[Remedy]:
        """Single settings with which the job fits; otherwise the fewest settings together."""
        levers = table_settings(self.resolved) | sequence_settings(self.resolved)
        single = [*self._planners(), *(r for key in levers if key != PLANNER for r in self._first(levers, (key,)))]
        if single:
            return single
        together = [key for key in levers if key not in ALONE]
        for size in range(2, min(len(together), MOST_TOGETHER) + 1):
            found = [r for keys in combinations(together, size) for r in self._first(levers, keys)]
            if found:
                return found
        return []

    def _of_sequences(self) -> list[Remedy]:
        """Single settings that shrink vectors and activations of sequences."""
        levers = sequence_settings(self.resolved)
        return [remedy for key in levers for remedy in self._first(levers, (key,))]

    def _planners(self) -> list[Remedy]:
        """The planner with the cheapest plan; a note names the other planners that find a plan."""
        own = self.resolved.scenario.workload.sharding.planner
        every = PLANNERS.names() if self.resolved.world_size <= ALL_PLANNERS_RANKS else SPREADING
        names = [name for name in every if name not in (own, SEARCH)]
        tried = [self._sure((f"{PLANNER}={name}",)) for name in names]
        fitting = sorted((t for t in tried if t is not None), key=lambda t: t[1].cost_s)
        if not fitting:
            return []
        others = [settings[0].partition("=")[2] for settings, _ in fitting[1:]]
        return [_remedy(fitting[0], *([f"as do {', '.join(others)}"] if others else []))]

    def _first(self, levers: dict[str, list[str]], keys: Sequence[str]) -> list[Remedy]:
        """The first of the combinations of values of these keys that fits.

        The last values of `GRADED` keys need the least device memory and are tried first: where they do not fit, no
        earlier value does.
        """
        graded = [[f"{key}={value}" for value in levers[key]] for key in keys if key in GRADED]
        for others in product(*([f"{key}={value}" for value in levers[key]] for key in keys if key not in GRADED)):
            widest = self._sure((*others, *(values[-1] for values in graded)))
            if widest:
                milder = (self._sure((*others, *values)) for values in list(product(*graded))[:-1])
                return [_remedy(next((found for found in milder if found), widest))]
        return []

    def _more_ranks(self, *, other_planners: bool) -> list[Remedy]:
        """More GPUs of the same node, else the smallest number of nodes, with any planner."""
        own = self.resolved.scenario.workload.sharding.planner
        first: list[str | None] = [] if own is None else [None]
        planners = [*first, *(name for name in SPREADING if other_planners and name != own)]
        gpus = self.resolved.cluster.node.ranks
        for ranks in range(max(self.resolved.world_size + 1, self.least_ranks), gpus + 1):
            found = self._of_size(ranks, planners)
            if found:
                return [found]
        found = self._fewest_nodes(planners)
        return [found] if found else []

    def _fewest_nodes(self, planners: list[str | None]) -> Remedy | None:
        gpus = self.resolved.cluster.node.ranks
        below = max(self.resolved.world_size // gpus, math.ceil(self.least_ranks / gpus) - 1)
        nodes = self.resolved.nodes
        most = min(max(min(LARGEST * nodes, MOST_RANKS // gpus), SOME_MORE * nodes), MAX_RANKS // gpus)
        best: Remedy | None = None
        above, growth = below + 1, GROWTH
        while above <= most and (best := self._of_size(above * gpus, planners)) is None:
            below, above, growth = above, math.ceil(above * (1.0 + growth)), 2.0 * growth
        while best and above - below > 1:
            middle = (below + above) // 2
            fewer = self._of_size(middle * gpus, planners)
            best, below, above = (fewer, below, middle) if fewer else (best, middle, above)
        return best

    def _of_size(self, ranks: int, planners: list[str | None]) -> Remedy | None:
        """The job on so many ranks with the first of the planners (None: its own) that finds a plan."""
        gpus, local, there = self.resolved.cluster.node.ranks, self.resolved.local_batch_size, self._nodes_there
        size = f"nodes={ranks // gpus}" if ranks % gpus == 0 else f"world_size={ranks}"
        notes = [f"{ranks:,} {self.resolved.cluster.node.rank_name}, {local} samples each"]
        if ranks > gpus * there:
            notes.append(f"more than the {there} nodes of {self.resolved.cluster.name}")
        for name in planners:
            other = () if name is None else (f"{PLANNER}={name}",)
            settings = (size, f"workload.global_batch_size={self.resolved.batch_on(ranks)}", *other)
            found = self._sure(settings)
            if found:
                return _remedy(found, *notes)
        return None

    @property
    def _nodes_there(self) -> int:
        return int(self.resolved.cluster.max_nodes.value)

    def _fewer_rows(self) -> list[Remedy]:
        """The factor on the rows of all tables with which a plan was made, to 1 %."""
        sharding = self.resolved.scenario.workload.sharding
        if sharding.plan is not None or self.resolved.scenario.workload.rows_scaling == "fit":
            return []
        found = self._sure(("workload.rows_scaling=fit",))
        return [_remedy(found, f"{100 * found[1].rows_scale:.1f} % of the rows")] if found else []

    def _sure(self, settings: tuple[str, ...]) -> tuple[tuple[str, ...], Found] | None:
        """The plan of a run; of many ranks or tables a first one, where the full planner finds one as well."""
        ranks = self.resolved.world_size
        return self._tried(settings, hasty=ranks > ALL_PLANNERS_RANKS or ranks * self.tables > SMALL_PLANNING)

    def _tried(self, settings: tuple[str, ...], *, hasty: bool = False) -> tuple[tuple[str, ...], Found] | None:
        settings = in_place_of(self.resolved.document, settings)
        try:
            found = self.attempt(dlrm_of(asked_again(self.resolved, settings), "sharding"), hasty=hasty)
        except InputError:  # a setting that this scenario cannot have
            return None
        return None if found is None else (settings, found)


def _remedy(tried: tuple[tuple[str, ...], Found], *notes: str) -> Remedy:
    return Remedy(*tried, notes)


def _key(setting: str) -> str:
    return setting.partition("=")[0]
