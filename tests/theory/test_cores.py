"""Closed forms of ranks, kernels and collectives that share the cores of a host."""

import numpy as np
import pytest

from simulator.engine import RunOptions, run
from simulator.lowering import build_machine, lower
from simulator.operators import CollectiveCall, EmbeddingLookup, Gemm
from simulator.program import ProgramBuilder, TaskGraph
from tests.host_machines import costs, host, kernels

PS = 1e12


def seconds(cluster, ranks, works):
    """Makespan of one iteration with a stream per work."""
    builder = ProgramBuilder("all", np.arange(ranks), [f"s{i}" for i in range(len(works))])
    for i, work in enumerate(works):
        builder.task(f"t{i}", f"s{i}", work)
    graph = TaskGraph((builder.build(),), {"world": np.zeros(ranks, dtype=np.int64)})
    machine = build_machine(cluster, ranks, launch_s=0.0)
    result = run(lower(graph, machine).program, RunOptions(max_iterations=1))
    return int(result.iteration_end_ps[0]) / PS


def calls(count):
    """A kernel of one second for each call."""
    return Gemm(1, 16, 1, "fp32", count=1), kernels(gemm=costs(call=float(count)))


@pytest.mark.parametrize(
    ("cores", "ranks", "expected"), [(2, 2, 1.0), (2, 4, 2.0), (1, 3, 3.0), (2, 3, 2.0), (4, 2, 1.0)]
)
def test_ranks_take_turns_on_cores(cores, ranks, expected):
    work, measured = calls(1)
    assert seconds(host(cores, measured), ranks, [work]) == pytest.approx(expected)


def test_kernels_of_one_rank_follow_each_other():
    work, measured = calls(1)
    builder = ProgramBuilder("all", np.arange(1), ["host"])
    for i in range(3):
        builder.task(f"t{i}", "host", work)
    graph = TaskGraph((builder.build(),), {})
    result = run(lower(graph, build_machine(host(2, measured), 1, launch_s=0.0)).program, RunOptions(max_iterations=1))
    assert int(result.iteration_end_ps[0]) == 3 * PS


def all_reduce(ranks, size):
    return CollectiveCall("all_reduce", "world", size)


def alone_s(cores, ranks, share):
    return seconds(host(cores, kernels(collective_cores=share)), ranks, [all_reduce(ranks, 1e9)])


@pytest.mark.parametrize("share", [0.6, 1.0])
def test_a_collective_beside_a_kernel_slows_both_by_half_the_core(share):
    """Both are given half a core: the kernel half its speed, the collective 0.5 / share of its own.

    The collective, which takes a time t alone, ends at t share / 0.5 when the kernel is longer than that; the kernel
    has then done half of that time and goes on alone.
    """
    transfer_s = alone_s(2, 2, 0.0)
    kernel_s = 10 * transfer_s
    measured = kernels(collective_cores=share, gemm=costs(call=kernel_s))
    together = seconds(host(2, measured), 2, [Gemm(1, 16, 1, "fp32"), all_reduce(2, 1e9)])
    assert together == pytest.approx(kernel_s + transfer_s * share, rel=1e-3)


def test_a_collective_that_needs_no_core_leaves_kernels_alone():
    kernel_s = 10 * alone_s(2, 2, 0.0)
    measured = kernels(gemm=costs(call=kernel_s))
    assert seconds(host(2, measured), 2, [Gemm(1, 16, 1, "fp32"), all_reduce(2, 1e9)]) == pytest.approx(kernel_s)


def test_a_collective_of_ranks_that_take_turns_is_longer_by_what_they_ask_for_together():
    assert alone_s(2, 4, 0.8) == pytest.approx(1.6 * alone_s(4, 4, 0.8), rel=1e-3)
    assert alone_s(2, 4, 0.3) == pytest.approx(alone_s(4, 4, 0.3), rel=1e-9)


def latency_s(cores, ranks, **measured):
    """A collective without data."""
    return seconds(host(cores, kernels(**measured)), ranks, [all_reduce(ranks, 0.0)])


def test_a_latency_that_takes_cores_is_longer_where_it_takes_more_than_one():
    plain = latency_s(2, 2)
    assert plain > 0.0
    assert latency_s(2, 2, latency_cores=0.5) == pytest.approx(plain, rel=1e-6)
    assert latency_s(2, 2, latency_cores=3.0) == pytest.approx(3 * plain, rel=1e-6)


def test_ranks_that_take_turns_pay_their_own_latency_each():
    """Two ranks on each core ask for twice as much of it."""
    assert latency_s(2, 4, shared=(1.0, 3.0)) == pytest.approx(6 * latency_s(4, 4), rel=1e-6)
    assert latency_s(4, 4, shared=(1.0, 3.0)) == latency_s(4, 4)


def test_a_collective_waits_before_it_moves_data_and_takes_no_core_meanwhile():
    plain = latency_s(2, 2)
    assert latency_s(2, 2, wait_s=0.25) == pytest.approx(plain + 0.25, rel=1e-6)
    assert latency_s(2, 2, wait_s=0.25, latency_cores=3.0) == pytest.approx(3 * plain + 0.25, rel=1e-6)
    assert latency_s(1, 1, wait_s=0.25) == 0.0, "nobody to wait for"
    kernel_s = 10 * (plain + 0.25)
    measured = kernels(wait_s=0.25, collective_cores=1.0, gemm=costs(call=kernel_s))
    assert seconds(host(2, measured), 2, [Gemm(1, 16, 1, "fp32"), all_reduce(2, 0.0)]) == pytest.approx(kernel_s)


def test_kernels_of_ranks_that_take_turns_are_slower():
    work = Gemm(1, 16, 1, "fp32")
    measured = kernels(gemm=costs(call=1.0), shared=(1.25, 0.0))
    assert seconds(host(2, measured), 2, [work]) == pytest.approx(1.0)
    assert seconds(host(2, measured), 4, [work]) == pytest.approx(2.5)


def test_a_rank_with_nothing_to_do_waits_for_nobody():
    """Rank 1 has no rows to look up, as one without tables."""
    lookups = EmbeddingLookup(np.array([1.0, 0.0]), *[np.zeros(2)] * 3, 1.0)
    measured = kernels(lookup=costs(lookup=1.0))
    assert seconds(host(2, measured), 2, [lookups]) == pytest.approx(1.0)
