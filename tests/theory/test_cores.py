"""Closed forms of ranks, kernels and collectives that share the cores of a host."""

from dataclasses import replace

import numpy as np
import pytest

from simulator.engine import RunOptions, run
from simulator.lowered import STALL_PERIOD
from simulator.lowering import build_machine, lower
from simulator.lowering.cores import paces
from simulator.operators import Category, CollectiveCall, EmbeddingLookup, Gemm, HostWork, Nothing
from simulator.program import ProgramBuilder, TaskGraph
from tests.host_machines import costs, host, kernels
from validation.in_kernels import in_kernels_s

PS = 1e12


def seconds(cluster, ranks, works, iterations=1):
    """Mean time of so many iterations with a stream per work; each begins when the one before has ended."""
    builder = ProgramBuilder("all", np.arange(ranks), [f"s{i}" for i in range(len(works))])
    for i, work in enumerate(works):
        builder.task(f"t{i}", f"s{i}", work, after=[(before, 1) for before in range(len(works))])
    graph = TaskGraph((builder.build(),), {"world": np.zeros(ranks, dtype=np.int64)})
    machine = build_machine(cluster, ranks, launch_s=0.0)
    result = run(lower(graph, machine).program, RunOptions(max_iterations=iterations))
    return int(result.iteration_end_ps[-1]) / PS / iterations


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


@pytest.mark.parametrize(("kept", "share"), [(0.65, 1.0), (0.8, 1.0), (0.65, 0.3)])
def test_kernels_keep_their_part_of_a_core_while_data_move(kept, share):
    """The collective has the rest, 1 - kept, or what it asks for where that is less; until it ends, t share / rest."""
    transfer_s = alone_s(2, 2, 0.0)
    kernel_s = 20 * transfer_s
    measured = kernels(collective_cores=share, kept=(0.5, kept), gemm=costs(call=kernel_s))
    together = seconds(host(2, measured), 2, [Gemm(1, 16, 1, "fp32"), all_reduce(2, 1e9)])
    assert together == pytest.approx(kernel_s + transfer_s * share, rel=1e-3), "work is work"
    long_s = transfer_s * share / min(share, 1.0 - kept)
    measured = kernels(collective_cores=share, kept=(0.5, kept), gemm=costs(call=0.5 * long_s * max(kept, 1.0 - share)))
    half = seconds(host(2, measured), 2, [Gemm(1, 16, 1, "fp32"), all_reduce(2, 1e9)])
    left_s = transfer_s * (1.0 - 0.5 * long_s / transfer_s * min(1.0, (1.0 - kept) / share))
    assert half == pytest.approx(0.5 * long_s + left_s, rel=1e-3), "alone once the kernel has ended"


def test_kernels_keep_their_part_of_a_core_while_no_data_move():
    """A latency that takes a core all the time has a tenth of it until the kernel ends."""
    plain = latency_s(2, 2, latency_cores=1.0)
    measured = kernels(latency_cores=1.0, kept=(0.9, 0.5), gemm=costs(call=4.5 * plain))
    together = seconds(host(2, measured), 2, [Gemm(1, 16, 1, "fp32"), all_reduce(2, 0.0)])
    assert together == pytest.approx(5.5 * plain, rel=1e-3), "half of it in 5 times as long, the rest alone"


def test_a_collective_that_needs_no_core_leaves_kernels_alone():
    kernel_s = 10 * alone_s(2, 2, 0.0)
    measured = kernels(gemm=costs(call=kernel_s))
    assert seconds(host(2, measured), 2, [Gemm(1, 16, 1, "fp32"), all_reduce(2, 1e9)]) == pytest.approx(kernel_s)


def test_a_collective_of_ranks_that_take_turns_is_longer_by_what_they_ask_for_together():
    assert alone_s(2, 4, 0.8) == pytest.approx(1.6 * alone_s(4, 4, 0.8), rel=1e-3)
    assert alone_s(2, 4, 0.3) == pytest.approx(alone_s(4, 4, 0.3), rel=1e-9)


