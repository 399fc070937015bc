"""The divisions of a transformer as a space to search (`scenarios.search`): divisions that do not fit recompute more.

On a cluster with sites each division has the order of sites with the shortest time of its messages. The fastest
division is then simulated in other orders, too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from inputs.keys import value_at
from scenarios.capacity import MemoryReport, capacities_bytes
from scenarios.machine import machine_of
from scenarios.progress import Silent
from scenarios.runner import simulation_of
from scenarios.search import BestFirst
from scenarios.transformer.divisions import divisions, more_recomputation, sequences_of
from scenarios.transformer.filling import BATCH, SEQUENCES, settings_of_resolved
from scenarios.transformer.least_time import LeastTime, least_time_of
from scenarios.transformer.messages import Order, StageMessages, in_words
from scenarios.transformer.typed import TransformerResolved, with_changes
from simulator.lowering import Machine
from workloads.transformer.family import TransformerWorkload
from workloads.transformer.settings import ParallelSizes, TransformerSettings

MOST_SITES_SIMULATED = 4
"""Largest number of sites for which all orders of the fastest division are simulated: at most 24 orders."""

MOST_ORDERS_SIMULATED = 8
"""Number of simulated orders of more sites: the orders with the lowest costs, and the cluster's own."""


@dataclass(frozen=True, slots=True)
class Division:
    """A division of a job.

    Attributes:
        settings: the job without compression; a run adds the compression of its order of the sites.
        site_order: order of the sites along the pipeline; empty: the cluster has no sites.
    """

    settings: TransformerSettings
    site_order: Order = ()


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
        site_order: order of the sites along the pipeline; empty: the cluster has no sites.
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
    site_order: Order = ()

    @property
    def fits(self) -> bool:
        """Whether every rank has room."""
        return self.excess_bytes <= 0.0


@dataclass(slots=True)
class DivisionSpace:
    """Divisions of a job; see `scenarios.search.SearchSpace`.

    Attributes:
        own: the scenario's division.
    """

    resolved: TransformerResolved
    own: Division
    machine: Machine
    _least: LeastTime = field(init=False)
    _orders: dict[tuple[ParallelSizes, int], tuple[Order, float]] = field(default_factory=dict)
    _looked: dict[tuple[str, ...], Division] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._least = least_time_of(self.resolved, self.machine)

    def choices(self) -> Iterator[Division]:
        """Divisions without recomputation."""
        for settings in divisions(self.own.settings, self.resolved.cluster.node.ranks):
            yield Division(settings, self._best_order(settings)[0])

    def least_s(self, choice: Division) -> float:
        """The larger of the least time of kernels (`scenarios.transformer.least_time`) and of messages, seconds.

        The time is 0 if iterations vary.
        """
        if self.resolved.scenario.variation.varies:
            return 0.0
        return max(self._least(choice.settings), self._best_order(choice.settings)[1])

    def again(self, choice: Division) -> Division | None:
        """The division with more recomputation."""
        more = more_recomputation(choice.settings)
        return replace(choice, settings=replace(choice.settings, recompute=more[0])) if more else None

    def other_orders(self, found: DivisionFound) -> list[Division]:
        """A division on the sites in other orders: all orders, or for many sites the best orders and the cluster's."""
        choice, names = self._looked[found.settings], self.resolved.cluster.site_names
        if not names or choice.settings.sizes.pipeline == 1:
            return []
        messages = StageMessages.of(self.resolved.scenario, self.resolved.cluster, choice.settings)
        few = len(names) <= MOST_SITES_SIMULATED
        orders = messages.orders() if few else [*messages.good_orders()[:MOST_ORDERS_SIMULATED], names]
        looked = set(self._looked.values())
        return [each for each in (replace(choice, site_order=order) for order in orders) if each not in looked]

    def looked_at(self, choice: Division, *, own: bool = False) -> DivisionFound:
        """A division, not simulated."""
        settings = choice.settings
        memory, sizes = memory_of(self.resolved, settings), settings.sizes
        chunks = sizes.virtual_stages * settings.microbatches
        words = (*settings_in_words(settings, self.resolved), *_order_in_words(choice.site_order, self.resolved))
        self._looked[words] = choice
        return DivisionFound(
            settings=words,
            tensor=sizes.tensor,
            pipeline=sizes.pipeline,
            context=sizes.context,
            data=sizes.data,
            virtual_stages=sizes.virtual_stages,
            sharding=sizes.sharding,
            micro_batch=settings.micro_batch,
            microbatches=settings.microbatches,
            recompute=settings.recompute,
            memory_bytes=memory.most_bytes,
            excess_bytes=memory.worst_excess_bytes,
            items_bytes=memory.fullest_items(),
            least_time_s=self.least_s(choice),
            bubble=(sizes.pipeline - 1) / (chunks + sizes.pipeline - 1),
            own=own,
            site_order=choice.site_order,
        )

    def _best_order(self, settings: TransformerSettings) -> tuple[Order, float]:
        """Order of the sites with the lowest cost, and its cost, seconds."""
        if settings.sizes.pipeline == 1 or not self.resolved.cluster.site_names:
            return self.own.site_order, 0.0
        key = (replace(settings.sizes, shard_size=settings.sizes.shards), settings.micro_batch)
        if key not in self._orders:
            messages = StageMessages.of(self.resolved.scenario, self.resolved.cluster, settings)
            order = messages.best_order()
            self._orders[key] = order, messages.cost_s(order)
        return self._orders[key]


