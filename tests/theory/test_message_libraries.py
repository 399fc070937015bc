"""Collectives of host messages against formulas written here, to 1 ps per phase; decision tables against their source.

The machine has one process per node: start-up 0.3 us, software of a message 0.3 us (eager) or 0.9 us (rendezvous),
a wire of 0.93 us, copies at 11.145 GB/s, ports of 12.5 GB/s.
"""

from __future__ import annotations

import numpy as np
import pytest

from hardware_specs import load_cluster
from hardware_specs.catalogs import CATALOGS
from hardware_specs.library import CollectiveLibrary
from inputs.validate import validate
from inputs.yaml_lines import load_yaml
from simulator.network import ALGORITHMS, CollectiveModel, Topology
from simulator.network.messages import chosen
from tests.network_machines import changed, idle_call, sourced, with_library

US = 1e-6
COPY, PORT = 11.145e9, 12.5e9
WIRE = 0.93 * US
EAGER, RENDEZVOUS = 0.3 * US + WIRE, 0.9 * US + 3 * WIRE
START, POST = 0.3 * US, 0.3 * US


def library(name: str) -> CollectiveLibrary:
    return validate(CollectiveLibrary, load_yaml(CATALOGS["library"].find(name)))


@pytest.fixture(scope="module")
def hosts():
    """One port per node and Open MPI; nothing fitted."""
    knl = load_cluster("deepbench_knl")
    nics = knl.to_dict()["node"]["nics"] | {"count": sourced(1)}
    return changed(with_library(knl, "open_mpi"), {"nics": nics})


def phases(cluster, ranks, op, size, **algorithms):
    model = CollectiveModel.of(cluster, Topology.build(cluster, ranks), algorithms)
    call = idle_call(model, op, size)
    timed = model.time(call)
    return timed, [(phase.latency_ps, phase.work_ps) for phase in model.phases(call, timed)[0]]


def picoseconds(*expected):
    return [tuple(pytest.approx(seconds * 1e12, abs=1) for seconds in phase) for phase in expected]


@pytest.mark.parametrize(("size", "hop"), [(4096.0, EAGER), (1e6, RENDEZVOUS)])
def test_recursive_doubling_of_four(hosts, size, hop):
    """Two exchanges of everything; each is added, and the first copies the buffer."""
    timed, found = phases(hosts, 4, "all_reduce", size, all_reduce="recursive_doubling")
    added_s = 1.5 * size / COPY
    first = (START + hop + POST, size / PORT + size / COPY + added_s)
    assert found == picoseconds(first, (hop + POST, size / PORT + added_s))
    assert timed.protocol == ("eager" if hop == EAGER else "rendezvous")


def test_six_members_fold_to_four(hosts):
    """Two of six give their buffers away first and get the result in the end; four exchange halves and quarters."""
    size = 1e7
    _, found = phases(hosts, 6, "all_reduce", size)
    hop = RENDEZVOUS + POST
    fold = (START + hop, size / PORT + size / COPY + 1.5 * size / COPY)
    down = [(hop, part / PORT + 1.5 * part / COPY) for part in (size / 2, size / 4)]
    up = [(hop, part / PORT) for part in (size / 4, size / 2)]
    assert found == picoseconds(fold, *down, *up, (hop, size / PORT))


@pytest.mark.parametrize("size", [1024.0, 1e8])
def test_posts_of_a_linear_all_to_all_go_on_beside_its_transfers(hosts, size):
    """12 members: 11 messages. Small ones are paced by their posts, large ones by the port."""
    _, found = phases(hosts, 12, "all_to_all", size)
    hop = EAGER if size / 12 < 8192 else RENDEZVOUS
    moved_s = max(11 * POST, 11 / 12 * size / PORT)
    assert found == picoseconds((START + hop, moved_s + size / 12 / COPY))


def test_direct_all_reduce_of_eight(hosts):
    size = 4e5
    _, found = phases(hosts, 8, "all_reduce", size, all_reduce="direct")
    moved_s, part = 7 / 8 * size / PORT, size / 8
    first = (START + RENDEZVOUS, moved_s + part / COPY + 1.5 * 7 * part / COPY)
    assert found == picoseconds(first, (RENDEZVOUS, moved_s))


