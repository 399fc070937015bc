"""Every operation on every shipped cluster: no refusal, no rate above the ports, none faster between nodes."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

from hardware_specs import load_cluster
from hardware_specs.catalogs import CATALOGS
from simulator.network.model import CollectiveModel
from simulator.network.topology import Topology
from tests.network_machines import idle_call

CLUSTERS = sorted(CATALOGS["cluster"].names())
OPS = ("all_reduce", "all_gather", "reduce_scatter", "all_to_all", "broadcast", "reduce")
SIZES = (2.0**10, 2.0**20, 2.0**30)
"""1 KiB, 1 MiB, 1 GiB."""
SLOWEST_S = {2.0**10: 1e-3, 2.0**20: 1e-2, 2.0**30: 8.0}
"""No machine here takes longer: the slowest, 1.25 Gb/s of Ethernet, takes 6.9 s for 1 GiB."""
ROUNDING = 1.0 - 1e-6


@cache
def seconds(name: str, nodes: int, op: str, size: float) -> float:
    """Time of a collective over all ranks of some nodes."""
    cluster = load_cluster(name)
    model = CollectiveModel.of(cluster, Topology.build(cluster, nodes * cluster.node.ranks))
    return float(np.max(model.time(idle_call(model, op, size)).seconds))


def least_seconds(name: str, nodes: int, op: str, size: float) -> float:
    """What the ports take for the bytes that no algorithm avoids.

    A member sends or receives all but its own part, an all_reduce twice where no switch adds; a node exchanges with the
    other one what the other half of the ranks needs.
    """
    node = load_cluster(name).node
    members = nodes * node.ranks
    passes = 2.0 if op == "all_reduce" and not (node.scale_up and node.scale_up.in_switch_reduction) else 1.0
    own = 1.0 if op in ("broadcast", "reduce") else (members - 1) / members
    found = [0.0]
    if node.scale_up is not None and nodes == 1:  # on several nodes a member also has a NIC
        found.append(passes * own * size / node.scale_up.bytes_per_s.value)
    if node.scale_up is None and node.gpu is not None:
        found.append(passes * own * size / node.pcie_bytes_per_s.value)
    domain = node.ranks if node.scale_up is None or not node.scale_up.domain_gpus else node.scale_up.domain_gpus.value
    if nodes == 2 and domain < members:
        out = node.nics.count.value * node.nics.nic.bytes_per_s.value
        crossing = {"all_to_all": node.ranks / 2, "all_gather": 0.5, "reduce_scatter": 0.5}.get(op, 1.0)
        found.append(crossing * size / out)
    return max(found)


@pytest.mark.parametrize("nodes", [1, 2])
@pytest.mark.parametrize("name", CLUSTERS)
def test_each_operation_takes_as_long_as_the_ports_need_and_not_for_ever(name, nodes):
    """AWS p5 was refused by every command once: its ring over nodes took longer than a point of its spec said."""
    if nodes * load_cluster(name).node.ranks == 1:
        return  # a node of one rank has no collective inside
    for op in OPS:
        for size in SIZES:
            found = seconds(name, nodes, op, size)
            assert ROUNDING * least_seconds(name, nodes, op, size) <= found < SLOWEST_S[size], (op, size)


@pytest.mark.parametrize("op", ["all_reduce", "all_gather", "reduce_scatter", "all_to_all", "broadcast"])
@pytest.mark.parametrize("name", CLUSTERS)
def test_bus_bandwidth_is_no_higher_on_two_nodes_than_inside_one(name, op):
    """But for what leaves the ports inside for the NICs: a part in g of a ring, half of an all_to_all.

    Where NVLink joins both nodes they are one; a machine of one node has no second one.
    """
    cluster = load_cluster(name)
    node = cluster.node
    are_one = node.scale_up is not None and node.scale_up.domain_gpus is not None
    if cluster.max_nodes.value == 1 or node.ranks == 1 or are_one:
        return
    one, two = (busbw(name, nodes, op) for nodes in (1, 2))
    left = (2 * node.ranks - 1 if op == "all_to_all" else node.ranks) / (node.ranks - 1)
    assert two <= left * one, (one, two)


def busbw(name: str, nodes: int, op: str) -> float:
    """Bus bandwidth of 1 GiB."""
    members = nodes * load_cluster(name).node.ranks
    factor = {"all_reduce": 2.0 * (members - 1) / members, "broadcast": 1.0}.get(op, (members - 1) / members)
    return factor * SIZES[-1] / seconds(name, nodes, op, SIZES[-1])
