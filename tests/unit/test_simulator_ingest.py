"""Batches over front-end NICs, or over the others where a node has none."""

from __future__ import annotations

import numpy as np
import pytest

from hardware_specs import load_cluster
from simulator.collective_calls import CollectiveCall
from simulator.engine import RunOptions, run
from simulator.lowering import build_machine, lower
from simulator.operators import Ingest
from simulator.program import ProgramBuilder, TaskGraph

RANKS = 16
RECEIVED = 64e6


def iteration_s(cluster: str, exchanged: float, improve: dict[str, float] | None = None) -> float:
    """Of an all_to_all and a batch that start together on every rank of two nodes."""
    builder = ProgramBuilder("ranks", np.arange(RANKS), ("comm", "frontend"))
    if exchanged:
        builder.task("exchange", "comm", CollectiveCall("all_to_all", "world", exchanged))
    builder.task("receive", "frontend", Ingest(RECEIVED), section="input")
    graph = TaskGraph((builder.build(),), {"world": np.zeros(RANKS, dtype=np.int64)})
    machine = build_machine(load_cluster(cluster), RANKS, launch_s=5e-6)
    program = lower(graph, machine, improve=improve).program
    return float(run(program, RunOptions(1)).iteration_end_ps[0]) / 1e12


@pytest.mark.parametrize(("cluster", "rate"), [("zionex", 4 * 12.5e9 / 8), ("dgx_a100_80", 25e9)])
def test_a_batch_takes_its_bytes_over_the_ranks_share(cluster: str, rate: float) -> None:
    """Front-end NICs of 4 x 100 Gb/s for 8 GPUs on ZionEX; the 8 NICs of 200 Gb/s of collectives on DGX A100."""
    alone = iteration_s(cluster, 0.0)
    assert alone == pytest.approx(RECEIVED / rate, rel=1e-6)
    assert iteration_s(cluster, 1e3) == alone
    assert iteration_s(cluster, 0.0, {"input": 1.1}) == pytest.approx(alone / 1.1, rel=1e-6)
    assert iteration_s(cluster, 0.0, {"NIC": 1.1}) == alone
