"""Times of kernels and collectives on the idle machine, for planners."""

from __future__ import annotations

import numpy as np

from hardware_specs import Cluster
from simulator.collective_calls import CollectiveOp
from simulator.lowering import Machine
from simulator.network.collectives import Call
from workloads.dlrm.model.settings import DlrmSettings
from workloads.dlrm.sharding.costs import MachineTimes, Ranks


def machine_times(cluster: Cluster, machine: Machine, settings: DlrmSettings) -> MachineTimes:
    """The engine's models of a placed cluster, for planners."""
    rank, local = np.arange(settings.world_size), settings.local_world_size
    members = {"world": np.zeros_like(rank), "node": rank // local, "cross_node": rank % local}

    def collective_s(op: CollectiveOp, ranks: Ranks, size: float) -> float:
        """Seconds on the slowest instance of a communicator."""
        amount = np.full((1, 1), size)
        blocks = machine.collectives.blocks(members[ranks])
        return max(float(machine.collectives.time(Call(op, block, amount)).seconds.max()) for block in blocks)

    return MachineTimes(
        machine.compute.without_starts().duration_s,
        collective_s,
        _host_bytes_per_s(machine),
        _ssd_bytes_per_s(cluster),
    )


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
