"""Fewer bytes never take longer, on any shipped cluster with any operation."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from hardware_specs import load_cluster
from hardware_specs.catalogs import CATALOGS
from simulator.network.model import CollectiveModel
from simulator.network.topology import Topology
from tests.network_machines import idle_call

OPS = ("all_reduce", "all_gather", "reduce_scatter", "all_to_all", "broadcast", "reduce")
SIZES = 2.0 ** np.arange(8, 33)
"""256 B to 4 GiB."""


@pytest.mark.parametrize("nodes", [1, 2, 16])
@pytest.mark.parametrize("name", CATALOGS["cluster"].names())
def test_half_the_bytes_of_a_collective_take_no_longer(name, nodes):
    """Unless a library that chooses by a table of sizes takes another algorithm: MPICH's bruck at 256 B a rank."""
    cluster = load_cluster(name)
    model = CollectiveModel.of(cluster, Topology.build(cluster, nodes * cluster.node.ranks))
    by_table = cluster.collectives.messages is not None and cluster.collectives.messages.choices
    for op in OPS:
        found = [model.time(idle_call(model, op, size)) for size in SIZES]
        times_s = np.array([float(np.max(timed.seconds)) for timed in found])
        longer = times_s[:-1] > 1.01 * times_s[1:]
        same = np.array([a.algorithm is b.algorithm for a, b in pairwise(found)])
        assert not (longer & (same if by_table else True)).any(), (op, SIZES[1:][longer])
