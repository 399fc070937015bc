"""Tried remedies for a job that does not fit: narrower tables, another planner, offloaded tables, more nodes."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from itertools import combinations
from typing import TypeAlias

from inputs.errors import InputError
from scenarios.resolve import ResolvedScenario
from scenarios.types import MAX_WORLD_SIZE

Fits: TypeAlias = Callable[[ResolvedScenario], bool]
"""Whether a plan of a scenario is found that fits."""

SPREADING = ("greedy", "row_wise")
"""Planners that are tried in the place of others: they spread tables that fill a rank."""

GROWTH, LARGEST = 1.3, 64
"""Steps in which more nodes are tried, and up to how many times those of the scenario."""


def remedies(resolved: ResolvedScenario, fits: Fits, least_nodes: int) -> list[str]:
    """Settings with each of which the job fits, or of which it needs several, and the least number of nodes.

    Args:
        resolved: the scenario that does not fit.
        fits: tries one.
        least_nodes: below this many nodes all tables together do not fit.
    """
    changes = list(_changes(resolved))
    found = _with_fewest([settings for settings in changes if settings], resolved, fits)
    return found + _more_nodes(resolved, fits, least_nodes)


def _changes(resolved: ResolvedScenario) -> Iterator[str]:
    """Single settings that save memory, of those that the scenario has not got already."""
    sharding = resolved.scenario.workload.sharding
    if resolved.scenario.precision.tables == "fp32":
        yield "precision.tables=fp16"
    yield from (f"workload.sharding.planner={name}" for name in SPREADING if name != sharding.planner)
    if sharding.compute_kernels == ("fused",) and sharding.plan is None:
        beyond = ("fused_uvm_caching",) if resolved.cluster.node.ssd is None else ("fused_uvm_caching", "key_value")
        for number in range(1, len(beyond) + 1):
            yield f"workload.sharding.compute_kernels=[{','.join(('fused', *beyond[:number]))}]"


def _with_fewest(changes: list[str], resolved: ResolvedScenario, fits: Fits) -> list[str]:
    """The sets of as few changes as it takes with which the job fits, each as ``--set`` options."""
    for size in range(1, len(changes) + 1):
        sets = [chosen for chosen in combinations(changes, size) if len({_key(c) for c in chosen}) == size]
        found = [" ".join(f"--set {c}" for c in chosen) for chosen in sets if _tried(resolved, chosen, fits)]
        if found:
            return found
    return []


def _key(setting: str) -> str:
    return setting.partition("=")[0]


def _tried(resolved: ResolvedScenario, settings: tuple[str, ...], fits: Fits) -> bool:
    try:
        return fits(resolved.changed(settings))
    except InputError:  # a setting that this scenario cannot have
        return False


def _more_nodes(resolved: ResolvedScenario, fits: Fits, least_nodes: int) -> list[str]:
    """The smallest number of nodes with which the job fits, the samples per rank kept."""

    def enough(nodes: int) -> bool:
        batch = resolved.batch_on(nodes * gpus)
        return _tried(resolved, (f"nodes={nodes}", f"workload.global_batch_size={batch}"), fits)

    gpus = resolved.cluster.node.ranks
    low, most = resolved.nodes, min(LARGEST * resolved.nodes, MAX_WORLD_SIZE // gpus)
    high = max(low + 1, least_nodes)
    low = max(low, least_nodes - 1)
    while high <= most and not enough(high):
        low, high = high, math.ceil(high * GROWTH)
    if high > most:
        return []
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    there = int(resolved.cluster.max_nodes.value)
    size = f"--set nodes={high} ({high * gpus} GPUs, {resolved.local_batch_size} samples each)"
    return [size if high <= there else f"{size}, more than the {there} nodes of {resolved.cluster.name}"]
