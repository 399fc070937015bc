"""The table of collectives against nccl-tests' definitions."""

import numpy as np
import pytest

from simulator.analysis import collective_table
from simulator.collective_calls import CollectiveCall, busbw_factor
from simulator.operators import Gemm
from simulator.program import ProgramBuilder, TaskGraph
from tests.analysis_runs import group_times, hand_run

NS = 1000  # ps


def table(call, rows, communicator, **options):
    builder = ProgramBuilder("group", range(len(rows)), ["default", "comm"])
    gemm = builder.task("gemm", "default", Gemm(8, 8, 8, "fp16"))
    builder.task("collective", "comm", call, after=[gemm], section="backward")
    program = builder.build()
    graph = TaskGraph((program,), {call.communicator: np.array(communicator)})
    times = group_times([[(0, row[0]), row] for row in rows])
    return collective_table(graph, hand_run([program], [[times]]), **options)


def test_bandwidth_uses_the_transfer_not_the_wait():
    """8000 B in 100 ns after the last of 4 arrivals: 80 GB/s, times 2 x 3/4 on the bus."""
    rows = [(0, 150 * NS, 50 * NS), (20 * NS, 150 * NS, 30 * NS), (50 * NS, 150 * NS, 0), (50 * NS, 150 * NS, 0)]
    (row,) = table(CollectiveCall("all_reduce", "world", 8000), rows, [0] * 4, algorithms={"collective": "ring"})
    assert (row.task, row.section, row.algorithm, row.ranks, row.instances) == (
        "collective", "backward", "ring", 4, 1,
    )  # fmt: skip
    assert row.algbw_bytes_per_s == pytest.approx(80e9)
    assert row.busbw_bytes_per_s == pytest.approx(120e9)
    assert (row.duration_s.min, row.duration_s.max, row.duration_s.mean) == pytest.approx((100e-9, 150e-9, 120e-9))
    assert (row.waiting_s.median, row.transfer_s.max) == pytest.approx((15e-9, 100e-9))


@pytest.mark.parametrize(
    ("op", "factor"),
    [
        *(("all_reduce", 1.75), ("all_gather", 0.875), ("reduce_scatter", 0.875), ("all_to_all", 0.875)),
        *(("broadcast", 1), ("reduce", 1), ("sendrecv", 1), ("gather", 0.875), ("scatter", 0.875)),
    ],
)
def test_bus_factors_are_those_of_nccl_tests(op, factor):
    assert busbw_factor(op, 8) == factor


def test_uneven_bytes_give_their_mean_and_largest():
    call = CollectiveCall("all_to_all", "world", np.array([100.0, 300.0]))
    (row,) = table(call, [(0, 10), (0, 10)], [0, 0])
    assert (row.bytes, row.bytes_max) == (200.0, 300.0)


def test_ranks_outside_the_communicator_do_not_count():
    """Ranks 0 and 1 make one pair, 2 is alone in its instance, 3 is in none and passes in no time."""
    (row,) = table(CollectiveCall("all_gather", "pair", 8), [(0, 10), (0, 10), (0, 4), (7, 7)], [0, 0, 1, -1])
    assert (row.ranks, row.instances, row.duration_s.mean) == (2, 2, 8e-12)


def test_nothing_is_divided_by_a_transfer_that_takes_no_time():
    (row,) = table(CollectiveCall("barrier", "world", 0), [(0, 5, 5), (5, 5, 0)], [0, 0])
    assert (row.algbw_bytes_per_s, row.busbw_bytes_per_s) == (None, None)


def test_a_communicator_without_this_groups_ranks_gives_no_row():
    assert table(CollectiveCall("all_gather", "pair", 8), [(0, 0), (0, 0)], [-1, -1]) == ()


def test_a_group_that_only_receives_has_the_bytes_and_the_algorithm_of_the_message():
    """Rank 0 receives a third of the 900 B that rank 2 sends, rank 1 two thirds; both sides say so."""

    def side(name, ranks, call):
        builder = ProgramBuilder(name, ranks, ["comm"])
        builder.task(name, "comm", call)
        return builder.build()

    receivers = CollectiveCall("all_to_all", "served", np.zeros(2), receive_weights=np.array([1.0, 2.0]))
    sender = CollectiveCall("all_to_all", "served", np.array([900.0]), receive_weights=np.zeros(1))
    programs = (side("receive", [0, 1], receivers), side("send", [2], sender))
    graph = TaskGraph(programs, {"served": np.zeros(3, dtype=np.int64)})
    times = [group_times([[(0, 100 * NS)]] * len(program.ranks)) for program in programs]
    received, sent = collective_table(graph, hand_run(programs, [times]), algorithms={"receive": "linear"})
    assert (received.bytes, received.bytes_max, sent.bytes) == (450.0, 600.0, 900.0)
    assert received.algbw_bytes_per_s == pytest.approx(4.5e9)
    assert received.algorithm == sent.algorithm == "linear"
