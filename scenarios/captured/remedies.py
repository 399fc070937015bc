"""Refusal of a captured job that does not fit, with clusters whose GPUs have enough memory.

A recording cannot be divided otherwise: other batches, shards or recomputation are captured again.
"""

from __future__ import annotations

from collections.abc import Iterator

from hardware_specs import load_cluster
from hardware_specs.catalogs import CATALOGS
from inputs.errors import InfeasibleError, InputError
from scenarios.capacity import MemoryReport, capacities_bytes, in_bytes
from scenarios.captured.filling import CapturedResolved, settings_of
from scenarios.captured.sections import fullest
from scenarios.changes import in_place_of
from scenarios.fitting import FittingSettings, refusal_with
from scenarios.resolve import asked_again

MOST_CLUSTERS = 3
"""Clusters that a refusal names: those with least memory of the ones with enough."""


def refusal(resolved: CapturedResolved, memory: MemoryReport) -> InfeasibleError:
    """The error of a job that does not fit: the peak with its module, the numbers of each tier, and remedies."""
    peak = fullest(settings_of(resolved).job).memory
    size = in_bytes(sum(peak.peak.values()))
    where = f"in {peak.module}" if peak.module else "outside all modules"
    why = f"tensors of the fullest rank peak at {size} at task {peak.task:,}, {where}"
    return refusal_with(resolved.name, memory, why, list(_clusters(resolved, memory)))


def _clusters(resolved: CapturedResolved, memory: MemoryReport) -> Iterator[FittingSettings]:
    """Shipped clusters on which the job fits, with least memory first."""
    found: list[tuple[float, str]] = []
    for name in CATALOGS["cluster"].names():
        cluster = load_cluster(name)
        room = capacities_bytes(cluster, resolved.world_size)["hbm"] if cluster.node.gpu is not None else 0.0
        if memory.most_bytes <= room and cluster.node.ranks == resolved.cluster.node.ranks:
            found.append((room, name))
    left = MOST_CLUSTERS
    for room, name in sorted(found):
        settings = in_place_of(resolved.document, (f"cluster={name}",))
        try:
            there = asked_again(resolved, settings)
        except InputError:  # its GPUs lack a precision of the job
            continue
        report = MemoryReport(memory.use, capacities_bytes(there.cluster, there.world_size))
        if report.fits:
            yield FittingSettings(settings, report, f"{in_bytes(room)} usable")
            left -= 1
        if not left:
            return