def division_search(resolved: TransformerResolved) -> BestFirst[Division, DivisionFound]:
    """The search among the divisions of a scenario."""
    settings = replace(settings_of_resolved(resolved), compression=None)
    own = Division(settings, _own_order(resolved))
    return BestFirst(DivisionSpace(resolved, own, machine_of(resolved)), own)


def with_other_orders(
    search: BestFirst[Division, DivisionFound], simulate: Callable[[DivisionFound], DivisionFound]
) -> None:
    """Simulate the fastest division on the sites in other orders."""
    fastest = min(search.simulated, key=lambda found: found.iteration_time_s or 0.0)
    if isinstance(search.space, DivisionSpace):
        for choice in search.space.other_orders(fastest):
            search.add(choice, simulate)


def _own_order(resolved: TransformerResolved) -> Order:
    """Order of the scenario's sites; empty: the cluster has no sites."""
    return resolved.site_order or resolved.cluster.site_names


def _order_in_words(order: Order, resolved: TransformerResolved) -> tuple[str, ...]:
    """The setting of an order of the sites, if the scenario has another one."""
    return () if order == _own_order(resolved) else (f"site_order={in_words(order)}",)


def memory_of(resolved: TransformerResolved, settings: TransformerSettings) -> MemoryReport:
    """Memory of every rank of a job without transformations against its capacity."""
    return memory_report(resolved, TransformerWorkload(settings))


def memory_report(resolved: TransformerResolved, workload: TransformerWorkload) -> MemoryReport:
    """Memory of every rank of a job against its capacity."""
    return MemoryReport(workload.memory(), capacities_bytes(resolved.cluster, resolved.world_size))


def simulated(resolved: TransformerResolved, found: DivisionFound) -> dict[str, float]:
    """Results of a run of the scenario with a division, as JSON."""
    analysis = simulation_of(with_changes(resolved, found.settings), Silent()).analysis
    return {"iteration_time_s": analysis.iteration.seconds, "exposed_comm": analysis.breakdown.exposed_comm_share}


def settings_in_words(settings: TransformerSettings, resolved: TransformerResolved) -> tuple[str, ...]:
    """``KEY=VALUE`` settings that give a scenario these sizes, without settings that it has already."""
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
    if section.compression is not None and sizes.pipeline == 1:
        found.append("workload.compression=null")
    given = [value_at(resolved.document.data, key) for key in (BATCH, SEQUENCES)]
    if found and given == [None, None]:  # the default depends on the sizes
        found.append(f"workload.sequences={sequences_of(settings)}")
    return tuple(found)
