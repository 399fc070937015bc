"""Interval unions and breakdowns against counting picosecond by picosecond."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from simulator.analysis import break_down
from simulator.analysis.intervals import union_length
from simulator.categories import Category
from simulator.collective_calls import CollectiveCall
from simulator.operators import Copy, Delay, Gemm, HostWork, Ingest
from simulator.program import ProgramBuilder
from tests.analysis_runs import group_times, hand_run

LATEST_PS = 40

spans = st.tuples(st.integers(0, LATEST_PS), st.integers(0, LATEST_PS)).map(lambda pair: tuple(sorted(pair)))


def covered(intervals):
    """The picoseconds in which any interval is open."""
    return {instant for start, end in intervals for instant in range(start, end)}


@given(st.integers(0, 6).flatmap(lambda n: st.lists(st.lists(spans, min_size=n, max_size=n), min_size=1, max_size=4)))
def test_union_length_is_the_number_of_covered_instants(rows):
    table = np.array(rows, dtype=np.int64).reshape(len(rows), -1, 2)
    lengths = union_length(table[:, :, 0], table[:, :, 1])
    assert lengths.tolist() == [len(covered(row)) for row in rows]


WORK = {
    Category.COMPUTE: Gemm(8, 8, 8, "fp16"),
    Category.COMM: CollectiveCall("all_reduce", "world", 8),
    Category.COPY: Copy(8, "h2d"),
    Category.HOST: HostWork(1),
    Category.INPUT: Ingest(8.0),
    Category.IDLE: Delay(1.0, "launch latency"),
}

rows = spans.flatmap(lambda span: st.integers(0, span[1] - span[0]).map(lambda waiting: (*span, waiting)))


@st.composite
def runs(draw):
    """1-3 ranks whose tasks of any category lie anywhere, in two or three recorded iterations."""
    categories = draw(st.lists(st.sampled_from(list(Category)), min_size=1, max_size=8))
    builder = ProgramBuilder("group", range(draw(st.integers(1, 3))), [f"stream{i}" for i in range(len(categories))])
    for number, category in enumerate(categories):
        builder.task(f"task{number}", f"stream{number}", WORK[category])
    program = builder.build()
    per_rank = st.lists(rows, min_size=len(categories), max_size=len(categories))
    iteration = st.lists(per_rank, min_size=program.rank_count, max_size=program.rank_count)
    iterations = sorted(
        draw(st.lists(iteration, min_size=2, max_size=3)), key=lambda ranks: max(row[1] for r in ranks for row in r)
    )
    return program, iterations


@given(runs())
def test_breakdown_is_what_counting_every_instant_gives(run):
    """Tasks of the window's iteration and of later ones count where they lie inside the window."""
    program, iterations = run
    breakdown = break_down([program], hand_run([program], [[group_times(ranks)] for ranks in iterations]))
    window = breakdown.window
    inside = set(range(window.start_ps, window.end_ps))
    for rank in range(program.rank_count):
        kept = iterations[window.iteration :]
        later = [row for ranks in kept for row in zip(program.categories, ranks[rank], strict=True)]
        times = {c: [row for category, row in later if category == c] for c in Category}
        open_in = {c: covered((start, end) for start, end, _ in times[c]) & inside for c in Category}
        compute, comm, copy = open_in[Category.COMPUTE], open_in[Category.COMM], open_in[Category.COPY]
        assert breakdown.compute_ps[rank] == len(compute)
        assert breakdown.exposed_comm_ps[rank] == len(comm - compute)
        assert breakdown.exposed_copy_ps[rank] == len(copy - comm - compute)
        assert breakdown.idle_ps[rank] == len(inside - copy - comm - compute)
        totals = {c: sum(len(inside & set(range(s, e))) for s, e, _ in times[c]) for c in Category}
        assert breakdown.comm_ps[rank] == totals[Category.COMM]
        assert breakdown.copy_ps[rank] == totals[Category.COPY]
        assert breakdown.host_ps[rank] == totals[Category.HOST]
        waits = [inside & set(range(s, s + waiting)) for s, _, waiting in times[Category.COMM]]
        assert breakdown.waiting_ps[rank] == sum(map(len, waits))


@given(runs())
def test_parts_add_up_to_the_window_exactly(run):
    program, iterations = run
    breakdown = break_down([program], hand_run([program], [[group_times(ranks)] for ranks in iterations]))
    parts = np.stack([breakdown.compute_ps, breakdown.exposed_comm_ps, breakdown.exposed_copy_ps, breakdown.idle_ps])
    assert parts.min() >= 0
    assert parts.sum(axis=0).tolist() == [breakdown.window.length_ps] * program.rank_count
