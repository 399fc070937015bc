"""Importing Kineto traces written here: what a rank's program is, what it waits for, what the analyses say."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from hardware_specs import load_cluster
from inputs.errors import InputError, ProgramError
from simulator.collective_calls import CollectiveCall
from simulator.engine import RunOptions, run
from simulator.lowered import Activity, phase
from simulator.lowering import build_machine
from simulator.operators import Copy
from tests.trace_files import BACKWARD, KinetoRank, two_ranks, write_ranks
from traces.analysis import analyse_trace
from traces.kineto.importer import import_kineto
from traces.kineto.reader import read_kineto
from traces.replay import job_of
from traces.replay import replayed as run_again
from traces.replay.ranks import with_clones

US = 1e-6


def replayed(imported):
    """Largest difference in ps between the measured ends and those of an engine run."""
    result = run(imported.measured.lowered, RunOptions(max_iterations=1))
    pairs = zip(imported.measured.result.records[0].groups, result.records[0].groups, strict=True)
    return max(int(np.abs(measured.end_ps - engine.end_ps).max()) for measured, engine in pairs)


def task(imported, name, program=0):
    return imported.graph.programs[program].names.index(name)


@pytest.fixture
def imported(tmp_path):
    return import_kineto(write_ranks(tmp_path, two_ranks()))


def test_a_replay_gives_the_measured_ends_to_the_picosecond(imported):
    assert replayed(imported) == 0


def test_waiting_stands_apart_from_transfer(imported):
    rows = analyse_trace(imported, imported.measured).collectives
    by_group = {row.group: row for row in rows}
    assert by_group["rank 0"].waiting_s.mean == pytest.approx(30 * US)
    assert by_group["rank 1"].waiting_s.mean == 0.0
    assert [row.transfer_s.mean for row in rows] == pytest.approx([5 * US, 5 * US])
    assert {(row.op, row.bytes, row.ranks) for row in rows} == {("all_reduce", 4000.0, 2)}


def test_the_late_rank_is_the_straggler(imported):
    first = analyse_trace(imported, imported.measured).stragglers[0]
    assert (first.rank, first.last, first.held_up_s) == (1, 1, pytest.approx(30 * US))


def test_the_parts_of_a_step_are_those_of_the_intervals(imported):
    rank0 = analyse_trace(imported, imported.measured).steps[0]
    assert rank0.step_s == pytest.approx(200 * US)
    assert rank0.compute_s == pytest.approx((10 + 20) * US)
    assert rank0.exposed_comm_s == pytest.approx(35 * US)
    assert rank0.exposed_waiting_s == pytest.approx(30 * US)
    assert rank0.exposed_copy_s == pytest.approx(10 * US)
    assert rank0.idle_s == pytest.approx((200 - 75) * US)
    parts = rank0.idle_host_s + rank0.idle_kernel_wait_s + rank0.idle_dependency_s
    assert parts == pytest.approx(rank0.idle_s)


def test_idle_before_a_kernel_is_the_hosts_until_its_launch(imported):
    """The last kernel: idle from 80, launched at 105, starts at 110: 25 us host, 5 us kernel wait."""
    program = imported.graph.programs[0]
    delay = program.names.index("adam") - 1
    times = imported.measured.result.records[0].groups[0]
    before = max(t for t in range(task(imported, "adam")) if program.names[t].startswith("launch latency"))
    assert delay == before
    assert times.start_ps[before, 0] == 105_000_000
    assert times.end_ps[before, 0] == 110_000_000


def test_a_synchronising_call_waits_for_the_device(imported):
    program = imported.graph.programs[0]
    sync = program.names.index("cudaDeviceSynchronize")
    waited = {program.names[t] for t, _ in program.dependencies(sync)}
    assert waited == {"Memcpy DtoH (Device -> Pinned)", "all_reduce (tail)"}
    assert imported.measured.result.records[0].groups[0].start_ps[sync, 0] == 80_000_000


def test_a_slower_network_delays_what_waits_for_the_collective(imported):
    """Dependencies are the trace's, so a replay with other durations shifts what follows."""
    lowered = imported.measured.lowered
    slower = Activity("all_reduce", (phase(latency_ps=lowered.activities[0].phases[0].latency_ps + 100_000_000),))
    result = run(replace(lowered, activities=[slower]), RunOptions(max_iterations=1))
    end = task(imported, "adam")
    moved = result.records[0].groups[0].end_ps[end] - imported.measured.result.records[0].groups[0].end_ps[end]
    assert moved.tolist() == [(165 - 80) * 1_000_000]  # the host's wait ended with the copy at 80, now at 165


