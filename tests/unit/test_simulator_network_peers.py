"""What a host passes on between GPUs on PCIe: the rates of `peer_bytes_per_s` and `far_peer_bytes_per_s`."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from hardware_specs import load_cluster
from hardware_specs.types import Cluster
from scenarios.uncertainty.machine import UNMEASURED_PEERS, machine_constants
from scenarios.uncertainty.usage import CallUse, Usage
from simulator.network import CollectiveModel, Topology
from simulator.network.calibration import calibrate
from simulator.network.peers import peer_shares
from tests.network_machines import idle_call, pcie_box, sourced

UPLINK, FAR_LINK = 15.75e9, 20.8e9
SIZE = 8 * 2.0**30
"""So large that starts and hops are below a thousandth."""


def box(nics=2, **peers):
    """8 GPUs on 4 switches and 2 sockets, with rates between peers as given."""
    data = pcie_box(load_cluster("zionex")).to_dict()
    data["node"]["pcie_tree"] |= {f"{name}_bytes_per_s": sourced(rate) for name, rate in peers.items()}
    data["node"]["nics"]["count"] = sourced(nics)
    return Cluster.model_validate(data)


def busbw(cluster, op="all_reduce", nodes=1, algorithm="ring"):
    ranks = nodes * cluster.node.ranks
    model = CollectiveModel.of(cluster, Topology.build(cluster, ranks), {op: algorithm})
    factor = {"all_reduce": 2.0}.get(op, 1.0) * (ranks - 1) / ranks
    return SIZE / float(model.time(idle_call(model, op, SIZE)).seconds.max()) * factor


@pytest.mark.parametrize(
    ("peers", "expected"),
    [
        ({"peer": "6 GB/s"}, 6e9),
        ({"far_peer": "2 GB/s"}, 2e9),
        ({"peer": "6 GB/s", "far_peer": "2 GB/s"}, 2e9),
        ({"peer": "3 GB/s", "far_peer": "4 GB/s"}, 3e9),
    ],
)
def test_a_ring_goes_at_the_least_of_what_the_host_passes_on(peers, expected):
    """One flow leaves each switch and one each socket: each carries the whole ring."""
    assert busbw(box(**peers)) == pytest.approx(expected, rel=2e-3)


def test_messages_to_all_cross_the_sockets_at_several_gpus():
    """4 GPUs have 4 of 7 partners on the other socket: 16 / 7 flows of 2 GB/s carry 4 x 4 / 8 of the bytes."""
    expected = 16 / 7 * 2e9 * (8 / 16) * 7 / 8
    assert busbw(box(far_peer="2 GB/s"), "all_to_all", algorithm="grouped") == pytest.approx(expected, rel=2e-3)


def test_rates_above_the_links_change_nothing():
    assert busbw(box(peer="90 GB/s", far_peer="90 GB/s")) == busbw(box())
    assert peer_shares(box(peer="90 GB/s").node, "ring", 8, 1) == {"switch": 1.0}


def test_links_keep_their_rate_for_copies():
    slow = box(peer="6 GB/s", far_peer="2 GB/s")
    rates = CollectiveModel.of(slow, Topology.build(slow, 8)).rates
    assert rates["switch"] == pytest.approx(UPLINK * slow.node.pcie_fraction.value)
    assert rates["socket"] == FAR_LINK


def test_rings_of_one_nic_cross_the_sockets_one_way():
    """With a NIC for each socket half of the rings cross each way, with one all of them the same way."""
    assert busbw(box(nics=1, far_peer="2 GB/s"), nodes=2) == pytest.approx(2e9, rel=2e-3)
    assert busbw(box(nics=2, far_peer="2 GB/s"), nodes=2) == pytest.approx(4e9, rel=2e-3)


def test_nvlink_takes_the_traffic_off_the_host():
    assert peer_shares(load_cluster("dgx_h100").node, "ring", 8, 1) == {}


@pytest.mark.parametrize("rate", ["0 GB/s", "-3 GB/s", "6 GB", "fast"])
@pytest.mark.parametrize("name", ["peer", "far_peer"])
def test_rates_that_cannot_be_are_refused(name, rate):
    with pytest.raises(ValidationError, match=rf"pcie_tree\.{name}_bytes_per_s"):
        box(**{name: rate})


@pytest.mark.parametrize("name", ["a30", "a40", "a100_pcie", "h100_pcie", "l40s"])
def test_every_shipped_server_without_nvlink_has_both_and_how_sure_they_are(name):
    """Measured on L40S, taken from other servers elsewhere: these may be a factor off, and the interval says so."""
    cluster = load_cluster(name)
    tree = cluster.node.pcie_tree
    uplink = tree.uplink_bytes_per_s.value * cluster.node.pcie_fraction.value
    assert 0.1 * uplink < tree.peer_bytes_per_s.value < uplink
    assert tree.far_peer_bytes_per_s.value < tree.peer_bytes_per_s.value
    assert (tree.peer_bytes_per_s.grade == "assumed") == (name != "l40s")

    usage = Usage([CallUse("all_reduce", 8, 1, 2.0**30, 1.0)])
    known = {w.constant.key: w.constant for w in machine_constants(cluster, calibrate(cluster), usage)["PCIe/DDR"]}
    sigma = known["cluster.node.pcie_tree.far_peer_bytes_per_s"].sigma
    assert (sigma >= UNMEASURED_PEERS) == (name != "l40s")