@pytest.mark.parametrize("overlap", [0.25, 0.75])
def test_what_has_moved_before_the_last_member_comes_takes_no_time_then(overlap):
    """Ranks with cores of their own have a number, those that take turns another one."""

    def moving_s(cores, *overlaps):
        each = kernels(collective_cores=0.8, overlaps=overlaps)
        whole, nothing = (seconds(host(cores, each), 4, [all_reduce(4, size)]) for size in (1e9, 0.0))
        return whole - nothing

    for cores, mine, others in ((4, (overlap, 0.0), (0.0, overlap)), (2, (0.0, overlap), (overlap, 0.0))):
        whole = moving_s(cores, 0.0, 0.0)
        assert moving_s(cores, *mine) == pytest.approx((1.0 - overlap) * whole, rel=1e-3)
        assert moving_s(cores, *others) == pytest.approx(whole, rel=1e-9)


def latency_s(cores, ranks, **measured):
    """A collective without data, the mean of as many iterations as stall by turns."""
    return seconds(host(cores, kernels(**measured)), ranks, [all_reduce(ranks, 0.0)], STALL_PERIOD)


def test_a_latency_that_takes_cores_is_longer_where_it_takes_more_than_one():
    plain = latency_s(2, 2)
    assert plain > 0.0
    assert latency_s(2, 2, latency_cores=0.5) == pytest.approx(plain, rel=1e-6)
    assert latency_s(2, 2, latency_cores=3.0) == pytest.approx(3 * plain, rel=1e-6)


@pytest.mark.parametrize("works", [0.75, 3.0])
def test_threads_of_ranks_that_take_turns_post_while_no_data_move(works):
    """Both ranks of a core ask for it for some part of the latency, or for all of it and more."""
    plain = latency_s(4, 4)
    posting = {"shared_posting_s": works * plain}
    assert latency_s(2, 4, **posting) == pytest.approx(2 * works * plain, rel=1e-6)
    assert latency_s(4, 4, **posting) == pytest.approx(plain, rel=1e-6), "none takes turns"
    assert latency_s(2, 4, posting_s=works * plain) == pytest.approx(2 * works * plain, rel=1e-6), "as others post"
    assert latency_s(2, 4, latency_cores=1.0, **posting) == pytest.approx(2 * works * plain, rel=1e-6)


def test_a_collective_waits_before_it_moves_data_and_takes_no_core_meanwhile():
    plain = latency_s(2, 2)
    assert latency_s(2, 2, waits=(0.25, 0.0)) == pytest.approx(plain + 0.25, rel=1e-6)
    assert latency_s(2, 2, waits=(0.25, 0.0), latency_cores=3.0) == pytest.approx(3 * plain + 0.25, rel=1e-6)
    assert latency_s(1, 1, waits=(0.25, 0.0)) == 0.0, "nobody to wait for"
    kernel_s = 10 * (plain + 0.25)
    measured = kernels(waits=(0.25, 0.0), collective_cores=1.0, gemm=costs(call=kernel_s))
    beside = [Gemm(1, 16, 1, "fp32"), all_reduce(2, 0.0)]
    assert seconds(host(2, measured), 2, beside, STALL_PERIOD) == pytest.approx(kernel_s)


@pytest.mark.parametrize("kernel_s", [0.3, 0.6, 2.0])
def test_one_of_eight_collectives_stalls_for_eight_times_the_wait(kernel_s):
    """So a kernel of 0.3 s hides 0.3 s of a stall of 1 s in every eighth iteration, not all of a wait of 0.125 s."""
    measured = kernels(waits=(0.125, 0.0), gemm=costs(call=kernel_s))
    beside = [Gemm(1, 16, 1, "fp32"), all_reduce(2, 0.0)]
    hidden_s = seconds(host(2, measured), 2, beside, 2 * STALL_PERIOD)
    assert hidden_s == pytest.approx(kernel_s + max(0.0, 1.0 - kernel_s) / STALL_PERIOD, rel=1e-3)