@pytest.mark.parametrize(("op", "passes"), [("all_reduce", 2), ("reduce_scatter", 2), ("all_gather", 1)])
@pytest.mark.parametrize("size", [64000.0, 1e8])
def test_a_ring_in_segments_of_five(hosts, op, passes, size):
    """Each pass goes four hops with both halves of a part; a reduce_scatter is an all_reduce."""
    _, found = phases(hosts, 5, op, size, **{op: "segmented_ring"})
    hop = EAGER if size / 5 / 2 < 8192 else RENDEZVOUS
    copied_s = size / 5 / COPY + (1.5 * 4 / 5 * size / COPY if passes == 2 else 0.0)
    assert found == picoseconds((START + 2 * passes * 4 * hop, passes * 4 / 5 * size / PORT + copied_s))


@pytest.mark.parametrize("ranks", [3, 5, 6, 7, 12, 24, 31])
def test_folding_moves_every_contribution_once(hosts, ranks):
    """What is sent at each step, added up along the messages, makes every member hold every contribution."""
    model = CollectiveModel.of(hosts, Topology.build(hosts, ranks), {"all_reduce": "recursive_doubling"})
    call = idle_call(model, "all_reduce", 64.0)
    held = np.eye(ranks)
    for stage in model.time(call).algorithm.stages(call):
        target = stage.pattern.receiver
        sent = target != np.arange(ranks)
        before = held.copy()
        adds = np.any(stage.added_bytes)
        for source in np.flatnonzero(sent):
            held[target[source]] = before[source] + (before[target[source]] if adds else 0.0)
    assert np.all(held == 1.0)


@pytest.mark.parametrize(
    ("name", "op", "ranks", "size", "expected"),
    [
        # Open MPI 8efebee7, coll_tuned_decision_fixed.c
        ("open_mpi", "all_reduce", 8, 4096, "recursive_doubling"),
        ("open_mpi", "all_reduce", 8, 2**20, "halving_doubling"),
        ("open_mpi", "all_reduce", 3, 2**17, "ring"),
        ("open_mpi", "all_reduce", 100, 2**17, "recursive_doubling"),
        ("open_mpi", "all_reduce", 40, 2**17, "halving_doubling"),
        ("open_mpi", "all_to_all", 64, 64 * 512, "bruck"),
        ("open_mpi", "all_to_all", 64, 64 * 2048, "linear"),
        ("open_mpi", "all_to_all", 64, 64 * 2**18, "pairwise"),
        ("open_mpi", "all_to_all", 300, 300 * 2**16, "pairwise"),
        ("open_mpi", "all_gather", 12, 12 * 64, "bruck"),
        # MPICH 6a79bf65, generic.json
        ("mpich", "all_reduce", 16, 8, "recursive_doubling"),
        ("mpich", "all_reduce", 16, 9, "halving_doubling"),
        ("mpich", "all_to_all", 16, 16 * 256, "bruck"),
        ("mpich", "all_to_all", 4, 4 * 256, "linear"),
        ("mpich", "all_to_all", 16, 16 * 32768, "linear"),
        ("mpich", "all_to_all", 16, 16 * 32769, "pairwise"),
        ("mpich", "all_gather", 12, 1024, "ring"),
        ("mpich", "broadcast", 7, 2**20, "binomial"),
        ("mpich", "broadcast", 16, 12288, "binomial"),
        ("mpich", "broadcast", 16, 2**19, "scatter_doubling"),
        ("mpich", "broadcast", 12, 2**19, "scatter_ring"),
        ("mpich", "broadcast", 16, 2**19 + 1, "scatter_ring"),
        # MVAPICH2 0c069887, alltoall_tuning.c
        ("mvapich2", "all_to_all", 64, 64 * 4096, "linear"),
        ("mvapich2", "all_to_all", 64, 64 * 8192, "pairwise"),
        # gloo cc441984, oneCCL 5f701048
        ("gloo", "all_reduce", 16, 8, "segmented_ring"),
        ("gloo", "all_to_all", 16, 2**20, "linear"),
        ("gloo", "reduce_scatter", 16, 8, "segmented_ring"),
        ("one_ccl", "all_reduce", 16, 8192, "recursive_doubling"),
        ("one_ccl", "all_reduce", 16, 2**20, "direct"),
        ("one_ccl", "all_reduce", 16, 2**20 + 1, "ring"),
    ],
)
def test_decision_tables_say_what_their_source_says(hosts, name, op, ranks, size, expected):
    model = CollectiveModel.of(hosts, Topology.build(hosts, ranks))
    block = idle_call(model, op, 0.0).block
    assert chosen(library(name).messages.choices[op], block, size).use == expected


@pytest.mark.parametrize("name", [name for name in CATALOGS["library"].names() if library(name).messages])
def test_libraries_name_algorithms_that_there_are(name):
    choices = library(name).messages.choices
    used = {f"{op}/{rule.use}" for op, table in choices.items() for rule in table.rules}
    assert used <= set(ALGORITHMS.names())
