"""Refusal of a captured job that does not fit, with clusters whose GPUs have enough memory.

A recording cannot be divided otherwise: other batches, shards or recomputation are captured again.
"""

from __future__ import annotations

from collections.abc import Iterator

from hardware_specs import Cluster, load_cluster
from hardware_specs.catalogs import CATALOGS
from inputs.errors import InfeasibleError, InputError
from scenarios.capacity import MemoryReport, capacities_bytes, in_bytes
from scenarios.captured.filling import CapturedResolved, settings_of
from scenarios.captured.sections import fullest
from scenarios.changes import in_place_of
from scenarios.fitting import FittingSettings, refusal_with
from scenarios.resolve import asked_again

MOST_CLUSTERS = 3
"""Clusters that a refusal names: of all with enough memory, the ones with least."""


def refusal(resolved: CapturedResolved, memory: MemoryReport) -> InfeasibleError:
    """The error of a job that does not fit: the peak with its module, the numbers of each tier, and remedies."""
    peak = fullest(settings_of(resolved).job).memory
    size = in_bytes(sum(peak.peak.values()))
    where = f"in {peak.module}" if peak.module else "outside all modules"
    why = f"tensors of the fullest rank peak at {size} at task {peak.task:,}, {where}"
    return refusal_with(resolved.name, memory, why, list(_clusters(resolved, memory)))


def _clusters(resolved: CapturedResolved, memory: MemoryReport) -> Iterator[FittingSettings]:
    """Shipped clusters on which the job fits, one of each GPU that is no slower, with least memory first."""
    left, size = MOST_CLUSTERS, f"world_size={resolved.world_size}"
    for room, name, ranks in _with_room(resolved.cluster, memory.most_bytes):
        changes = (f"cluster={name}",) if ranks == resolved.cluster.node.ranks else (f"cluster={name}", size)
        settings = in_place_of(resolved.document, changes)
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


def _with_room(own: Cluster, needed_bytes: float) -> list[tuple[float, str, int]]:
    """Usable memory, name and ranks of a node of shipped clusters with more memory, least memory first.

    Of clusters with the same GPU one is named: the one with least usable memory, of equal ones first one with as many
    ranks in a node as the job's cluster.
    """
    found: dict[str, tuple[float, bool, str, int]] = {}
    for name in CATALOGS["cluster"].names():
        cluster = load_cluster(name)
        gpu, now = cluster.node.gpu, own.node.gpu
        if gpu is None or (now is not None and gpu.memory_bytes_per_s.value < now.memory_bytes_per_s.value):
            continue
        room = capacities_bytes(cluster, cluster.node.ranks)["hbm"]
        if room >= needed_bytes:
            entry = (room, cluster.node.ranks != own.node.ranks, name, cluster.node.ranks)
            found[gpu.name] = min(entry, found.get(gpu.name, entry))
    return [(room, name, ranks) for room, _, name, ranks in sorted(found.values())]