def test_collectives_of_an_iteration_stall_in_different_ones():
    """Of two at the same time one stalls in the first of eight iterations, the other in the second."""
    measured = host(2, kernels(waits=(0.25, 0.0)))
    together_s = seconds(measured, 2, [all_reduce(2, 0.0), all_reduce(2, 0.0)], STALL_PERIOD)
    assert together_s == pytest.approx(latency_s(2, 2) + 2 * 0.25, rel=1e-3)


@pytest.mark.parametrize("waited", [False, True], ids=["at the end", "each"])
@pytest.mark.parametrize("ranks", [2, 4])
def test_ranks_wait_for_the_slowest_where_they_meet(ranks, waited):
    """Three kernels of a second, each before a collective: how often ranks meet changes nothing of what they wait.

    Of two cores the slower one is 0.589 standard deviations slower than the mean; all ranks on it are.
    """
    measured = kernels(waits=(0.0, 0.1), gemm=costs(call=1.0))
    builder = ProgramBuilder("all", np.arange(ranks), ["host", "comm"])
    for i in range(3):
        builder.task(f"kernel_{i}", "host", Gemm(1, 16, 1, "fp32"), after=[2 * i - 1] if waited and i else [])
        builder.task(f"all_reduce_{i}", "comm", all_reduce(ranks, 0.0), after=[2 * i])
    graph = TaskGraph((builder.build(),), {"world": np.zeros(ranks, dtype=np.int64)})
    result = run(
        lower(graph, build_machine(host(2, measured), ranks, launch_s=0.0)).program, RunOptions(max_iterations=1)
    )
    work_s = 3 * ranks / 2
    spread = 0.1 * np.sqrt(np.log2(1 + 5 / work_s) / np.log2(1 + 5 / 0.1))
    assert int(result.iteration_end_ps[0]) / PS == pytest.approx(work_s * (1 + 0.589 * spread), rel=1e-3)


@pytest.mark.parametrize(
    ("work_s", "spread"), [(0.1, 0.1), (0.02, 0.1186), (1.0, 0.0675), (1e-4, 0.1472), (1e3, 0.0036)]
)
@pytest.mark.parametrize("ranks", [2, 4])
def test_cores_differ_less_in_longer_iterations(work_s, spread, ranks):
    """By the root of log2(1 + 5 s / work), down to 1 ms; of two cores the slower is 0.589 deviations slower."""
    measured = kernels(waits=(0.0, 0.1), gemm=costs(call=work_s / (ranks / 2)))
    slowest_s = seconds(host(2, measured), ranks, [Gemm(1, 16, 1, "fp32")])
    assert slowest_s == pytest.approx(work_s * (1 + 0.589 * spread), rel=1e-4)


def test_what_threads_interrupt_sets_ranks_apart():
    """0.2 s for each of two collectives, 0.3 of that a standard deviation, and what cores differ by in 2 s."""
    measured = kernels(waits=(0.0, 0.1), threads_spread=0.3, posting_s=0.2, gemm=costs(call=2.0))
    work = [Gemm(1, 16, 1, "fp32"), all_reduce(2, 0.0), all_reduce(2, 0.0)]
    of_cores = 0.1 * np.sqrt(np.log2(1 + 5 / 2.0) / np.log2(1 + 5 / 0.1))
    apart_s = 0.589 * (0.3 * 2 * 0.2 + of_cores * 2.0)
    assert seconds(host(2, measured), 2, work) == pytest.approx(2.0 + apart_s, rel=1e-4)


def test_paces_of_cores_lie_as_a_normal_sample_does_on_the_average():
    assert paces(np.zeros(3, dtype=np.int64), 0.1).tolist() == [[1.0] * 3] * 2
    assert paces(np.arange(4), 0.1)[0] == pytest.approx(1.0 + 0.1 * np.array([-1.049, 1.049, 0.299, -0.299]), abs=1e-4)
    for cores in (2, 5, 64, 1000):
        found, reverse = paces(np.arange(cores), 0.05)
        assert found + reverse == pytest.approx(2.0 * np.ones(cores))
        drawn = np.sort(np.random.default_rng(0).normal(1.0, 0.05, (4000, cores)), axis=1).mean(axis=0)
        assert np.sort(found) == pytest.approx(drawn, abs=0.004)
        assert found.mean() == pytest.approx(1.0)


