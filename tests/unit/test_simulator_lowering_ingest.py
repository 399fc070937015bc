"""Batches over NICs of their own, or over those of collectives."""

from __future__ import annotations

import numpy as np
import pytest

from hardware_specs import load_cluster
from simulator.engine import RunOptions, run
from simulator.lowering import build_machine, lower
from simulator.lowering.machine import Machine
from simulator.operators import CollectiveCall, Ingest
from simulator.program import ProgramBuilder, TaskGraph

RANKS = 16
EXCHANGED, RECEIVED = 256e6, 64e6


def machine(cluster: str) -> Machine:
    return build_machine(load_cluster(cluster), RANKS, launch_s=5e-6)


def iteration_s(cluster: str, *, exchange: bool, receive: bool) -> float:
    """Of an all_to_all and a batch that start together on every rank of two nodes."""
    builder = ProgramBuilder("ranks", np.arange(RANKS), ("comm", "frontend"))
    if exchange:
        builder.task("exchange", "comm", CollectiveCall("all_to_all", "world", EXCHANGED))
    if receive:
        builder.task("receive", "frontend", Ingest(RECEIVED))
    graph = TaskGraph((builder.build(),), {"world": np.zeros(RANKS, dtype=np.int64)})
    program = lower(graph, machine(cluster)).program
    return float(run(program, RunOptions(1)).iteration_end_ps[0]) / 1e12


@pytest.mark.parametrize("cluster", ["zionex", "dgx_a100_80"])
def test_alone_a_batch_takes_its_bytes_over_the_ranks_share(cluster: str) -> None:
    """Front-end NICs of 4 x 100 Gb/s for 8 GPUs on ZionEX; the 8 NICs of 200 Gb/s of collectives on DGX A100."""
    rate = {"zionex": 4 * 12.5e9 / 8, "dgx_a100_80": 25e9}[cluster]
    assert iteration_s(cluster, exchange=False, receive=True) == pytest.approx(RECEIVED / rate, rel=1e-6)


def test_front_end_nics_leave_collectives_alone() -> None:
    exchange = iteration_s("zionex", exchange=True, receive=False)
    batch = iteration_s("zionex", exchange=False, receive=True)
    assert iteration_s("zionex", exchange=True, receive=True) == max(exchange, batch)


def test_without_them_a_batch_slows_collectives() -> None:
    """Both use the NIC of the rank: together they take longer than either, and no longer than one after the other."""
    exchange = iteration_s("dgx_a100_80", exchange=True, receive=False)
    batch = iteration_s("dgx_a100_80", exchange=False, receive=True)
    both = iteration_s("dgx_a100_80", exchange=True, receive=True)
    assert max(exchange, batch) + 0.5 * min(exchange, batch) < both <= exchange + batch


def test_on_one_node_no_collective_is_on_the_nics() -> None:
    """The batch is private: there is nobody to share with."""
    cluster = load_cluster("dgx_a100_80")
    one = build_machine(cluster, 8, launch_s=5e-6)
    builder = ProgramBuilder("ranks", np.arange(8), ("frontend",))
    builder.task("receive", "frontend", Ingest(RECEIVED))
    lowered = lower(TaskGraph((builder.build(),), {}), one).program
    assert lowered.activities == []
