"""Times of many calls at once are those of the model, one by one."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.choosers import with_chooser
from hardware_specs import load_cluster
from simulator.network.call_table import CallTable
from simulator.network.collectives import Call
from simulator.network.model import CollectiveModel
from simulator.network.size_table import placed_group
from tests.network_machines import pcie_box, tapered, through_host, torus, with_library

ZIONEX = load_cluster("zionex")
MACHINES = {
    "fitted": load_cluster("dgx_h100"),
    "mesh": load_cluster("v100_public"),
    "points": ZIONEX,
    "spine": tapered(ZIONEX, "fat_tree", leaf_nodes=1, oversubscription=4.0),
    "pcie": pcie_box(ZIONEX),
    "host memory": through_host(ZIONEX),
    "torus": torus(ZIONEX, [2, 2]),
    "messages": with_library(ZIONEX, "open_mpi"),
    "NCCL's tuner": with_chooser(load_cluster("dgx_h100"), "nccl_tuner"),
}
OPS = ("all_reduce", "all_gather", "reduce_scatter", "all_to_all", "broadcast", "sendrecv", "scatter")


def calls(cluster):
    for ranks, per_node in ((1, 1), (2, 2), (8, 8), (2, 1), (32, 8), (12, 4)):
        topology, block = placed_group(cluster, ranks, per_node)
        model = CollectiveModel.of(cluster, topology)
        for op in OPS:
            for size in (8.0, 65536.0, 2.0**30):
                yield model, Call(op, block, np.full((1, 1), size))


@pytest.mark.parametrize("name", MACHINES)
def test_each_call_takes_what_the_model_says(name):
    found = list(calls(MACHINES[name]))
    expected = [float(model.time(call).seconds.max()) for model, call in found]
    assert CallTable.of(found).seconds(MACHINES[name]).tolist() == pytest.approx(expected, rel=1e-12, abs=0.0)


def test_other_constants_change_the_times_as_they_change_the_models():
    """The table is gathered with one fit and asked with another."""
    cluster = MACHINES["fitted"]
    fit = cluster.fitted
    slower = fit.model_copy(
        update={
            "near_fraction": {op: f.model_copy(update={"value": f.value / 2}) for op, f in fit.near_fraction.items()},
            "post_factor": fit.post_factor.model_copy(update={"value": 3.0}),
            "copy_bytes_per_s": fit.copy_bytes_per_s.model_copy(update={"value": 1e11}),
        }
    )
    other = cluster.model_copy(update={"fitted": slower})
    expected = [float(model.time(call).seconds.max()) for model, call in calls(other)]
    table = CallTable.of(calls(cluster))
    assert table.seconds(other).tolist() == pytest.approx(expected, rel=1e-12, abs=0.0)
    assert np.any(table.seconds(other) > 1.5 * table.seconds(cluster))