def test_ranks_on_one_core_have_one_pace():
    """Cores are numbered behind the network's resources; which numbers they have changes nothing."""
    of_two = paces(np.array([7, 9]), 0.1)
    assert paces(np.array([7, 9, 7, 9]), 0.1) == pytest.approx(np.tile(of_two, 2))


def test_ranks_that_take_turns_wait_as_was_measured_with_them():
    assert latency_s(2, 4, waits=(0.25, 0.0), shared=(1.0, 0.5)) == pytest.approx(latency_s(4, 4) + 0.5, rel=1e-4)
    assert latency_s(4, 4, shared=(1.0, 0.5)) == latency_s(4, 4)


def kernel_times(turn_s, calls, ranks=2, cores=1):
    """Begin and end of kernels of so many seconds on each rank ``[kernels, ranks]``."""
    builder = ProgramBuilder("all", np.arange(ranks), ["host"])
    for i, of_ranks in enumerate(calls):
        builder.task(f"t{i}", "host", EmbeddingLookup(np.array(of_ranks), *[np.zeros(ranks)] * 3, 1.0))
    machine = build_machine(host(cores, kernels(turn_s=turn_s, lookup=costs(lookup=1.0))), ranks, launch_s=0.0)
    times = run(lower(TaskGraph((builder.build(),), {}), machine).program, RunOptions(max_iterations=1))
    group = times.records[0].groups[0]
    return group.start_ps / PS, group.end_ps / PS


def test_a_kernel_shorter_than_a_turn_is_not_slowed_down():
    """Rank 0 works, then rank 1, as each would alone."""
    _, ends = kernel_times(4.0, [[1.0, 1.0]])
    assert ends.tolist() == [pytest.approx([1.0, 2.0])]
    assert kernel_times(0.0, [[1.0, 1.0]])[1].tolist() == [pytest.approx([2.0, 2.0])], "without turns both take longer"


def test_a_rank_keeps_its_turn_from_kernel_to_kernel():
    _, ends = kernel_times(2.0, [[1.0, 1.0], [1.0, 1.0]])
    assert ends.T.tolist() == [pytest.approx([1.0, 2.0]), pytest.approx([3.0, 4.0])]


def test_who_issues_a_collective_keeps_its_core():
    """Both ranks work 1 s, issue a collective in 1 s and work 1 s again, in turns of 10 s."""
    builder = ProgramBuilder("all", np.arange(2), ["host", "comm"])
    work = EmbeddingLookup(np.ones(2), *[np.zeros(2)] * 3, 1.0)
    builder.task("before", "host", work)
    builder.task("issue", "host", HostWork(launches=1, collectives=1))
    builder.task("call", "comm", all_reduce(2, 0.0), after=[1])
    builder.task("after", "host", work)
    costs_of = {"lookup": costs(lookup=1.0), "host": costs(launch=1.0)}
    machine = build_machine(host(1, kernels(turn_s=10.0, **costs_of)), 2, launch_s=0.0)
    graph = TaskGraph((builder.build(),), {"world": np.zeros(2, dtype=np.int64)})
    times = run(lower(graph, machine).program, RunOptions(max_iterations=1)).records[0].groups[0]
    assert (times.end_ps[[0, 1, 3]] / PS).T.tolist() == [pytest.approx([1.0, 2.0, 3.0]), pytest.approx([4.0, 5.0, 6.0])]


def test_a_wait_is_over_when_the_rank_has_its_core_again():
    """Ranks 0 and 1 share a core and wake up together, in turns of 4 s: rank 1's wait ends after rank 0's 2 s."""
    builder = ProgramBuilder("all", np.arange(2), ["host", "comm"])
    builder.task("call", "comm", all_reduce(2, 0.0))
    builder.task("wait", "host", Nothing(Category.COMM), after=[0])
    builder.task("work", "host", EmbeddingLookup(2.0 * np.ones(2), *[np.zeros(2)] * 3, 1.0))
    machine = build_machine(host(1, kernels(turn_s=4.0, lookup=costs(lookup=1.0))), 2, launch_s=0.0)
    graph = TaskGraph((builder.build(),), {"world": np.zeros(2, dtype=np.int64)})
    times = run(lower(graph, machine).program, RunOptions(max_iterations=1)).records[0].groups[0]
    assert (times.end_ps[1] / PS).tolist() == pytest.approx([0.0, 2.0], abs=1e-3)
    told = in_kernels_s(graph.programs[0], machine.compute, times.start_ps, times.end_ps, {})
    assert told[2].tolist() == pytest.approx([2.0, 2.0])


