"""Remedies for a transformer that does not fit: settings that were tried, with the memory that ranks then need.

Tried are, on the same ranks, one key at a time (recomputation, shards, micro-batches, groups); else the division of
`scenarios.transformer.divisions` with the least time; then twice, four times... as many nodes with as many sequences
for each data group, with their own division or with the fastest one that fits.
"""

from __future__ import annotations

from collections.abc import Iterator

from inputs.errors import InfeasibleError, InputError
from scenarios.capacity import MemoryReport
from scenarios.changes import in_place_of
from scenarios.fitting import FittingSettings, refusal_with
from scenarios.transformer.divisions import more_recomputation
from scenarios.transformer.filling import settings_of_resolved
from scenarios.transformer.search import division_search, memory_of
from scenarios.transformer.typed import TransformerResolved, with_changes
from workloads.graph.divisors import divisors
from workloads.transformer.settings import TransformerSettings

LARGEST, MOST_RANKS = 64, 65_536
"""Largest factor on the scenario's nodes, and largest number of ranks, that is tried."""

SHARDING = ("optimizer", "hybrid", "fsdp")
"""Divisions of weights, gradients and state, from the one with least exchanges to the one with least memory."""


def refusal(resolved: TransformerResolved, memory: MemoryReport, why: str) -> InfeasibleError:
    """The error of a job that does not fit: the numbers of each tier, and remedies.

    Args:
        memory: memory of the job, or of the division that lacks least.
        why: reason of the failure.
    """
    return refusal_with(resolved.name, memory, why, remedies(resolved))


def remedies(resolved: TransformerResolved) -> list[FittingSettings]:
    """Remedies on the same ranks, and on more of them."""
    here = list(_one_key(resolved)) or _divided_otherwise(resolved, ())
    return [*here, *_more_nodes(resolved)]


def _one_key(resolved: TransformerResolved) -> Iterator[FittingSettings]:
    """The mildest value of each key with which the job fits."""
    for values in _values(settings_of_resolved(resolved)):
        found = (_tried(resolved, (setting,)) for setting in values)
        remedy = next((remedy for remedy in found if remedy), None)
        if remedy:
            yield remedy


def _values(settings: TransformerSettings) -> Iterator[list[str]]:
    """Settings of each key that need less memory, the mildest first."""
    sizes = settings.sizes
    parallel = "workload.parallel"
    yield [f"workload.recompute={name}" for name in more_recomputation(settings)]
    if not sizes.gathers:
        own = 0 if sizes.sharding == "none" else 1
        grouped = sizes.shard_size < sizes.reducing  # else hybrid sharding is FSDP
        yield [f"{parallel}.sharding={name}" for name in SHARDING[own:] if grouped or name != "hybrid"]
    yield [f"workload.micro_batch_size={size}" for size in divisors(settings.micro_batch)[-2::-1]]
    for key in ("tensor", "pipeline", "context"):
        yield [f"{parallel}.{key}={getattr(sizes, key) * factor}" for factor in (2, 4, 8, 16)]


def _divided_otherwise(resolved: TransformerResolved, before: tuple[str, ...], note: str = "") -> list[FittingSettings]:
    """The fastest division that fits."""
    search = division_search(resolved)
    found = next((found for found in search.in_order() if found.fits), None)
    if found is None:
        return []
    tried = _tried(resolved, found.settings)
    return [] if tried is None else [FittingSettings((*before, *found.settings), tried.memory, note)]


def _more_nodes(resolved: TransformerResolved) -> list[FittingSettings]:
    """The job on twice, four times... as many nodes."""
    gpus, there, factor = resolved.cluster.node.ranks, int(resolved.cluster.max_nodes.value), 2
    while factor <= LARGEST and factor * resolved.world_size <= MOST_RANKS:
        ranks = factor * resolved.world_size
        size = f"nodes={ranks // gpus}" if ranks % gpus == 0 else f"world_size={ranks}"
        settings = in_place_of(resolved.document, (size, f"workload.global_batch_size={resolved.batch_on(ranks)}"))
        note = f"{ranks:,} GPUs"
        if ranks > gpus * there:
            note += f", more than the {there} nodes of {resolved.cluster.name}"
        with_own = _tried(resolved, settings, note)
        if with_own:
            return [with_own]
        try:
            found = _divided_otherwise(with_changes(resolved, settings, fresh=True), settings, note)
        except InputError:  # the sizes do not go with so many ranks
            found = []
        if found:
            return found
        factor *= 2
    return []


def _tried(resolved: TransformerResolved, settings: tuple[str, ...], note: str = "") -> FittingSettings | None:
    """The job with settings; None if it does not fit or cannot have them."""
    try:
        there = with_changes(resolved, settings, fresh=True)
    except InputError:
        return None
    memory = memory_of(there, settings_of_resolved(there))
    return FittingSettings(settings, memory, note) if memory.fits else None
