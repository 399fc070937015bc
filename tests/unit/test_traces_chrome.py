"""Chrome traces: times to the picosecond, one process per rank, arrows from launches to kernels, same bytes always."""

import gzip
import json

import numpy as np
import pytest

from simulator.analysis import Timeline
from simulator.collective_calls import CollectiveCall
from simulator.engine import RunOptions, run
from simulator.lowered import ConstantDurations, LoweredGroup, LoweredProgram
from simulator.operators import Copy, Elementwise, HostWork, Ingest
from simulator.program import ProgramBuilder, TaskGraph
from traces.chrome import chrome_trace, write_chrome_trace

EXCHANGE, COPY = "ncclDevKernel_AllToAll (exchange)", "Memcpy HtoD (copy)"
DURATION_PS = [2_000_001, 5_000_000, 7_000_000, 1_000_000]


def small_run():
    builder = ProgramBuilder("all", [0, 1], ["host", "default", "memcpy"])
    launch = builder.task("launch", "host", HostWork(launches=1))
    kernel = builder.task("kernel", "default", Elementwise(1.0, 1.0), after=[launch])
    uneven = CollectiveCall("all_to_all", "world", np.array([64.0, 128.0]), "fp16")
    builder.task("exchange", "default", uneven, after=[kernel])
    builder.task("copy", "memcpy", Copy(4096.0, "h2d"))
    graph = TaskGraph((builder.build(),), {"world": np.zeros(2, dtype=np.int64)})
    program = graph.programs[0]
    group = LoweredGroup(
        program.name, program.ranks, program.streams, program.names, program.stream_of, program.dep_ptr,
        program.dep_task, program.dep_lag, ConstantDurations(np.array(DURATION_PS)[:, None]),
        np.zeros(0, dtype=np.int64), np.zeros((0, 2), dtype=np.int64),
    )  # fmt: skip
    result = run(LoweredProgram((group,), (), 0), RunOptions(max_iterations=2))
    return graph, Timeline.from_run(graph.programs, result)


@pytest.fixture(scope="module")
def trace():
    graph, timeline = small_run()
    return chrome_trace(graph, timeline, name="small")


def events(trace, **wanted):
    return [e for e in trace["traceEvents"] if all(e.get(key) == value for key, value in wanted.items())]


def test_every_task_of_every_rank_and_iteration_is_there(trace):
    assert len(events(trace, ph="X")) == 2 * 2 * (4 + 1)  # ranks x iterations x (tasks + annotation)


def test_durations_are_microseconds_exact_to_the_picosecond(trace):
    launch = events(trace, name="launch", pid=0)[0]
    assert round(launch["dur"] * 1e6) == DURATION_PS[0]


def test_categories_are_kinetos(trace):
    found = {name: events(trace, name=name)[0]["cat"] for name in ("launch", "kernel", EXCHANGE, COPY)}
    assert found == {"launch": "cuda_runtime", "kernel": "kernel", EXCHANGE: "kernel", COPY: "gpu_memcpy"}


def test_only_device_work_has_a_stream(trace):
    """Tools take whatever has a stream for work of a device."""
    tasks = [e for e in events(trace, ph="X") if "task" in e["args"]]
    assert {e["name"] for e in tasks if "stream" in e["args"]} == {"kernel", EXCHANGE, COPY}
    assert {e["name"] for e in tasks if "stream" not in e["args"]} == {"launch"}


def test_a_collective_carries_its_own_ranks_size(trace):
    for rank, elements in ((0, 32), (1, 64)):  # fp16: two bytes
        args = events(trace, name=EXCHANGE, pid=rank)[0]["args"]
        assert (args["Collective name"], args["In msg nelems"], args["Group size"]) == ("all_to_all", elements, 2)


def test_an_arrow_leads_from_each_launch_to_its_kernel(trace):
    starts, ends = events(trace, cat="ac2g", ph="s"), events(trace, cat="ac2g", ph="f")
    assert len(starts) == len(ends) == 4
    kernels = {(e["pid"], e["ts"]) for e in events(trace, name="kernel")}
    assert {(e["pid"], e["ts"]) for e in ends} == kernels
    assert {e["id"] for e in starts} == {e["id"] for e in ends}


def test_kernel_and_launch_share_a_correlation_that_no_other_iteration_has(trace):
    pairs = [
        {e["args"]["correlation"] for e in events(trace, ph="X", pid=rank) if e["name"] in ("launch", "kernel")}
        for rank in (0, 1)
    ]
    assert all(len(ids) == 2 for ids in pairs)  # one per iteration
    assert not pairs[0] & pairs[1]


def test_streams_are_named_threads(trace):
    names = {e["tid"]: e["args"]["name"] for e in events(trace, name="thread_name", pid=1)}
    assert names == {0: "steps", 1: "host", 2: "default", 3: "memcpy"}


def test_only_the_ranks_of_the_timeline_are_in_it():
    graph, timeline = small_run()
    trace = chrome_trace(graph, timeline.select(ranks=[1]), name="one")
    assert {event["pid"] for event in trace["traceEvents"]} == {1}


def test_the_file_is_gzip_without_time_stamp(trace, tmp_path):
    path = tmp_path / "trace.json.gz"
    write_chrome_trace(trace, path)
    raw = path.read_bytes()
    assert raw[4:8] == bytes(4)  # RFC 1952: MTIME
    assert json.loads(gzip.decompress(raw)) == trace


def test_input_that_is_on_its_way_is_no_work_of_a_device():
    builder = ProgramBuilder("all", [0], ["frontend", "default"])
    batch = builder.task("batch", "frontend", Ingest(64.0))
    builder.task("kernel", "default", Elementwise(1.0, 1.0), after=[batch])
    graph = TaskGraph((builder.build(),), {})
    (program,) = graph.programs
    group = LoweredGroup.of(
        program, ConstantDurations(np.array([[5], [7]])), np.zeros(0, dtype=np.int64), np.zeros((0, 1), dtype=np.int64)
    )
    result = run(LoweredProgram((group,), (), 0), RunOptions(max_iterations=1))
    trace = chrome_trace(graph, Timeline.from_run(graph.programs, result), name="input")
    (event,) = events(trace, name="batch")
    assert event["cat"] == "cpu_op"
    assert "stream" not in event["args"]
