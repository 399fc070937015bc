"""Remedies for a network that does not fit: blocks out of core, or a part of the network on each rank.

The search tries a plan for blocks (KARMA) first, then a plan with weights in host memory. Then it tries partitions,
fewest first: the same batch on the same ranks, with more images for each replica, all images in flight at once (GPipe)
or as few as 1F1B needs; then a smaller batch, with the images of a rank for each replica. If no number of partitions
fits on these ranks, it tries twice, four times... the number of ranks with the same batch.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TypeAlias, cast

from inputs.errors import InfeasibleError, InputError
from inputs.keys import KeyPath, key_text, value_at
from scenarios.capacity import MemoryReport
from scenarios.convnet.filling import BATCH, KEYS_OF, OF_BLOCKS, PARTITIONED, PER_RANK
from scenarios.convnet.out_of_core import KARMA_SETTING, WEIGHTS_SETTING, PlanningBlocks, leaves_device
from scenarios.convnet.settings import ConvnetResolved, memory_of, workload_of
from scenarios.fitting import FittingSettings, refusal_with
from scenarios.machine import machine_of
from scenarios.progress import Progress
from scenarios.resolve import asked_again
from workloads.graph.divisors import divisors

MOST_PARTITIONS = 64
"""Largest tried number of partitions."""

MICRO_BATCHES = "workload.micro_batches="
Attempt: TypeAlias = tuple[tuple[str, ...], str]
"""Settings, and a note on the settings."""


def refusal(resolved: ConvnetResolved, memory: MemoryReport, progress: Progress | None = None) -> InfeasibleError:
    """The error for a job that does not fit: the numbers of each tier, and remedies.

    Args:
        memory: memory of the job, or of the plan for its blocks that is nearest to fitting.
        progress: display of the search for remedies; None: no search.
    """
    planned = resolved.scenario.workload.out_of_core == "karma"
    why = "no plan of its blocks fits; the nearest to fitting" if planned else "a rank needs more memory than it has"
    if progress is None:
        return refusal_with(resolved.name, memory, why, ())
    progress.stage("looking for settings that fit")
    return refusal_with(resolved.name, memory, why, remedies(resolved))


def remedies(resolved: ConvnetResolved) -> list[FittingSettings]:
    """A plan for blocks, and the fewest partitions with each batch; on more ranks if none fit on these."""
    own, ranks = resolved.scenario.workload.held_partitions, resolved.world_size
    more = [count for count in divisors(ranks) if own < count <= MOST_PARTITIONS]
    cut = [
        _first(resolved, _same_batch(resolved, [own, *more] if own > 1 else more)),
        _first(resolved, _smaller_batch(resolved, more)),
    ]
    if not any(cut):
        cut = [_first(resolved, _more_ranks(resolved))]
    found = [remedy for remedy in (_first(resolved, _blocks(resolved)), *cut) if remedy is not None]
    fewer = None if found else _first(resolved, _fewer_images(resolved))
    return found if fewer is None else [fewer]


def _first(resolved: ConvnetResolved, attempts: Iterable[Attempt]) -> FittingSettings | None:
    """The first of some settings with which the job fits."""
    for settings, note in attempts:
        try:
            memory = _least_memory(cast("ConvnetResolved", asked_again(resolved, settings)))
        except InputError:  # settings that the job does not allow
            continue
        if memory.fits:
            return FittingSettings(settings, memory, note)
    return None


def _least_memory(resolved: ConvnetResolved) -> MemoryReport:
    """Memory of a job, or of the plan for its blocks that is nearest to fitting."""
    machine = machine_of(resolved)
    if leaves_device(resolved.scenario.workload):
        planning = PlanningBlocks(resolved, machine)
        return planning.report(planning.least())
    return memory_of(resolved, workload_of(resolved, machine))


def _blocks(resolved: ConvnetResolved) -> Iterator[Attempt]:
    """KARMA's plan on the same ranks, with weights on the device and in host memory."""
    null = _null(resolved, ["out_of_core_plan"])
    yield (KARMA_SETTING, *null), ""
    yield (KARMA_SETTING, WEIGHTS_SETTING, *null), ""


def _same_batch(resolved: ConvnetResolved, counts: Iterable[int]) -> Iterator[Attempt]:
    """Partitions on the same ranks; with 1F1B, enough micro-batches that a rank has fewer images in flight."""
    for count in counts:
        images = max(resolved.global_batch_size * count // resolved.world_size, 1)
        settings = _cut(resolved, count, resolved.global_batch_size)
        yield settings, ""
        kept = [setting for setting in settings if not setting.startswith(MICRO_BATCHES)]
        for parts in (parts for parts in divisors(images) if parts > count):
            yield (*kept, "workload.schedule=1f1b", f"{MICRO_BATCHES}{parts}"), ""


def _smaller_batch(resolved: ConvnetResolved, counts: Iterable[int]) -> Iterator[Attempt]:
    """Partitions on the same ranks, with the images of a rank for each replica."""
    own = resolved.scenario.workload.held_partitions
    for count in counts:
        batch = resolved.global_batch_size * own // count
        yield _cut(resolved, count, batch), f"{batch:,} images"


def _fewer_images(resolved: ConvnetResolved) -> Iterator[Attempt]:
    """The same job with half of the images, a quarter..."""
    batch = resolved.global_batch_size // 2
    while batch >= resolved.world_size:
        images = f"{key_text(PER_RANK)}={batch // resolved.world_size}"
        yield (images if _given(resolved, PER_RANK) else f"{key_text(BATCH)}={batch}",), f"{batch:,} images"
        batch //= 2


def _more_ranks(resolved: ConvnetResolved) -> Iterator[Attempt]:
    """One replica for each of the job's present ranks, each on several ranks, with the same batch."""
    ranks, node = resolved.world_size, resolved.cluster.node
    count = 2 * resolved.scenario.workload.held_partitions
    while count <= MOST_PARTITIONS:
        there = ranks * count
        in_nodes = resolved.document.data.get("nodes") is not None
        size = f"nodes={-(-there // node.ranks)}" if in_nodes else f"world_size={there}"
        yield (*_cut(resolved, count, resolved.global_batch_size, there), size), f"{there:,} {node.rank_name}"
        count *= 2


def _cut(resolved: ConvnetResolved, count: int, batch: int, ranks: int | None = None) -> tuple[str, ...]:
    """The strategy with a number of partitions, without keys of other strategies, partitions or plans."""
    dropped = ["layers_per_partition", "micro_batches", *OF_BLOCKS]
    dropped += [key for start, keys in KEYS_OF.items() if not PARTITIONED.startswith(start) for key in keys]
    null = _null(resolved, dropped)
    replicas = max((ranks or resolved.world_size) // count, 1)
    images = f"{key_text(PER_RANK)}={batch // replicas}"
    size = images if _given(resolved, PER_RANK) else f"{key_text(BATCH)}={batch}"
    return (f"workload.strategy={PARTITIONED}", f"workload.partitions={count}", size, *null)


def _null(resolved: ConvnetResolved, keys: Iterable[str]) -> tuple[str, ...]:
    """Settings that remove given keys, as far as the scenario has them."""
    return tuple(f"workload.{key}=null" for key in keys if _given(resolved, ("workload", key)))


def _given(resolved: ConvnetResolved, path: KeyPath) -> bool:
    """Whether the scenario's file or a setting has a key."""
    return value_at(resolved.document.data, path) is not None