def test_long_kernels_take_turns_slice_by_slice():
    """Slices of 1 s: rank 0 works in 0-1, 2-3 and 4-4.5, rank 1 in 1-2 and 3-4 and, then alone, until 5.5."""
    _, ends = kernel_times(1.0, [[2.5, 3.0]])
    assert ends.tolist() == [pytest.approx([4.5, 5.5])]


def test_ranks_on_cores_of_their_own_take_no_turns():
    _, ends = kernel_times(1.0, [[2.5, 3.0]], cores=2)
    assert ends.tolist() == [pytest.approx([2.5, 3.0])]


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


@pytest.mark.parametrize(
    ("waits", "starts", "ends", "expected"),
    [
        ([2.5, 2.5], [2.5, 3.5], [3.5, 4.5], [1.0, 1.0]),  # rank 1 has the core again when rank 0's kernel has ended
        ([2.5, 2.5], [2.5, 6.5], [3.5, 20.0], [1.0, 7.25]),  # and is interrupted for 12.5 s, which two kernels share
        ([2.5, 2.0], [2.5, 2.0], [3.5, 4.5], [1.0, 1.5]),  # rank 1 had not slept; all three share its 1.5 s
    ],
)
def test_waits_for_a_turn_count_for_no_kernel_and_interruptions_for_all_between_two_waits(
    waits, starts, ends, expected
):
    """Kernels of 1 s before and two after a collective, of two ranks on a core with slices of 4 s."""
    work = EmbeddingLookup(np.ones(2), *[np.zeros(2)] * 3, 1.0)
    builder = ProgramBuilder("all", np.arange(2), ["host", "network"])
    before = builder.task("before", "host", work)
    call = builder.task("call", "network", all_reduce(2, 1.0), after=[before])
    builder.task("wait", "host", Nothing(Category.COMM), after=[call])
    builder.task("after", "host", work)
    builder.task("last", "host", work)
    machine = build_machine(host(1, kernels(turn_s=4.0, lookup=costs(lookup=1.0))), 2, launch_s=0.0)
    start_ps = np.array([[0.0, 1.0], [1.0, 2.0], waits, starts, ends]) * PS
    end_ps = np.array([[1.0, 2.0], [2.5, 2.5], starts, ends, np.array(ends) + 1.0]) * PS
    told = in_kernels_s(builder.build(), machine.compute, start_ps, end_ps, {})
    assert told[2].tolist() == [0.0, 0.0]
    assert told[3].tolist() == pytest.approx(expected)
    assert told[4].tolist() == pytest.approx(expected)


def told_around_a_call(cores, took, lost=0.0, **measured):
    """What is told of a call and two kernels before a wait and one after it, of 1 s each, which took so long.

    Of each of two ranks, ``[4]``; the call loses at most so much of what interrupts it.
    """
    work = EmbeddingLookup(np.ones(2), *[np.zeros(2)] * 3, 1.0)
    builder = ProgramBuilder("all", np.arange(2), ["host", "network"])
    issue = builder.task("issue", "host", HostWork(launches=1, collectives=1))
    call = builder.task("call", "network", all_reduce(2, 1.0), after=[issue])
    builder.task("first", "host", work)
    builder.task("second", "host", work)
    builder.task("wait", "host", Nothing(Category.COMM), after=[call])
    builder.task("last", "host", work)
    costs_of = {"lookup": costs(lookup=1.0), "host": costs(launch=1.0)}
    measured = {"call_lost_shares": (1.0, 1.0), **measured}
    machine = build_machine(host(cores, kernels(**measured, **costs_of)), 2, launch_s=0.0)
    issued, _, waiting, _ = np.cumsum(took)
    ends = np.array([issued, waiting + 1.0, issued + took[1], waiting, waiting + 1.0, waiting + 1.0 + took[3]])
    starts = ends - [took[0], waiting + 1.0 - issued, took[1], took[2], 0.0, took[3]]
    start_ps, end_ps = (np.tile(at[:, None], 2) * PS for at in (starts, ends))
    told = in_kernels_s(builder.build(), machine.compute, start_ps, end_ps, {"call": lost})[[0, 2, 3, 5]]
    assert told[:, 0].tolist() == told[:, 1].tolist()
    return told[:, 0]


