"""Engine equals oracle on every kind of machine with every algorithm; links are never over capacity."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from benchmarks.oracle import compare
from benchmarks.random_programs import RandomProgram
from hardware_specs import load_cluster
from simulator.collective_calls import CollectiveCall
from simulator.lowering import build_machine, lower
from simulator.network import ALGORITHMS
from simulator.network.background import OtherJob
from simulator.network.collectives import Call
from simulator.operators import Copy, HostWork
from simulator.program import ProgramBuilder, TaskGraph
from tests.network_machines import (
    changed,
    pcie_box,
    sites,
    staged_box,
    tapered,
    through_host,
    torus,
    with_library,
)

ZIONEX = load_cluster("zionex")
MACHINES = {
    "rails": tapered(ZIONEX, "rail_optimised", leaf_nodes=2),
    "fat tree": tapered(ZIONEX, "fat_tree", leaf_nodes=1),
    "dragonfly": tapered(ZIONEX, "dragonfly", leaf_nodes=2),
    "pcie": pcie_box(ZIONEX),
    "mesh": load_cluster("dgx1_v100"),
    "fitted, adding": changed(load_cluster("dgx_h100"), fabric={"in_network_reduction": True}),
    "staged": staged_box(ZIONEX),
    "messages": with_library(ZIONEX, "open_mpi"),
    "torus": torus(ZIONEX, [3, 2], ["10 GB/s", "5 GB/s"]),
    "sites": sites(ZIONEX, {"a": 1, "b": 2, "c": 1}, "1 GB/s", "30 us", {("a", "c"): ("3 GB/s", "10 us")}),
    "through the host": through_host(ZIONEX),
    "through the host and its switches": through_host(pcie_box(ZIONEX)),
}
RANKS = 32
GROUPS = {
    "world": np.zeros(RANKS, dtype=np.int64),
    "node": np.arange(RANKS) // 8,
    "rail": np.arange(RANKS) % 8,
    "some": np.where(np.arange(RANKS) % 3 == 0, 0, -1),
}


CYCLIC = (
    "pcie",
    "random",
    [
        ("all_gather/bruck", "world", 3e4, 3.3e-5),
        ("all_gather/bruck", "node", 1e6, 1e-6),
        ("all_gather/halving_doubling", "rail", 1e6, 1e-6),
    ],
)
"""Cyclic bottlenecks: engine and oracle once disagreed, because equal resources counted as often as they stood."""


BACKGROUNDS = {
    "idle": {},
    "steady": {"nic": OtherJob(0.5), "nvlink": OtherJob(0.2)},
    "on sites": {"site": OtherJob(0.5, 2e-4, 3e-4)},
    "bursts": {"nic": OtherJob(0.8, 1e-4, 3.1e-4, 2e-5), "pcie": OtherJob(0.4, 2e-3, 1e-3)},
}


@st.composite
def jobs(draw: st.DrawFn) -> tuple[str, str, list[tuple[str, str, float, float]]]:
    """A machine, a placement, and calls (``op/algorithm``, communicator, bytes, host seconds before it)."""
    call = st.tuples(
        st.sampled_from(ALGORITHMS.names()),
        st.sampled_from(list(GROUPS)),
        st.sampled_from([0.0, 1.0, 3e4, 1e6, 2e8]),
        st.sampled_from([0.0, 1e-6, 3.3e-5]),
    )
    calls = draw(st.lists(call, min_size=1, max_size=5))
    return draw(st.sampled_from(list(MACHINES))), draw(st.sampled_from(["block", "round_robin", "random"])), calls


@pytest.mark.slow
@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(jobs(), st.sampled_from(list(BACKGROUNDS)))
@example(CYCLIC, "idle")
def test_engine_equals_oracle_on_any_machine_with_any_algorithm(job, beside) -> None:
    """Each call on a stream of its own, so that all of them meet on the links; an input copy beside them."""
    name, placement, calls = job
    forced = {key.split("/")[0]: key.split("/")[1] for key, *_ in calls}
    machine = build_machine(
        MACHINES[name],
        RANKS,
        launch_s=1e-6,
        placement=placement,
        seed=1,
        algorithms=forced,
        background=BACKGROUNDS[beside],
    )
    builder = ProgramBuilder("all", np.arange(RANKS), ["memcpy", *(f"s{i}" for i in range(len(calls)))])
    builder.task("copy", "memcpy", Copy(3e7, "h2d"))
    for number, (key, group, size, host_s) in enumerate(calls):
        skew = HostWork(seconds=host_s * np.linspace(0.0, 1.0, RANKS))
        before = builder.task(f"host{number}", f"s{number}", skew)
        call = CollectiveCall(key.split("/")[0], group, size)
        builder.task(f"call{number}", f"s{number}", call, after=[before])
    graph = TaskGraph((builder.build(),), {group: GROUPS[group] for group in {group for _, group, *_ in calls}})
    program = lower(graph, machine).program
    assert compare(RandomProgram(program, 2)) == ""
    for activity in program.activities:
        for phase in activity.phases:
            assert np.all((phase.usage > 0) & (phase.usage <= 1)), "never above a link's capacity"


@pytest.mark.parametrize("name", MACHINES)
def test_every_machine_runs_every_algorithm_on_every_group(name) -> None:
    """Alone: the time is that of the phases."""
    for key in ALGORITHMS.names():
        op, algorithm = key.split("/")
        machine = build_machine(MACHINES[name], RANKS, launch_s=1e-6, algorithms={op: algorithm})
        for group, instance in GROUPS.items():
            for block in machine.collectives.blocks(instance):
                timed = machine.collectives.time(Call(op, block, np.full((1, 1), 1e6)))
                assert np.all(timed.seconds > 0), (key, group)
