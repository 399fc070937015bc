"""From timed kernels and collectives of this machine to a cluster that is this machine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from hardware_specs.cpu_kernels import CpuKernels, KernelClass, KernelCosts
from hardware_specs.loader import load_library
from hardware_specs.types import Cluster
from scenarios.progress import Progress
from simulator.compute.cpu import Caches, CpuModel, amounts_of, class_of
from simulator.operators import CollectiveCall, HostWork
from simulator.program import TaskGraph
from validation.collectives import MeasuredCollective, Predictor
from validation.cpu_fit import KERNELS, KernelRow, Row, fit_costs
from validation.fitting import fit_collectives

LINK_BYTES_PER_S = 10e9
"""What fractions of the way between ranks count from; what is fitted is the product."""
SMALL_BYTES = 65536
"""Collectives up to this size take no longer to issue for their size."""


@dataclass(frozen=True, slots=True)
class HostFacts:
    """What the system tells of the machine.

    Attributes:
        name: of the spec.
        cpu: the CPU's own name.
        vendor: as in specs.
        cores: cores that may be used.
        clock_hz: nominal clock.
        core_cache_bytes: last cache that a core has for itself.
        shared_cache_bytes: cache that cores share.
        memory_bytes: memory.
        most_ranks: ranks that it may hold.
        source: what measured it, when, with which versions.
    """

    name: str
    cpu: str
    vendor: str
    cores: int
    clock_hz: float
    core_cache_bytes: float
    shared_cache_bytes: float
    memory_bytes: float
    most_ranks: int
    source: str

    @property
    def caches(self) -> Caches:
        """The caches of a core."""
        return Caches(self.core_cache_bytes, self.shared_cache_bytes)


def fit_kernels(rows: Sequence[Row], facts: HostFacts) -> tuple[CpuKernels, ...]:
    """Costs of kernels for each number of threads that was measured."""
    return tuple(_of_threads(rows, threads, facts) for threads in sorted({int(row["threads"]) for row in rows}))


def _of_threads(rows: Sequence[Row], threads: int, facts: HostFacts) -> CpuKernels:
    timed = [KernelRow.of(row) for row in rows if row["threads"] == threads and row["kind"] in KERNELS]
    costs: dict[KernelClass, KernelCosts] = fit_costs(timed, facts.caches)
    return CpuKernels.model_validate(
        {
            "threads": threads,
            "source": facts.source,
            "grade": "derived",
            "note": "least squares of relative errors over kernels of the reference trainer",
            "core_cache_bytes": _read(f"{int(facts.core_cache_bytes)} B"),
            "shared_cache_bytes": _read(f"{int(facts.shared_cache_bytes)} B"),
            "collective_cores": _collective_cores(rows, threads),
            "costs": costs,
        }
    )


def _read(value: object, note: str = "") -> dict[str, object]:
    return {"value": value, "source": "the operating system", "grade": "read", "note": note}


def _assumed(value: object, note: str) -> dict[str, object]:
    return {"value": value, "source": "no measurement", "grade": "assumed", "note": note}


def _collective_cores(rows: Sequence[Row], threads: int) -> float:
    """CPU time over time in large collectives of ranks that have their cores to themselves, the upper quartile.

    What others do on the machine lengthens the time but not the CPU time.
    """
    shares = [
        float(np.max(row["cores"])) / threads
        for row in rows
        if row["kind"] not in KERNELS and row["bytes"] > SMALL_BYTES and row["threads"] == threads and row["alone"]
    ]
    return round(min(1.0, float(np.quantile(shares, 0.75))), 3) if shares else 0.0


def issue_s(rows: Sequence[Row]) -> float:
    """What it takes to issue a collective, seconds; 0 where none was timed."""
    found = [min(row["issue_s"]) for row in rows if row["kind"] not in KERNELS and row["bytes"] <= SMALL_BYTES]
    return float(np.median(found)) if found else 0.0


def with_host_costs(kernels: CpuKernels, launch_s: float, collective_s: float, noise_pct: float) -> CpuKernels:
    """The kernels with what the framework adds to each, and what it takes to issue a collective."""
    told = KernelCosts.model_validate(
        {
            "seconds_per": {"launch": f"{launch_s:.5g} s", "collective": f"{collective_s:.5g} s"},
            "rows": 1,
            "median_error_pct": 0.0,
            "worst_error_pct": 0.0,
            "noise_pct": round(noise_pct, 2),
        }
    )
    return kernels.model_copy(update={"costs": {**kernels.costs, "host": told}})


def launch_s(graph: TaskGraph, compute: CpuModel, iteration_s: float) -> float:
    """What each launch takes beside its kernel when an iteration of one rank takes ``iteration_s``; not below 0."""
    works = [work for work in graph.programs[0].work if not isinstance(work, CollectiveCall)]
    launches = sum(work.launches for work in works if isinstance(work, HostWork))
    kernels_s = sum(float(np.max(compute.duration_s(work))) for work in works)
    return max(0.0, (iteration_s - kernels_s) / launches)


def host_cluster(rows: Sequence[Row], facts: HostFacts, kernels: Sequence[CpuKernels], progress: Progress) -> Cluster:
    """The cluster: one node, its kernels, its collectives fitted to the rows."""
    cluster = Cluster.model_validate(_cluster_of(facts, kernels, _memory_bytes_per_s(rows, facts)))
    timed = collective_rows(rows, kernels)
    if not timed:
        return cluster
    fitted = fit_collectives(cluster, timed, facts.source, progress, launches=False)
    return cluster.model_copy(update={"fitted": fitted})


def collective_rows(rows: Sequence[Row], kernels: Sequence[CpuKernels]) -> list[MeasuredCollective]:
    """Timed collectives as they would be if every rank had its cores to itself.

    Ranks that take turns on cores ask for more than there is: then a collective takes that much longer
    (`simulator.lowering.cores`).
    """
    shares = {known.threads: known.collective_cores for known in kernels}
    return [
        MeasuredCollective(
            op=row["kind"],
            nodes=1,
            ranks_per_node=int(row["ranks"]),
            bytes=float(row["bytes"]),
            time_s=float(np.median(row["times_s"])) / max(1.0, row["ranks_per_core"] * shares.get(row["threads"], 0.0)),
            source="gloo",
        )
        for row in rows
        if row["kind"] not in KERNELS and row["times_s"]
    ]


def errors_pct(rows: Sequence[Row], cluster: Cluster, caches: Caches) -> list[float]:
    """Predicted over measured, less 1, of every row, per cent."""
    kernels = {known.threads: known for known in cluster.node.cpu.kernels}
    timed = collective_rows(rows, cluster.node.cpu.kernels)
    seconds = iter(Predictor(cluster).seconds(timed) / np.array([row.time_s for row in timed])) if timed else iter(())
    return [_error_pct(row, kernels[row["threads"]], caches) if row["kind"] in KERNELS else
            100.0 * (float(next(seconds)) - 1.0) for row in rows if row["times_s"]]  # fmt: skip


def _error_pct(row: Row, kernels: CpuKernels, caches: Caches) -> float:
    timed = KernelRow.of(row)
    kind = class_of(timed.operator)
    costs = kernels.costs[kind].seconds_per if kind is not None else {}
    counted = amounts_of(timed.operator, caches).items()
    predicted = sum(float(np.max(count)) * costs.get(name, 0.0) for name, count in counted)
    return 100.0 * (predicted / timed.seconds - 1.0)


def _memory_bytes_per_s(rows: Sequence[Row], facts: HostFacts) -> float:
    """The best rate of a pass over more than the caches hold; 10 GB/s where none was."""
    passes = [
        (row["read_bytes"] + row["write_bytes"]) * row["ranks"] / float(np.median(row["times_s"]))
        for row in rows
        if row["kind"] == "stream" and row["read_bytes"] + row["write_bytes"] > facts.shared_cache_bytes / 2
    ]
    return max(passes, default=LINK_BYTES_PER_S)


def _cluster_of(facts: HostFacts, kernels: Sequence[CpuKernels], memory_bytes_per_s: float) -> dict[str, Any]:
    def measured(value: object, note: str) -> Mapping[str, object]:
        return {"value": value, "source": facts.source, "grade": "derived", "note": note}

    return {
        "name": facts.name,
        "description": f"This machine: {facts.cores} cores of {facts.cpu}. {facts.source}",
        "node": {
            "name": facts.name,
            "cpu": {
                "name": facts.name,
                "description": facts.cpu,
                "vendor": facts.vendor,
                "cores": _read(facts.cores),
                "base_clock_hz": _read(f"{facts.clock_hz:.6g} Hz"),
                "turbo_clock_hz": _read(f"{facts.clock_hz:.6g} Hz", "the system tells one clock"),
                "host_time_factor": _assumed(1.0, "host times are among the kernels' costs"),
                "kernels": [known.model_dump(mode="json") for known in kernels],
            },
            "sockets": _read(1, "all cores that may be used count as one socket"),
            "ranks_per_socket": _assumed(facts.most_ranks, "with more ranks than cores these take turns"),
            "ddr_bytes": _read(f"{int(facts.memory_bytes)} B"),
            "ddr_bytes_per_s": measured(f"{memory_bytes_per_s:.5g} B/s", "the fastest pass over more than caches hold"),
            "socket_link_bytes_per_s": _assumed(f"{LINK_BYTES_PER_S:.5g} B/s", "fitted fractions are of this"),
            "nics": {
                "nic": {
                    "name": "loopback",
                    "bytes_per_s": _assumed(f"{LINK_BYTES_PER_S:.5g} B/s", "not used: there is one node"),
                    "latency_s": _assumed("1 us", "not used: there is one node"),
                },
                "count": _assumed(1, "not used: there is one node"),
            },
        },
        "max_nodes": _read(1),
        "fabric": {
            "kind": "fat_tree",
            "network": "ethernet",
            "spine_oversubscription": _assumed(1, "not used: there is one node"),
            "hop_latency_s": _assumed("1 us", "not used: there is one node"),
        },
        "collectives": load_library("gloo").model_dump(mode="json"),
        "calibration": [],
    }