@pytest.mark.parametrize(("lost", "left"), [(0.0, 1.0), (1.5, 0.75), (9.0, 0.0)])
@pytest.mark.parametrize("longer", [[3.0, 0.0], [1.0, 2.0]])
def test_what_a_call_loses_counts_for_no_kernel_of_ranks_with_cores_of_their_own(longer, lost, left):
    """A call and two kernels are interrupted for 5 s before a wait, and a kernel after it for 1 s.

    The call is interrupted for 2 s, 1.5 of which threads post: these count for all three alike, the rest where it is.
    """
    told = told_around_a_call(2, [3.0, 1.0 + longer[0], 1.0 + longer[1], 2.0], lost, posting_s=1.5)
    assert told == pytest.approx([1.0 + left * more for more in (1.0, 0.5 + longer[0], 0.5 + longer[1], 1.0)])


@pytest.mark.parametrize(("after", "call", "each"), [(0.0, 2.0, 1.5), (0.6, 2.4, 1.3), (9.0, 3.0, 1.0)])
def test_a_part_of_what_threads_post_is_told_of_the_call(after, call, each):
    """Of 2 s in the call threads post 1.5: of these so much, and of the rest a third; the other half is its own."""
    told = told_around_a_call(2, [3.0, 1.0, 1.0, 2.0], posting_s=1.5, after_calls=(after, 7.0))
    assert told == pytest.approx([call, each, each, 2.0])


@pytest.mark.parametrize(("after", "call", "each"), [(0.0, 3.0, 3.0), (1.5, 4.0, 2.5), (99.0, 7.0, 1.0)])
def test_a_part_of_what_interrupts_ranks_that_take_turns_is_told_of_the_call(after, call, each):
    """Of 6 s, 4 of them in the second kernel, so much, and of the rest a third; none of what comes after the wait."""
    told = told_around_a_call(1, [1.0, 3.0, 5.0, 2.0], turn_s=4.0, after_calls=(7.0, after))
    assert told == pytest.approx([call, each, each, 2.0])


def test_threads_take_the_core_of_who_issues_a_collective_at_once():
    """The call of 1 s, in which they take 0.5 s for each of two collectives, and the kernel after it; no core later."""
    plain = latency_s(2, 2)
    costs_of = {"gemm": costs(call=3.0), "host": costs(launch=1.0)}
    known = kernels(posting_s=0.5, latency_cores=1.0, call_lost_shares=(1.0, 0.0), **costs_of)
    machine = build_machine(host(2, known), 2, launch_s=0.0)
    builder = ProgramBuilder("all", np.arange(2), ["host", "network"])
    issue = builder.task("issue", "host", HostWork(launches=1, collectives=2))
    builder.task("call", "network", all_reduce(2, 0.0), after=[issue])
    builder.task("kernel", "host", Gemm(1, 16, 1, "fp32"))
    graph = TaskGraph((builder.build(),), {"world": np.zeros(2, dtype=np.int64)})
    times = run(lower(graph, machine).program, RunOptions(max_iterations=1)).records[0].groups[0]
    assert (times.end_ps / PS).T.tolist() == [pytest.approx([2.0, 2.0 + plain, 5.0])] * 2
    told = in_kernels_s(graph.programs[0], machine.compute, times.start_ps, times.end_ps, {"call": 0.4})
    assert told[[0, 2]].T.tolist() == [pytest.approx([1.0 + 0.6 / 4, 3.0 + 3 * 0.6 / 4])] * 2, "by their work"


