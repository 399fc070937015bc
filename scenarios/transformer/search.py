"""The divisions of a transformer as a space to search (`scenarios.search`): those that do not fit recompute more."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from inputs.keys import value_at
from scenarios.capacity import MemoryReport, capacities_bytes
from scenarios.machine import machine_of
from scenarios.progress import Silent
from scenarios.runner import simulation_of
from scenarios.search import BestFirst
from scenarios.transformer.divisions import divisions, more_recomputation, sequences_of
from scenarios.transformer.filling import BATCH, SEQUENCES, settings_of_resolved
from scenarios.transformer.least_time import LeastTime
from scenarios.transformer.typed import TransformerResolved, with_changes
from simulator.lowering import Machine
from workloads.transformer.family import TransformerWorkload
from workloads.transformer.settings import TransformerSettings


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


@dataclass(slots=True)
class DivisionSpace:
    """Divisions of a job; see `scenarios.search.SearchSpace`.

    Attributes:
        settings: job of the scenario.
    """

    resolved: TransformerResolved
    settings: TransformerSettings
    machine: Machine
    _least: LeastTime = field(init=False)

    def __post_init__(self) -> None:
        self._least = LeastTime(self.machine)

    def choices(self) -> Iterator[TransformerSettings]:
        """Divisions without recomputation."""
        return divisions(self.settings, self.resolved.cluster.node.ranks)

    def least_s(self, choice: TransformerSettings) -> float:
        """See `scenarios.transformer.least_time`."""
        return self._least(choice)

    def again(self, choice: TransformerSettings) -> TransformerSettings | None:
        """The division with more recomputation."""
        more = more_recomputation(choice)
        return replace(choice, recompute=more[0]) if more else None

    def looked_at(self, choice: TransformerSettings, *, own: bool = False) -> DivisionFound:
        """A division, not simulated."""
        memory, sizes = memory_of(self.resolved, choice), choice.sizes
        chunks = sizes.virtual_stages * choice.microbatches
        return DivisionFound(
            settings=settings_in_words(choice, self.resolved),
            tensor=sizes.tensor,
            pipeline=sizes.pipeline,
            context=sizes.context,
            data=sizes.data,
            virtual_stages=sizes.virtual_stages,
            sharding=sizes.sharding,
            micro_batch=choice.micro_batch,
            microbatches=choice.microbatches,
            recompute=choice.recompute,
            memory_bytes=memory.most_bytes,
            excess_bytes=memory.worst_excess_bytes,
            items_bytes=memory.fullest_items(),
            least_time_s=self._least(choice),
            bubble=(sizes.pipeline - 1) / (chunks + sizes.pipeline - 1),
            own=own,
        )


def division_search(resolved: TransformerResolved) -> BestFirst[TransformerSettings, DivisionFound]:
    """The search among the divisions of a scenario."""
    own = settings_of_resolved(resolved)
    return BestFirst(DivisionSpace(resolved, own, machine_of(resolved)), own)


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
