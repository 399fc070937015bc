"""Closed forms of ranks, kernels and collectives that share the cores of a host."""

import numpy as np
import pytest

from simulator.collective_calls import CollectiveCall
from simulator.engine import RunOptions, run
from simulator.lowering import build_machine, lower
from simulator.operators import Gemm, HostWork
from simulator.program import ProgramBuilder, TaskGraph
from tests.host_machines import costs, host, kernels

PS = 1e12
KERNEL = Gemm(1, 16, 1, "fp32")


def seconds(cluster, ranks, works):
    """Time of an iteration with a stream per work."""
    builder = ProgramBuilder("all", np.arange(ranks), [f"s{i}" for i in range(len(works))])
    for i, work in enumerate(works):
        builder.task(f"t{i}", f"s{i}", work)
    graph = TaskGraph((builder.build(),), {"world": np.zeros(ranks, dtype=np.int64)})
    result = run(lower(graph, build_machine(cluster, ranks, launch_s=0.0)).program, RunOptions(max_iterations=1))
    return int(result.iteration_end_ps[-1]) / PS


@pytest.mark.parametrize(
    ("cores", "ranks", "expected"), [(2, 2, 1.0), (2, 4, 2.0), (1, 3, 3.0), (2, 3, 2.0), (4, 2, 1.0)]
)
def test_ranks_on_one_core_share_it(cores, ranks, expected):
    assert seconds(host(cores, kernels(gemm=costs(call=1.0))), ranks, [KERNEL]) == pytest.approx(expected)


def test_kernels_of_one_rank_follow_each_other():
    builder = ProgramBuilder("all", np.arange(1), ["host"])
    for i in range(3):
        builder.task(f"t{i}", "host", KERNEL)
    machine = build_machine(host(2, kernels(gemm=costs(call=1.0))), 1, launch_s=0.0)
    result = run(lower(TaskGraph((builder.build(),), {}), machine).program, RunOptions(max_iterations=1))
    assert int(result.iteration_end_ps[0]) == 3 * PS


def all_reduce(ranks, size):
    return CollectiveCall("all_reduce", "world", size)


def alone_s(cores, ranks, share=0.0, size=1e9, **measured):
    return seconds(host(cores, kernels(collective_cores=share, **measured)), ranks, [all_reduce(ranks, size)])


@pytest.mark.parametrize("share", [0.6, 1.0])
def test_a_collective_beside_a_kernel_slows_both_to_half_the_core(share):
    """Both get half a core: the kernel half its speed, the collective 0.5 / share of its own.

    The collective, which takes a time t alone, ends at t share / 0.5; the kernel, which is longer, has then done half
    of that time and goes on alone.
    """
    transfer_s = alone_s(2, 2)
    kernel_s = 10 * transfer_s
    measured = kernels(collective_cores=share, gemm=costs(call=kernel_s))
    together = seconds(host(2, measured), 2, [KERNEL, all_reduce(2, 1e9)])
    assert together == pytest.approx(kernel_s + transfer_s * share, rel=1e-3)


def test_a_collective_that_needs_no_core_leaves_kernels_alone():
    kernel_s = 10 * alone_s(2, 2)
    measured = kernels(gemm=costs(call=kernel_s))
    assert seconds(host(2, measured), 2, [KERNEL, all_reduce(2, 1e9)]) == pytest.approx(kernel_s)


def test_a_collective_between_ranks_on_one_core_takes_as_long_as_its_members_need_together():
    assert alone_s(2, 4, 0.8) == pytest.approx(1.6 * alone_s(4, 4, 0.8), rel=1e-3)
    assert alone_s(2, 4, 0.3) == pytest.approx(alone_s(4, 4, 0.3), rel=1e-9)


def test_a_collective_waits_before_data_move_and_uses_no_core_meanwhile():
    plain = alone_s(2, 2, size=0.0)
    assert alone_s(2, 2, size=0.0, waits_s=(0.25, 0.7)) == pytest.approx(plain + 0.25, rel=1e-6)
    assert alone_s(2, 4, size=0.0, waits_s=(0.7, 0.5)) == pytest.approx(alone_s(4, 4, size=0.0) + 0.5, rel=1e-6)
    assert alone_s(1, 1, size=0.0, waits_s=(0.25, 0.25)) == 0.0, "no other member"
    kernel_s = 10 * (plain + 0.25)
    measured = kernels(waits_s=(0.25, 0.0), collective_cores=1.0, gemm=costs(call=kernel_s))
    assert seconds(host(2, measured), 2, [KERNEL, all_reduce(2, 0.0)]) == pytest.approx(kernel_s)


@pytest.mark.parametrize(("cores", "expected"), [(4, 2.0), (2, 4.0)])
def test_a_rank_posts_each_collective_that_it_issues(cores, expected):
    """A launch of 1 s and 0.5 s for each of two collectives, on every rank of a core."""
    issuing = HostWork(launches=1, collectives=2)
    measured = kernels(posting_s=0.5, host=costs(launch=1.0))
    assert seconds(host(cores, measured), 4, [issuing]) == pytest.approx(expected)