def test_copies_and_collectives_have_their_sizes(imported):
    work = imported.graph.programs[0].work
    assert [w.bytes for w in work if isinstance(w, Copy)] == [4096.0]
    assert [(w.op, w.communicator) for w in work if isinstance(w, CollectiveCall)] == [("all_reduce", "world")]


def test_ranks_of_one_structure_share_a_program(tmp_path):
    ranks = []
    for rank in range(4):
        own = KinetoRank(rank, 4)
        own.step(1, 0.0, 100.0)
        own.kernel("gemm", (5.0 + rank, 3.0), (10.0 + rank, 20.0 + rank))
        ranks.append(own)
    imported = import_kineto(write_ranks(tmp_path, ranks))
    assert [p.rank_count for p in imported.graph.programs] == [4]
    assert replayed(imported) == 0


def test_ranks_whose_clocks_differ_are_moved_so_that_collectives_end_together(tmp_path):
    ranks = two_ranks()
    ranks[1].head["baseTimeNanoseconds"] = 700_000
    imported = import_kineto(write_ranks(tmp_path, ranks))
    ends = [
        times.end_ps[task(imported, "all_reduce (tail)", group)][0]
        for group, times in enumerate(imported.measured.result.records[0].groups)
    ]
    assert ends[0] == ends[1]
    assert any("clocks of the ranks differ by up to 700 us" in gap.what for gap in imported.gaps)


def test_the_autograd_thread_waits_for_the_main_thread_and_back(tmp_path):
    own = KinetoRank()
    own.step(1, 0.0, 300.0)
    own.op("aten::mm", 10.0, 20.0)
    own.kernel("forward", (15.0, 5.0), (22.0, 30.0))
    own.op("autograd::engine", 40.0, 80.0, tid=BACKWARD)
    own.kernel("backward", (70.0, 5.0), (80.0, 30.0), tid=BACKWARD)
    own.op("optimizer", 125.0, 20.0)
    own.kernel("step", (130.0, 5.0), (140.0, 30.0))
    imported = import_kineto([own.write(tmp_path / "trace.json.gz")])
    program = imported.graph.programs[0]
    woken = [t for t, name in enumerate(program.names) if name.startswith("goes on after another thread")]
    streams = {program.streams[program.stream_of[t]].name for t in woken}
    assert streams == {"host", "host thread 2"}
    assert all(program.dependencies(t) for t in woken)
    assert replayed(imported) == 0


def test_a_stream_waits_for_another_where_the_host_told_it_to(tmp_path):
    own = KinetoRank()
    own.step(1, 0.0, 300.0)
    own.kernel("produce", (10.0, 5.0), (20.0, 50.0), stream=20)
    own.call("cudaStreamWaitEvent", 30.0, 1.0)
    own.kernel("consume", (35.0, 5.0), (72.0, 10.0), stream=7)
    imported = import_kineto([own.write(tmp_path / "trace.json")])
    program = imported.graph.programs[0]
    delay = program.names.index("consume") - 1
    assert program.names.index("produce") in {t for t, _ in program.dependencies(delay)}
    assert any("stream waits" in gap.what for gap in imported.gaps)


def test_work_launched_before_the_profile_is_a_gap(tmp_path):
    own = KinetoRank()
    own.step(1, 0.0, 100.0)
    own.x("kernel", "old", 5.0, 10.0, tid=7, pid=0, stream=7, device=0, correlation=999)
    imported = import_kineto([own.write(tmp_path / "trace.json")])
    assert [gap.count for gap in imported.gaps if "without the call" in gap.what] == [1]
    assert replayed(imported) == 0


