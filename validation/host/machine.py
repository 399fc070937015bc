"""A host as a cluster of one node: facts of the operating system, memory bandwidth, kernels, collectives."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from hardware_specs.bounds import Bandwidth, clipped
from hardware_specs.cpu_kernels import CpuKernels
from hardware_specs.loader import load_library
from hardware_specs.types import Cluster
from scenarios.progress import Progress
from simulator.compute.cpu_amounts import Caches
from validation.host.collective_costs import LIBRARY, fitted_links
from validation.host.ranges import Clock, Cores, Size, Text
from validation.host.timed_kernels import Row

LINK_BYTES_PER_S = 10e9
"""Rate to which the fitted fractions of links between ranks refer, bytes/s; only the product has a meaning."""


@dataclass(frozen=True, slots=True)
class HostFacts:
    """Facts of a host.

    Attributes:
        name: name of the spec.
        cpu: model name of the CPU.
        vendor: maker of the CPU.
        cores: usable cores.
        clock_hz: nominal clock.
        core_cache_bytes: last cache that belongs to one core (L2).
        shared_cache_bytes: cache that cores share (L3).
        memory_bytes: size of the memory, all cores together.
        source: command, date and versions of the measurement.
        shared_cache_note: how the size of the shared cache is known; empty: the operating system reports it.
    """

    name: Text
    cpu: Text
    vendor: Literal["intel", "amd", "other"]
    cores: Cores
    clock_hz: Clock
    core_cache_bytes: Size
    shared_cache_bytes: Size
    memory_bytes: Size
    most_ranks: Cores
    source: Text
    shared_cache_note: str = ""

    @property
    def caches(self) -> Caches:
        """Caches of the machine."""
        return Caches(self.core_cache_bytes, self.shared_cache_bytes)


def host_cluster(rows: Sequence[Row], facts: HostFacts, kernels: Sequence[CpuKernels], progress: Progress) -> Cluster:
    """The cluster: one node with these kernels, and links between ranks that are fitted to the rows."""
    memory_bytes_per_s = clipped(_memory_bytes_per_s(rows, facts), Bandwidth)
    cluster = Cluster.model_validate(_cluster_of(facts, kernels, memory_bytes_per_s))
    return cluster.model_copy(update={"fitted": fitted_links(cluster, rows, facts.source, progress)})


def with_kernels(cluster: Cluster, kernels: Sequence[CpuKernels]) -> Cluster:
    """The cluster with other kernels."""
    cpu = cluster.node.cpu.model_copy(update={"kernels": tuple(kernels)})
    return cluster.model_copy(update={"node": cluster.node.model_copy(update={"cpu": cpu})})


def with_constants(cluster: Cluster, changes: Mapping[str, float]) -> Cluster:
    """The cluster with other constants of its kernels (`hardware_specs.cpu_kernels.CpuKernels`)."""
    return with_kernels(cluster, [known.model_copy(update=changes) for known in cluster.node.cpu.kernels])


def shared_cache(facts: HostFacts) -> dict[str, object]:
    """The shared cache as a sourced quantity of a spec."""
    found = reported(f"{int(facts.shared_cache_bytes)} B", facts.shared_cache_note)
    return {**found, "source": facts.source, "grade": "derived"} if facts.shared_cache_note else found


def reported(value: object, note: str = "") -> dict[str, object]:
    """A quantity that the operating system reports."""
    return {"value": value, "source": "the operating system", "grade": "read", "note": note}


def _assumed(value: object, note: str) -> dict[str, object]:
    return {"value": value, "source": "no measurement", "grade": "assumed", "note": note}


def _memory_bytes_per_s(rows: Sequence[Row], facts: HostFacts) -> float:
    """Fastest pass over more data than the caches hold, bytes/s; `LINK_BYTES_PER_S` if none was timed."""
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
                "cores": reported(facts.cores),
                "base_clock_hz": reported(f"{facts.clock_hz:.6g} Hz"),
                "turbo_clock_hz": reported(f"{facts.clock_hz:.6g} Hz", "the system reports one clock"),
                "host_time_factor": _assumed(1.0, "host times are among the kernels' costs"),
                "kernels": [known.model_dump(mode="json") for known in kernels],
            },
            "sockets": reported(1, "all cores that may be used count as one socket"),
            "ranks_per_socket": _assumed(facts.most_ranks, "with more ranks than cores, ranks share cores"),
            "ddr_bytes": reported(f"{int(facts.memory_bytes)} B"),
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
        "max_nodes": reported(1),
        "fabric": {
            "kind": "fat_tree",
            "network": "ethernet",
            "spine_oversubscription": _assumed(1, "not used: there is one node"),
            "hop_latency_s": _assumed("1 us", "not used: there is one node"),
        },
        "collectives": load_library(LIBRARY).model_dump(mode="json"),
        "calibration": [],
    }
