"""Streams whose tasks overlap: drawn in lanes, exported on tracks, imported again with the times they had."""

from itertools import pairwise

import numpy as np
import pytest

from simulator.analysis import Timeline
from simulator.engine import RunOptions, run
from simulator.lowered import ConstantDurations, LoweredGroup, LoweredProgram
from simulator.operators import Elementwise
from simulator.program import ProgramBuilder, Stream, TaskGraph
from traces.chrome import STEPS, chrome_trace, write_chrome_trace
from traces.description import described
from traces.formats import import_traces
from traces.lanes import lane_name, lanes_of
from traces.parquet import packed


@pytest.mark.parametrize(
    ("starts", "ends", "lanes"),
    [
        ([0, 10, 20], [10, 20, 30], [0, 0, 0]),
        ([0, 5, 10], [10, 20, 30], [0, 1, 0]),
        ([5, 0, 10], [20, 10, 30], [1, 0, 0]),
        ([0, 0, 0], [5, 4, 3], [2, 1, 0]),
        ([0, 5, 5, 5], [5, 5, 5, 9], [0, 0, 0, 0]),
        ([], [], []),
    ],
)
def test_a_bar_has_the_first_lane_that_is_free(starts, ends, lanes):
    assert lanes_of(np.array(starts, dtype=np.int64), np.array(ends, dtype=np.int64)).tolist() == lanes


def test_further_lanes_have_numbers():
    assert [lane_name("comm", lane) for lane in range(3)] == ["comm", "comm 2", "comm 3"]


def overlapping():
    """A stream of two workers with tasks of 50, 10 and 30 us, twice."""
    builder = ProgramBuilder("all", [0], ["host", Stream("comm", workers=2), "last"])
    for name in ("a", "b", "c"):
        builder.task(name, "comm", Elementwise(1.0, 1.0))
    builder.task("end", "last", Elementwise(1.0, 1.0), after=[0, 1, 2])
    graph = TaskGraph((builder.build(),), {"world": np.zeros(1, dtype=np.int64)})
    (program,) = graph.programs
    group = LoweredGroup(
        program.name, program.ranks, program.streams, program.names, program.stream_of, program.dep_ptr,
        program.dep_task, program.dep_lag, ConstantDurations(np.array([[50], [10], [30], [5]]) * 10**6),
        np.zeros(0, dtype=np.int64), np.zeros((0, 1), dtype=np.int64),
    )  # fmt: skip
    return graph, run(LoweredProgram((group,), (), 0), RunOptions(max_iterations=2, keep_last=None))


def test_tracks_of_an_export_never_overlap():
    graph, result = overlapping()
    events = chrome_trace(graph, Timeline.from_run(graph.programs, result), name="two")["traceEvents"]
    names = {e["tid"]: e["args"]["name"] for e in events if e["name"] == "thread_name"}
    assert names == {STEPS: "steps", 1: "host", 2: "comm", 3: "comm 2", 4: "last"}
    bars = sorted((e["tid"], e["ts"], e["dur"]) for e in events if e["ph"] == "X" and e["tid"] != STEPS)
    for (track, start, length), (next_track, next_start, _) in pairwise(bars):
        assert track != next_track or start + length <= next_start
    assert {tid for tid, _, _ in bars} == {2, 3, 4}


def test_what_overlapped_still_does_when_it_is_imported(tmp_path):
    graph, result = overlapping()
    about = packed(described(graph, result.iteration_end_ps)).decode("ascii")
    timeline = Timeline.from_run(graph.programs, result)
    file = tmp_path / "trace.json.gz"
    write_chrome_trace(chrome_trace(graph, timeline, name="two", programs=about), file)
    imported = import_traces([file])
    (program,) = imported.graph.programs
    assert [stream.name for stream in program.streams] == ["host", "comm", "last", "comm 2"]
    times = imported.measured.result.records[0].groups[0]
    found = {name: times.start_ps[task, 0] for task, name in enumerate(program.names) if "@" in name}
    starts = {
        f"{name} @{record.iteration}": record.groups[0].start_ps[task, 0]
        for record in result.records
        for task, name in enumerate(graph.programs[0].names)
    }
    assert {name: start for name, start in found.items() if not name.startswith("delay")} == starts
