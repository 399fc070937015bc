"""Remedies for a network that does not fit: partitions, with which each rank holds a part of it.

Tried are, fewest partitions first: the same batch on the same ranks, whose replicas then have more images each, all in
flight at once (GPipe) or as few as 1F1B needs; as many images for a replica as a rank had, which is a smaller batch;
and where no number of partitions on these ranks fits, twice, four times... as many ranks with the same batch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TypeAlias, cast

from inputs.errors import InputError
from inputs.keys import KeyPath, key_text, value_at
from scenarios.capacity import MemoryReport, capacities_bytes
from scenarios.convnet.filling import BATCH, KEYS_OF, PARTITIONED, PER_RANK
from scenarios.convnet.section import ConvnetScenario
from scenarios.fitting import FittingSettings
from scenarios.machine import machine_of
from scenarios.resolve import asked_again
from scenarios.resolved import ResolvedScenario
from simulator.lowering import Machine
from workloads.family import Model, Workload
from workloads.graph.divisors import divisors

MOST_PARTITIONS = 64
"""Largest number of partitions that is tried."""

Resolved: TypeAlias = ResolvedScenario[Model, ConvnetScenario]
Maker: TypeAlias = Callable[[Resolved, Machine], Workload]
"""Makes the workload of a scenario on a machine."""
Attempt: TypeAlias = tuple[tuple[str, ...], str]
"""Settings, and a note on them."""


def memory_of(resolved: Resolved, workload: Workload) -> MemoryReport:
    """Memory of every rank against its capacity."""
    return MemoryReport(workload.memory(), capacities_bytes(resolved.cluster, resolved.world_size))


def remedies(resolved: Resolved, make: Maker) -> list[FittingSettings]:
    """The fewest partitions with which the job fits, with each batch; on more ranks where there are none."""
    own, ranks = resolved.scenario.workload.held_partitions, resolved.world_size
    counts = [count for count in divisors(ranks) if own < count <= MOST_PARTITIONS]
    found = [_first(resolved, make, attempts(resolved, counts)) for attempts in (_same_batch, _smaller_batch)]
    here = [remedy for remedy in found if remedy is not None]
    if here:
        return here
    there = _first(resolved, make, _more_ranks(resolved))
    return [] if there is None else [there]


def _first(resolved: Resolved, make: Maker, attempts: Iterable[Attempt]) -> FittingSettings | None:
    """The first of some attempts with which the job fits."""
    for settings, note in attempts:
        try:
            there = cast("Resolved", asked_again(resolved, settings))
            memory = memory_of(there, make(there, machine_of(there)))
        except InputError:  # the job cannot have them
            continue
        if memory.fits:
            return FittingSettings(settings, memory, note)
    return None


def _same_batch(resolved: Resolved, counts: Iterable[int]) -> Iterator[Attempt]:
    """Partitions on the same ranks; with 1F1B, so many micro-batches that a rank has fewer images in flight."""
    for count in counts:
        images = max(resolved.global_batch_size * count // resolved.world_size, 1)
        settings = _cut(resolved, count, resolved.global_batch_size)
        yield settings, ""
        for parts in (parts for parts in divisors(images) if parts > count):
            yield (*settings, "workload.schedule=1f1b", f"workload.micro_batches={parts}"), ""


def _smaller_batch(resolved: Resolved, counts: Iterable[int]) -> Iterator[Attempt]:
    """Partitions on the same ranks, with as many images for a replica as a rank had."""
    own = resolved.scenario.workload.held_partitions
    for count in counts:
        batch = resolved.global_batch_size * own // count
        yield _cut(resolved, count, batch), f"{batch:,} images"


def _more_ranks(resolved: Resolved) -> Iterator[Attempt]:
    """A replica on so many ranks as now, for each of them, with the same batch."""
    ranks, node = resolved.world_size, resolved.cluster.node
    count = 2 * resolved.scenario.workload.held_partitions
    while count <= MOST_PARTITIONS:
        there = ranks * count
        in_nodes = resolved.document.data.get("nodes") is not None
        size = f"nodes={-(-there // node.ranks)}" if in_nodes else f"world_size={there}"
        yield (*_cut(resolved, count, resolved.global_batch_size, there), size), f"{there:,} {node.rank_name}"
        count *= 2


def _cut(resolved: Resolved, count: int, batch: int, ranks: int | None = None) -> tuple[str, ...]:
    """The strategy with so many partitions, without keys of the file that are of other strategies or partitions."""
    dropped = ["layers_per_partition", "micro_batches"]
    dropped += [key for start, keys in KEYS_OF.items() if not PARTITIONED.startswith(start) for key in keys]
    null = (f"workload.{key}=null" for key in dropped if _given(resolved, ("workload", key)))
    replicas = max((ranks or resolved.world_size) // count, 1)
    images = f"{key_text(PER_RANK)}={batch // replicas}"
    size = images if _given(resolved, PER_RANK) else f"{key_text(BATCH)}={batch}"
    return (f"workload.strategy={PARTITIONED}", f"workload.partitions={count}", size, *null)


def _given(resolved: Resolved, path: KeyPath) -> bool:
    """Whether the scenario's file, or a setting, has a key."""
    return value_at(resolved.document.data, path) is not None