def test_an_absent_rank_is_a_gap(tmp_path):
    imported = import_kineto([two_ranks()[0].write(tmp_path / "only.json")])
    assert imported.world_size == 2
    assert [gap.ranks for gap in imported.gaps if "without a trace" in gap.what] == [(1,)]
    assert analyse_trace(imported, imported.measured).collectives[0].waiting_s.max == 0.0


def test_absolute_time_stamps_have_the_resolution_of_a_double(tmp_path):
    """Microseconds since 1970 come in quarters: .13 and .34 are .25 of them, and the second kernel is not earlier."""
    own, since_1970 = KinetoRank(), 1_790_000_000_000_000.0
    own.step(1, since_1970, 100.0)
    own.kernel("first", (since_1970 + 1, 1.0), (since_1970 + 10.13, 2.21))
    own.kernel("second", (since_1970 + 3, 1.0), (since_1970 + 12.34, 2.0))
    file = own.write(tmp_path / "trace.json")
    assert read_kineto(file).resolution_ps == 250_000
    assert replayed(import_kineto([file])) == 0


def test_an_absent_rank_runs_on_a_machine_as_a_traced_one(tmp_path):
    """Ranks 0 and 2 have one program; rank 1, without a trace, takes the times of rank 0."""
    ranks = []
    for rank in (0, 2):
        own = KinetoRank(rank, 3)
        own.step(1, 0.0, 100.0)
        own.kernel("gemm", (5.0 + rank, 3.0), (10.0 + rank, 20.0 + rank))
        ranks.append(own)
    job = with_clones(job_of(import_kineto(write_ranks(tmp_path, ranks))))
    (program,) = job.graph.programs
    assert program.ranks.tolist() == [0, 1, 2]
    assert job.durations_ps[0][program.names.index("gemm")].tolist() == [20_000_000, 20_000_000, 22_000_000]
    machine = build_machine(load_cluster("dgx_a100_40"), 3, launch_s=0.0)
    assert run_again(job, machine).measured.result.ranks.tolist() == [0, 1, 2]


def test_chosen_ranks_only(tmp_path):
    imported = import_kineto(write_ranks(tmp_path, two_ranks()), ranks=[1])
    assert imported.ranks == (1,)
    with pytest.raises(InputError, match="no trace is of these ranks"):
        import_kineto(write_ranks(tmp_path, two_ranks()), ranks=[7])


def test_ranks_that_disagree_on_a_collective_are_named_with_their_files(tmp_path):
    ranks = two_ranks()
    comm = next(e for e in ranks[1].events if "nccl" in e["name"])
    comm["args"]["In msg nelems"] = 2000
    with pytest.raises(ProgramError, match=r"rank1\.json.*rank 1 and rank 0 .*rank0\.json.*8000 B.*4000 B"):
        import_kineto(write_ranks(tmp_path, ranks))


def test_a_rank_with_fewer_collectives_disagrees(tmp_path):
    ranks = two_ranks()
    ranks[1].events = [e for e in ranks[1].events if "nccl" not in e["name"]]
    with pytest.raises(ProgramError, match="0 collectives here, 1 there"):
        import_kineto(write_ranks(tmp_path, ranks))


def test_two_files_of_one_rank(tmp_path):
    files = [two_ranks()[0].write(tmp_path / name) for name in ("a.json", "b.json")]
    with pytest.raises(InputError, match=r"b\.json: is of rank 0, and so is .*a\.json"):
        import_kineto(files)


def union_us(spans):
    """Length of the union of intervals."""
    covered, done = 0.0, float("-inf")
    for start, end in sorted(spans):
        covered += max(0.0, end - max(start, done))
        done = max(done, end)
    return covered


