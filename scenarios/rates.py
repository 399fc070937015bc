"""Rates of kernels and collectives on the idle machine, for planners."""

from __future__ import annotations

import numpy as np

from hardware_specs import Cluster
from simulator.lowering import Machine
from simulator.network.collectives import Call
from simulator.operators import CollectiveOp, EmbeddingLookup
from simulator.program import IntArray
from workloads.dlrm.model.settings import DlrmSettings
from workloads.dlrm.sharding.costs import Rates

COSTED_BYTES = 256e6
"""Message size at which planners take the rates of collectives, bytes: that of the published rates."""

LOOKUP_ROW_BYTES = 256
"""Row size at which planners take the lookup rate of a CPU, bytes: 64 numbers."""


def planning_rates(cluster: Cluster, machine: Machine, settings: DlrmSettings) -> Rates:
    """The rates of a placed cluster."""
    rank, local = np.arange(settings.world_size), settings.local_world_size
    world, node, cross = np.zeros_like(rank), rank // local, rank % local
    return Rates(
        embedding=_embedding_bytes_per_s(cluster, machine),
        all_to_all=_algbw_bytes_per_s(machine, "all_to_all", world),
        all_reduce=_algbw_bytes_per_s(machine, "all_reduce", world),
        node_reduce_scatter=_algbw_bytes_per_s(machine, "reduce_scatter", node),
        cross_all_to_all=_algbw_bytes_per_s(machine, "all_to_all", cross),
        host=_host_bytes_per_s(machine),
        ssd=_ssd_bytes_per_s(cluster),
    )


def _embedding_bytes_per_s(cluster: Cluster, machine: Machine) -> float:
    """Rate of embedding kernels on a rank's memory: of its GPU, or of a large lookup on its cores."""
    if cluster.node.gpu is not None:
        return cluster.node.accelerator.embedding_bytes_per_s
    rows = COSTED_BYTES / LOOKUP_ROW_BYTES
    lookup = EmbeddingLookup(rows, COSTED_BYTES, 0.0, 0.0, 1.0)
    return COSTED_BYTES / max(float(machine.compute.duration_s(lookup)), 1e-12)


def _host_bytes_per_s(machine: Machine) -> float:
    """Rate of a rank's reads of host memory while all others read too, B/s; infinite where it computes there."""
    topology, rates = machine.topology, machine.collectives.rates
    if "pcie" not in rates:
        return float("inf")
    behind = {port: topology.ports[port] for port in ("switch_down", "ddr") if port in topology.ports}
    shares = [rates[level.name] / int(np.bincount(level.link).max(initial=1)) for level in behind.values()]
    return min([rates["pcie"], *shares])


def _ssd_bytes_per_s(cluster: Cluster) -> float:
    """Rate at which a rank reads its node's SSDs while all others do so too, B/s; infinite without any."""
    ssd = cluster.node.ssd
    return float("inf") if ssd is None else ssd.read_bytes_per_s.value / cluster.node.ranks


def _algbw_bytes_per_s(machine: Machine, op: CollectiveOp, instance: IntArray) -> float:
    """Rate of a collective on the slowest instance of a communicator; infinite for one rank, which moves nothing."""
    size = np.full((1, 1), COSTED_BYTES)
    times = [machine.collectives.time(Call(op, block, size)).seconds for block in machine.collectives.blocks(instance)]
    seconds = max(float(time.max()) for time in times)
    return COSTED_BYTES / seconds if seconds > 0 else float("inf")
