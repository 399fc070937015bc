"""Critical paths of random programs run by the real engine."""

from itertools import pairwise

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from simulator.analysis import Window, critical_path, measured_window
from simulator.collective_calls import CollectiveCall
from simulator.engine import IssueByReadiness, RunOptions, run
from simulator.operators import Gemm
from simulator.program import ProgramBuilder, Stream, TaskGraph
from tests.analysis_runs import lowered

ITERATIONS = 4
LATENCY_PS = 5
WORK = Gemm(8, 8, 8, "fp16")


@st.composite
def programs(draw, name, ranks, calls, controller):
    """Private tasks on up to three streams around the collectives, which every program calls in the same order."""
    streams = ["default", Stream("extra", controller), "comm"]
    builder = ProgramBuilder(name, ranks, streams)
    pending = [*calls, *[None] * draw(st.integers(0, 5))]
    collectives = iter(calls)
    for number, entry in enumerate(draw(st.permutations(pending))):
        before = draw(st.lists(st.integers(0, number - 1), max_size=2, unique=True)) if number else []
        if entry is None:
            builder.task(f"task{number}", draw(st.sampled_from(["default", "extra"])), WORK, after=before)
        else:
            call = CollectiveCall("all_reduce", next(collectives), 8)
            builder.task(f"task{number}", "comm", call, after=before)
        if draw(st.booleans()):
            builder.depend(number, draw(st.integers(0, len(pending) - 1)), lag=draw(st.integers(1, 2)))
    return builder.build()


@st.composite
def jobs(draw, controller=None):
    """1-2 program groups, 1-5 ranks, collectives over the world or over parts; durations [T, P] with ties."""
    world_size = draw(st.integers(1, 5))
    owner = draw(st.lists(st.integers(0, 1), min_size=world_size, max_size=world_size))
    parts = draw(st.lists(st.integers(-1, 1), min_size=world_size, max_size=world_size))
    calls = draw(st.lists(st.sampled_from(["world", "parts"]), min_size=1, max_size=3))
    groups = [[r for r in range(world_size) if owner[r] == g] for g in (0, 1)]
    graph = TaskGraph(
        tuple(draw(programs(f"group{g}", ranks, calls, controller)) for g, ranks in enumerate(groups) if ranks),
        {"world": np.zeros(world_size, dtype=np.int64), "parts": np.array(parts, dtype=np.int64)},
    )
    durations = [
        np.array(draw(st.lists(st.lists(st.integers(0, 9), min_size=p.rank_count, max_size=p.rank_count),
                               min_size=p.task_count, max_size=p.task_count)), dtype=np.int64)
        for p in graph.programs
    ]  # fmt: skip
    return graph, durations


def run_job(graph, durations, **options):
    program = lowered(graph, durations, LATENCY_PS)
    return program, run(program, RunOptions(max_iterations=ITERATIONS, **options))


def assert_fills(path, window):
    """Segments touch and add up to the window."""
    assert path.segments or window.length_ps == 0
    for one, two in pairwise(path.segments):
        assert one.end_ps == two.start_ps
    assert sum(s.length_ps for s in path.segments) == window.length_ps
    if path.segments:
        assert (path.segments[0].start_ps, path.segments[-1].end_ps) == (window.start_ps, window.end_ps)


@given(jobs())
def test_path_fills_the_measured_window_with_running_tasks(job):
    """Without a controller something on the path runs at every instant; sums by any key are the window again."""
    graph, durations = job
    program, result = run_job(graph, durations, keep_last=2)
    path = critical_path(graph.programs, program, result)
    assert_fills(path, measured_window(result))
    assert path.window.length_ps <= result.iteration_end_ps[-1]
    for sums in (path.by_category_ps(), path.by_section_ps(), path.by_operator_ps()):
        assert sum(sums.values()) == path.window.length_ps
    assert path.by_category_ps()["idle"] == 0


@given(jobs())
def test_only_what_is_on_the_path_matters(job):
    """Over the whole run: tasks off the path may take no time at all, the makespan stays the same to the ps."""
    graph, durations = job
    program, result = run_job(graph, durations, keep_last=None)
    makespan = int(result.iteration_end_ps[-1])
    whole = Window(ITERATIONS - 1, 0, makespan)
    path = critical_path(graph.programs, program, result, window=whole)
    assert_fills(path, whole)
    on_path = {(s.task, s.rank) for s in path.segments}
    kept = [
        np.array([[d * ((name, int(rank)) in on_path) for rank, d in zip(p.ranks, row, strict=True)]
                  for name, row in zip(p.names, values, strict=True)])
        for p, values in zip(graph.programs, durations, strict=True)
    ]  # fmt: skip
    assert int(run_job(graph, kept, keep_last=2)[1].iteration_end_ps[-1]) == makespan


@given(jobs(controller="ready"))
def test_path_fills_the_window_when_a_controller_orders_a_stream(job):
    graph, durations = job
    program, result = run_job(graph, durations, keep_last=2, controllers={"ready": IssueByReadiness()})
    assert_fills(critical_path(graph.programs, program, result), measured_window(result))
