"""Infinity Fabric, a link between each pair of GPUs: closed forms, and the published all_reduces of MI300X."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from hardware_specs import load_cluster
from hardware_specs.links import ScaleUp
from inputs.errors import InputError
from inputs.validate import validate
from inputs.yaml_lines import Document
from simulator.network.collectives import Call
from simulator.network.model import CollectiveModel
from simulator.network.size_table import placed_group
from tests.network_machines import sourced

GIB = 2.0**30
LINK = 64e9
"""Rate of a link of MI300X, B/s per direction."""


def bare(name="mi300x"):
    """The machine without points: links at their full rate."""
    return load_cluster(name).model_copy(update={"calibration": ()})


def seconds(cluster, op, ranks, size, algorithm=None, **sizes):
    """Time of a collective of ranks on one node."""
    topology, block = placed_group(cluster, ranks, ranks)
    model = CollectiveModel.of(cluster, topology, {op: algorithm} if algorithm else None)
    return float(np.max(model.time(Call(op, block, np.full((1, 1), size), **sizes)).seconds))


def transfer(cluster, op, ranks, size, **sizes):
    """Twice the seconds that a size takes more than half of it: latency cancels."""
    halves = {key: value / 2.0 if key == "send_bytes" else value for key, value in sizes.items()}
    return 2.0 * (seconds(cluster, op, ranks, size, **sizes) - seconds(cluster, op, ranks, size / 2.0, **halves))


@pytest.mark.parametrize("ranks", [2, 4, 8])
def test_an_all_to_all_takes_the_bytes_of_a_pair_over_one_link(ranks):
    """S / n goes to each other member, over a link of its own: the time falls with the number of members."""
    assert transfer(bare(), "all_to_all", ranks, 8 * GIB) == pytest.approx(8 * GIB / ranks / LINK, rel=1e-3)


@pytest.mark.parametrize("ranks", [2, 4, 8])
def test_bus_bandwidth_of_a_ring_is_that_of_the_links_to_its_members(ranks):
    """All links among the members, as in RCCL's 7 rings of each direction over 8 GPUs; n - 1 links of a port."""
    busbw = 2.0 * (ranks - 1) / ranks * 8 * GIB / transfer(bare(), "all_reduce", ranks, 8 * GIB)
    assert busbw == pytest.approx((ranks - 1) * LINK, rel=2e-2)


def test_a_single_message_uses_one_link():
    assert transfer(bare(), "sendrecv", 2, 8 * GIB) == pytest.approx(8 * GIB / LINK, rel=1e-3)


def test_the_largest_pair_sets_the_time_of_an_uneven_all_to_all():
    """Member 0 receives half of everything: half of a member's bytes pass one link, which takes the time."""
    cluster, size = bare(), 8 * GIB
    weights = np.array([[0.5, *[0.5 / 7] * 7]])
    uneven = {"send_bytes": np.full((1, 8), size), "receive_weights": weights}

    assert transfer(cluster, "all_to_all", 8, size, **uneven) == pytest.approx(size / 2 / LINK, rel=1e-3)
    even = {"send_bytes": np.full((1, 8), size), "receive_weights": np.full((1, 8), 1 / 8)}
    assert transfer(cluster, "all_to_all", 8, size, **even) == pytest.approx(transfer(cluster, "all_to_all", 8, size))


@pytest.mark.parametrize(("ranks", "busbw"), [(2, 47.671), (8, 312.912)])
def test_published_all_reduces_of_mi300x_are_met(ranks, busbw):
    """ml-engineering, 4 GiB: both rows are points of the cluster, which the model reproduces."""
    found = 2.0 * (ranks - 1) / ranks * 4 * GIB / seconds(load_cluster("mi300x"), "all_reduce", ranks, 4 * GIB) / 1e9
    assert found == pytest.approx(busbw, rel=1e-3)


def test_links_of_the_next_generation_are_faster():
    """76.5 over 64 GB/s at the same share of the links."""
    old, new = (transfer(load_cluster(name), "all_to_all", 8, 8 * GIB) for name in ("mi300x", "mi350x"))
    assert old / new == pytest.approx(76.5 / 64.0, rel=1e-3)


def test_without_a_switch_nothing_is_added_there():
    fabric = {"kind": "infinity_fabric", "bytes_per_s": sourced("448 GB/s")}
    assert len(validate_scale_up(fabric).mesh(8)) == 28
    for key, value in {"in_switch_reduction": True, "domain_gpus": sourced(16)}.items():
        with pytest.raises(InputError, match="no switches"):
            validate_scale_up(fabric | {key: value})


def validate_scale_up(data):
    return validate(ScaleUp, Document(data, {}, Path("made_up.yaml")))


def test_rccl_has_no_algorithms_of_a_switch_and_no_tuner_of_nccl():
    """An algorithm that it lacks is refused by name, and so is the choice of NCCL's tuner."""
    cluster = load_cluster("mi300x")
    library = cluster.collectives
    assert library.nccl.nvls is library.nccl.pat is library.nccl.collnet is None
    assert library.backend == "nccl"

    one_gpu_each, block = placed_group(cluster, 4, 1)
    model = CollectiveModel.of(cluster, one_gpu_each, {"all_gather": "pat"})
    call = Call("all_gather", block, np.full((1, 1), GIB))
    with pytest.raises(InputError, match="no latencies of this algorithm"):
        model.time(call)

    unlisted = library.model_copy(update={"nccl": library.nccl.model_copy(update={"algorithms": {}})})
    model = CollectiveModel.of(cluster.model_copy(update={"collectives": unlisted}), one_gpu_each)
    assert "pat" not in {a.name for a in model.candidates(call)}
    assert model.time(call).algorithm.name == "ring"

    tuned = library.model_copy(update={"nccl": library.nccl.model_copy(update={"chooser": "nccl_tuner"})})
    with pytest.raises(InputError, match="architecture of the GPU, one of NVIDIA"):
        CollectiveModel.of(cluster.model_copy(update={"collectives": tuned}), one_gpu_each)
