"""NCCL's own model, against its formulas worked out by hand from the published tables (GB/s and microseconds)."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.choosers import with_chooser
from hardware_specs import load_cluster
from hardware_specs.types import Cluster
from inputs.errors import InputError
from simulator.network import CollectiveModel
from simulator.network.collectives import Call
from simulator.network.nccl_tuner import NcclTuner
from simulator.network.size_table import placed_group
from tests.network_machines import pcie_box

US, GB = 1e-6, 1e9
BIG = 2.0**30


def tuned(cluster):
    """The cluster with NCCL's own chooser."""
    return with_chooser(cluster, "nccl_tuner")


def call_on(cluster, ranks, op, size, per_node=None):
    _, block = placed_group(cluster, ranks, per_node)
    return Call(op, block, np.full((1, 1), float(size)))


def predicted_us(name, ranks, op, size, algorithm, protocol, per_node=None):
    cluster = load_cluster(name) if isinstance(name, str) else name
    call = call_on(cluster, ranks, op, size, per_node)
    seconds = NcclTuner.of(cluster, cluster.collectives.nccl).seconds(call, algorithm, protocol)
    return None if seconds is None else seconds / US


def test_ring_all_reduce_of_one_a100_node():
    """Simple: 8.4 + 14 x 3.4 us, 240 GB/s x 8 / 14. LL: half of that, capped at 87.7. LL128: 0.92, at most 12 x 20."""
    assert predicted_us("dgx_a100_80", 8, "all_reduce", BIG, "ring", "simple") == pytest.approx(56 + BIG / 137142.857)
    assert predicted_us("dgx_a100_80", 8, "all_reduce", BIG, "ring", "ll") == pytest.approx(
        6.6 + 14 * 0.6 + BIG / (87.7e3 * 8 / 14)
    )
    assert predicted_us("dgx_a100_80", 8, "all_reduce", BIG, "ring", "ll128") == pytest.approx(
        14 + 14 * 1.9 + BIG / (240e3 * 0.92 * 8 / 14)
    )


def test_ring_all_reduce_of_two_nodes_goes_at_the_pace_of_the_proxy():
    """AMD posts in 2 us, Intel in 1, Simple pays thrice; 1.4 times the latency from 64 B per channel and rank."""
    amd = 8.4 + 28 * 6 + 2 * 14
    intel = 8.4 + 28 * 3.4 + 2 * 14
    for name, latency_us in (("dgx_a100_80", amd), ("zionex", intel)):
        bandwidth = 8 * 24e3 * 16 / 30
        small = 8 * 16 * 63
        assert predicted_us(name, 16, "all_reduce", small, "ring", "simple") == pytest.approx(
            latency_us + small / bandwidth
        )
        assert predicted_us(name, 16, "all_reduce", BIG, "ring", "simple") == pytest.approx(
            1.4 * latency_us + BIG / bandwidth
        )


def test_one_gpu_on_each_node_has_the_trees_network_hop():
    """LL: 5 us instead of 2.7; the cap of Intel on three nodes or more is 20.4 GB/s."""
    expected = 6.6 + 7 * 5 + BIG / (min(20.4e3, 24e3 / 2) * 8 / 7)
    assert predicted_us("zionex", 8, "all_gather", BIG, "ring", "ll", per_node=1) == pytest.approx(expected)


def test_tree_all_reduce():
    """Half of min(0.92 x 192, 8 x 17.8) on 4 nodes; LL divides by 3.8; the factor by size at 1 MiB is 0.5 and 0.6."""
    between, bus = 2 * 2, min(0.92 * 192e3, 8 * 17.8e3)
    size = 2.0**20
    assert predicted_us("zionex", 32, "all_reduce", size, "tree", "simple") == pytest.approx(
        8.4 + 2 * 7 * 4 + between * 14 + size / (bus / 2 * 0.5)
    )
    assert predicted_us("zionex", 32, "all_reduce", size, "tree", "ll") == pytest.approx(
        6.8 + 2 * 7 * 0.6 + between * 5 + size / (min(bus / 3.8, 20.4e3) / 2 * 0.5)
    )
    assert predicted_us("zionex", 32, "all_reduce", size, "tree", "ll128") == pytest.approx(
        14 + 2 * 7 * 1.25 + between * 8.5 + size / (min(bus * 120 / 128, 160e3) / 2 * 0.6)
    )


def test_pat_and_broadcast():
    """PAT on 16 nodes: 8 + 4 x 14 / 3.5 + 16 x 2.8 us and 3/4 of a channel of 24 GB/s. A chain of 8: 8 hops."""
    assert predicted_us("zionex", 16, "all_gather", BIG, "pat", "simple", per_node=1) == pytest.approx(
        68.8 + BIG / (0.75 * 24e3)
    )
    assert predicted_us("zionex", 8, "broadcast", BIG, "ring", "simple") == pytest.approx(8.4 + 8 * 3.4 + BIG / 240e3)


def test_nvls_of_an_h100_node():
    """25 us; 360 GB/s x 0.85 x 15 / 16, twice that for an all_reduce."""
    bus = 360e3 * 0.85 * 15 / 16
    assert predicted_us("dgx_h100", 8, "all_reduce", BIG, "nvls", "simple") == pytest.approx(
        25 + BIG / (2 * bus * 8 / 14)
    )
    assert predicted_us("dgx_h100", 8, "all_gather", BIG, "nvls", "simple") == pytest.approx(25 + BIG / bus)