def test_threads_of_ranks_that_take_turns_post_when_the_last_member_has_come():
    """Nothing is taken of a core where the other rank works meanwhile."""
    costs_of = {"host": costs(launch=1.0)}
    issuing = HostWork(launches=1, collectives=1)
    assert seconds(host(2, kernels(posting_s=0.5, **costs_of)), 4, [issuing]) == pytest.approx(2.0)
    assert seconds(host(4, kernels(posting_s=0.5, **costs_of)), 4, [issuing]) == pytest.approx(1.5)


def test_what_the_system_takes_is_no_interruption_that_calls_could_lose():
    """Of the 1.5 s in which a kernel of 1 s is done it takes 0.125, and calls lose what is left of the others."""
    builder = ProgramBuilder("all", np.arange(2), ["host", "network"])
    issue = builder.task("issue", "host", HostWork(launches=0, collectives=1))
    builder.task("call", "network", all_reduce(2, 1.0), after=[issue])
    builder.task("kernel", "host", EmbeddingLookup(np.ones(2), *[np.zeros(2)] * 3, 1.0))
    known = kernels(system_share=0.125, call_lost_shares=(1.0, 0.0), lookup=costs(lookup=1.0))
    machine = build_machine(host(2, known), 2, launch_s=0.0)
    end_ps = np.tile(np.array([0.0, 1.0, 1.5])[:, None], 2) * PS
    told = in_kernels_s(builder.build(), machine.compute, np.zeros_like(end_ps), end_ps, {"call": 9.0})
    assert told[2].tolist() == pytest.approx([1.125] * 2)


@pytest.mark.parametrize(("ranks", "expected"), [(2, 1.125), (4, 2.25)])
def test_the_system_takes_its_part_of_what_kernels_work(ranks, expected):
    measured = kernels(system_share=0.125, gemm=costs(call=1.0))
    assert seconds(host(2, measured), ranks, [Gemm(1, 16, 1, "fp32")]) == pytest.approx(expected)


@pytest.mark.parametrize(("lost", "left"), [(0.0, 1.0), (10.5, 0.5), (30.0, 0.0)])
def test_what_a_call_loses_is_a_part_of_what_ranks_that_take_turns_are_interrupted_for(lost, left):
    """Kernels of 1 and 3 s, interrupted for 5 s before the wait, and one of 1 s after it, interrupted for 2 s.

    The other rank works for 5 of the 15 s that the iteration lasts, so a call loses a third of the most.
    """
    of = EmbeddingLookup(np.ones(2), *[np.zeros(2)] * 3, 1.0)
    builder = ProgramBuilder("all", np.arange(2), ["host", "network"])
    issue = builder.task("issue", "host", HostWork(launches=1, collectives=1))
    call = builder.task("call", "network", all_reduce(2, 1.0), after=[issue])
    builder.task("first", "host", of)
    builder.task("second", "host", replace(of, lookups=3.0 * np.ones(2)))
    builder.task("wait", "host", Nothing(Category.COMM), after=[call])
    builder.task("last", "host", of)
    known = kernels(turn_s=4.0, call_lost_shares=(0.0, 1.0), lookup=costs(lookup=1.0))
    machine = build_machine(host(1, known), 2, launch_s=0.0)
    end_ps = np.tile(np.array([0.0, 12.0, 6.0, 9.0, 12.0, 15.0])[:, None], 2) * PS
    start_ps = np.tile(np.array([0.0, 0.0, 0.0, 6.0, 12.0, 12.0])[:, None], 2) * PS
    told = in_kernels_s(builder.build(), machine.compute, start_ps, end_ps, {"call": lost})
    assert told[2].tolist() == pytest.approx([1.0 + left * 5.0 / 4.0] * 2)
    assert told[3].tolist() == pytest.approx([3.0 + left * 15.0 / 4.0] * 2)
    assert told[5].tolist() == pytest.approx([1.0 + left * 2.0] * 2)