@pytest.mark.parametrize(
    "spans",
    [
        [(100, 150), (144, 184), (260, 320)],  # programmatic dependent launch: 84 and 60 us
        [(100, 150), (110, 120), (130, 200)],  # one inside another
        [(100, 110), (100, 150), (150, 160)],
        [(100, 103), (101, 104), (102, 105)],
    ],
)
def test_kernels_that_overlap_on_a_stream_count_once(tmp_path, spans):
    """Compute of the step is the union of the intervals, and a replay keeps the step."""
    own = KinetoRank()
    own.step(1, 0.0, 380.0)
    for number, (start, end) in enumerate(spans):
        own.kernel("gemm", (5.0 + 10 * number, 5.0), (float(start), float(end - start)))
    imported = import_kineto([own.write(tmp_path / "trace.json")])
    (row,) = analyse_trace(imported, imported.measured).steps
    assert row.compute_s == pytest.approx(union_us(spans) * US)
    assert replayed(imported) == 0
    assert run_again(job_of(imported)).steps == imported.steps


def test_the_gap_of_overlapping_kernels_has_their_number_and_time(tmp_path):
    ranks = []
    for rank in range(2):
        own = KinetoRank(rank, 2)
        own.step(1, 0.0, 380.0)
        own.kernel("gemm", (5.0, 5.0), (100.0, 50.0))
        own.kernel("add", (15.0, 5.0), (144.0 - rank, 40.0))
        own.kernel("sum", (25.0, 5.0), (184.0, 60.0))  # within the clock of a microsecond on rank 0: no overlap
        ranks.append(own)
    gaps = {gap.what: gap for gap in import_kineto(write_ranks(tmp_path, ranks)).gaps}
    words = "overlap earlier work of their stream: at most 7 us each, 13 us in all"
    (found,) = (gap for what, gap in gaps.items() if words in what)
    assert (found.count, found.ranks) == (2, (0, 1))


def without_rank_or_steps(**head):
    own = two_ranks(1)[0]
    own.head = dict(head)
    own.events = [e for e in own.events if not e["name"].startswith("ProfilerStep")]
    return own


def test_a_trace_without_steps_can_be_taken_whole(tmp_path):
    """From its first event at 2 us to its last one's end at 130 us; all but idling is as in the marked step."""
    file = without_rank_or_steps().write(tmp_path / "trace.json")
    with pytest.raises(InputError, match=r"no ProfilerStep.*--whole"):
        import_kineto([file])
    whole = import_kineto([file], whole=True)
    (row,) = analyse_trace(whole, whole.measured).steps
    marked = import_kineto([two_ranks(1)[0].write(tmp_path / "steps.json")])
    (same,) = analyse_trace(marked, marked.measured).steps
    assert row.step_s == pytest.approx(128 * US)
    parts = ("compute_s", "exposed_comm_s", "exposed_copy_s")
    assert [getattr(row, part) for part in parts] == pytest.approx([getattr(same, part) for part in parts])
    assert replayed(whole) == 0
    assert {"traces taken whole, as one step", "traces without their rank (taken: rank 0)"} <= {
        gap.what for gap in whole.gaps
    }


@pytest.mark.parametrize(
    ("name", "rank"),
    [
        ("rank3.json", 3), ("trace-rank-12.json.gz", 12), ("worker_5.pt.trace.json", 5), ("job_7.json", 7),
        ("kineto.4.pt.trace.json.gz", 4), ("worker_a4000.1743587813287013007.pt.trace.json", None),
        ("profile_step_100.json", None), ("trace.json", None), ("resnet50.json", None),
    ],
)  # fmt: skip
def test_the_rank_in_a_name(tmp_path, name, rank):
    trace = read_kineto(without_rank_or_steps().write(tmp_path / name))
    assert (trace.rank, trace.rank_from_name) == (rank, True)
    own = two_ranks(1)[0]
    own.head["distributedInfo"] = {"rank": 9}
    assert read_kineto(own.write(tmp_path / name)).rank == 9


def test_ranks_from_names_are_said(tmp_path):
    files = []
    for rank, own in enumerate(two_ranks()):
        own.head = {}
        files.append(own.write(tmp_path / f"job_{rank}.json"))
    imported = import_kineto(files)
    assert imported.ranks == (0, 1)
    assert [gap.ranks for gap in imported.gaps if "number in the file's name" in gap.what] == [(0, 1)]