def test_nvls_tree_and_collnet_of_h100_nodes():
    """On 4 nodes 8 channels of 45 GB/s, capped at 45.5 each; 8 channels of 8 GPUs reduce in the network."""
    nodes = 2 * 2 * 20.9
    inside = 2 * 360e3 * 0.85 * 15 / 16
    assert predicted_us("dgx_h100", 32, "all_reduce", BIG, "nvls_tree", "simple") == pytest.approx(
        25 + nodes + BIG / (min(inside, 360e3, 8 * 45.5e3) * 32 / 62)
    )
    assert predicted_us("dgx_h100", 16, "all_reduce", BIG, "nvls_tree", "simple") == pytest.approx(
        25 + nodes / 2 + BIG / (min(inside, 2 * 360e3, 8 * 57.7e3) * 16 / 30)
    )
    assert predicted_us("dgx_h100", 32, "all_reduce", BIG, "collnet", "simple") == pytest.approx(
        2 * (3.7 + 0.4 * 7) + 31 + BIG / (0.85 * 360e3 / 2)
    )


def test_what_it_takes_on_an_h100_node():
    """A ring with LL when small, the switch when large; without NVLink never LL128."""
    model = CollectiveModel.of(tuned(load_cluster("dgx_h100")), placed_group(load_cluster("dgx_h100"), 8)[0])
    taken = {}
    for size in (1024.0, BIG):
        timed = model.time(call_on(model.cluster, 8, "all_reduce", size))
        taken[size] = timed.algorithm.name, timed.protocol
    assert taken == {1024.0: ("ring", "ll"), BIG: ("nvls", "simple")}
    assert predicted_us(pcie_box(load_cluster("zionex")), 8, "all_reduce", BIG, "ring", "ll128") is None


def test_switches_reduce_for_nobody_before_hopper():
    """The tuner's table has no efficiency of NVLS on A100: it is no option, not one without bandwidth."""
    data = load_cluster("zionex").to_dict()
    data["node"]["scale_up"]["in_switch_reduction"] = True
    cluster = tuned(Cluster.model_validate(data))
    assert predicted_us(cluster, 8, "all_reduce", BIG, "nvls", "simple") is None
    model = CollectiveModel.of(cluster, placed_group(cluster, 8)[0])
    assert model.time(call_on(cluster, 8, "all_reduce", BIG)).algorithm.name != "nvls"


def test_four_gpus_of_a_mesh_have_the_links_between_them():
    """DGX-1: four of six links lead to the other three: 4 channels of 20 GB/s."""
    assert predicted_us("dgx1_v100", 4, "all_reduce", BIG, "ring", "simple") == pytest.approx(
        8.4 + 6 * 3.4 + BIG / (80e3 * 4 / 6)
    )


@pytest.mark.parametrize("op", ["all_reduce", "all_gather", "all_to_all"])
@pytest.mark.parametrize("name", ["zionex", "dgx_h100", "dgx1_v100"])
def test_it_is_never_faster_than_the_fastest_and_takes_one_of_the_options(name, op):
    fastest, own = load_cluster(name), tuned(load_cluster(name))
    slower = 0
    for ranks in (8, 64):
        topology, _ = placed_group(fastest, ranks)
        free, bound = CollectiveModel.of(fastest, topology), CollectiveModel.of(own, topology)
        if fastest.fitted is None:  # the same links: the points would give each its own fractions
            bound = CollectiveModel(own, topology, free.calibration, bound.transport, {}, free.rates)
        for power in range(4, 33, 2):
            call = call_on(fastest, ranks, op, 2.0**power)
            times = [float(option.seconds.max()) for option in free.options(call)]
            taken = float(bound.time(call).seconds.max())
            assert any(taken == pytest.approx(time) for time in times)
            assert taken >= min(times)
            slower += taken > min(times) * 1.001
    assert slower or op != "all_reduce", "a choice by assumptions is not always the best"


def test_calibration_points_come_out_with_it_too():
    """A share that is derived is that of the option that is taken."""
    zionex = load_cluster("zionex")
    points = tuple(point.model_copy(update={"share": None}) for point in zionex.calibration)
    cluster = tuned(zionex.model_copy(update={"calibration": points}))
    for point in cluster.calibration:
        topology, _ = placed_group(cluster, point.ranks, point.ranks_per_node)
        timed = CollectiveModel.of(cluster, topology).time(call_on(cluster, point.ranks, point.op, point.bytes))
        assert float(timed.seconds.max()) == pytest.approx(point.time_s, rel=1e-5)


def test_a_gpu_without_an_architecture_is_told():
    data = tuned(load_cluster("zionex")).to_dict()
    data["node"]["gpu"]["architecture"] = None
    cluster = Cluster.model_validate(data)
    with pytest.raises(InputError, match="needs the architecture of the GPU") as caught:
        CollectiveModel.of(cluster, placed_group(cluster, 8)[0])
    assert "node.gpu.architecture" in str(caught.value)
