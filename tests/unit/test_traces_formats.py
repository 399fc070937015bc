"""Chakra, PyTorch execution traces, nccl-tests logs, our own Parquet: what each becomes."""

from __future__ import annotations

import json

import numpy as np
import pytest

from dlrmsim import import_traces as imported_from
from dlrmsim import run
from hardware_specs.loader import load_cluster
from inputs.errors import InputError
from simulator import engine
from simulator.analysis import timeline_blocks, write_parquet
from simulator.categories import Category
from simulator.collective_calls import CollectiveCall
from simulator.lowering import build_machine, lower
from simulator.operators import Elementwise, Gemm, Measured
from simulator.program import ProgramBuilder, TaskGraph
from tests.trace_files import KinetoRank, chakra_bytes, chakra_iteration, two_ranks, write_ranks
from traces.chakra.importer import import_chakra
from traces.formats import Format, detect, import_traces
from traces.nccl_tests import read_timed_collectives
from traces.parquet import program_metadata
from traces.replay import job_of, replayed

# Chakra


def chakra_files(folder, durations_us):
    files = []
    for rank, duration in enumerate(durations_us):
        files.append(folder / f"job.{rank}.et")
        files[-1].write_bytes(chakra_bytes(chakra_iteration(duration)))
    return files


def test_chakra_ranks_of_one_structure_are_one_program(tmp_path):
    imported = import_chakra(chakra_files(tmp_path, [100, 120, 80, 100]))
    (program,) = imported.graph.programs
    assert program.ranks.tolist() == [0, 1, 2, 3]
    assert program.names == ("forward", "reduce", "backward", "update")
    assert [program.dependencies(t) for t in range(4)] == [[], [(0, 0)], [(0, 0)], [(1, 0), (2, 0)]]
    assert program.work[0].seconds.tolist() == pytest.approx([100e-6, 120e-6, 80e-6, 100e-6])
    assert program.work[1] == CollectiveCall("all_reduce", "world", float(1 << 20), "int8")


def test_a_chakra_job_takes_its_longest_chain_on_a_cluster(tmp_path):
    """The slowest forward, then the all_reduce beside the backward, then the update."""
    imported = import_chakra(chakra_files(tmp_path, [100, 120, 80, 100, 100, 100, 100, 100]))
    machine = build_machine(load_cluster("dgx_a100_80"), 8, launch_s=0.0)
    lowering = lower(imported.graph, machine)
    result = engine.run(lowering.program, engine.RunOptions(max_iterations=1))
    reduce_s = lowering.collectives[0].alone_s
    expected = 120e-6 + max(reduce_s, 50e-6) + 10e-6
    assert result.iteration_end_ps[0] / 1e12 == pytest.approx(expected, rel=1e-6)


def test_chakra_nodes_run_in_the_order_of_the_file_unless_they_depend_on_later_ones(tmp_path):
    file = tmp_path / "job.0.et"
    file.write_bytes(chakra_bytes(list(reversed(chakra_iteration()))))
    assert import_chakra([file]).graph.programs[0].names == ("forward", "backward", "reduce", "update")


def test_what_a_chakra_trace_does_not_say_is_listed(tmp_path):
    nodes = [*chakra_iteration(0), {"id": 9, "name": "send", "type": 5, "data_deps": [77], "duration_micros": 5}]
    file = tmp_path / "job.3.et"
    file.write_bytes(chakra_bytes(nodes))
    gaps = {gap.what: gap.count for gap in import_chakra([file]).gaps}
    assert gaps["compute nodes without a duration"] == 1
    assert gaps["dependencies on nodes the trace does not have"] == 1
    assert any(what.startswith("point-to-point") for what in gaps)
    assert any(what.startswith("ranks without a trace") for what in gaps)


# PyTorch execution traces


def tensor(number, elements, width=4):
    return [number, number, 0, elements, width, "cuda:0"]


def pytorch_et(splits):
    return {
        "schema": "1.0.1",
        "nodes": [
            {"id": 1, "name": "root", "parent": 0, "inputs": [], "outputs": []},
            {
                "id": 2, "name": "aten::mm", "parent": 1, "rf_id": 1, "tid": 1,
                "inputs": [tensor(10, 12), tensor(11, 20)], "input_shapes": [[3, 4], [4, 5]],
                "outputs": [tensor(12, 15)],
            },
            {
                "id": 3, "name": "record_param_comms", "parent": 1, "rf_id": 2, "tid": 1,
                "inputs": [tensor(12, 15), 7, 0, 0, "all_to_allv", splits, splits],
                "input_types": ["Tensor(c10::Half)", "Int"], "outputs": [tensor(13, 15)],
            },
            {"id": 4, "name": "aten::relu", "parent": 1, "inputs": [tensor(13, 15)], "outputs": [tensor(14, 15)]},
            {"id": 5, "name": "record_param_comms", "parent": 1, "inputs": [7, 0, 0, "wait", [], []], "outputs": []},
        ],
    }  # fmt: skip


def test_an_execution_trace_gives_operators_with_shapes_and_data_dependencies(tmp_path):
    file = tmp_path / "et_0.json"
    file.write_text(json.dumps(pytorch_et([5, 10])))
    imported = import_traces([file])
    (program,) = imported.graph.programs
    work = dict(zip(program.names, program.work, strict=True))
    assert work["aten::mm"] == Gemm(m=3, n=5, k=4, precision="fp32")
    assert work["aten::relu"] == Elementwise(read_bytes=60.0, write_bytes=60.0)
    assert (work["all_to_all"].bytes, work["all_to_all"].dtype) == (30.0, "fp16")
    names = program.names
    waits = {names[t]: {names[d] for d, _ in program.dependencies(t)} for t in range(len(names))}
    assert waits["all_to_all"] == {"record_param_comms (launch)", "aten::mm"}
    assert waits["aten::relu"] == {"aten::relu (launch)", "all_to_all"}
    assert any("no times" in gap.what for gap in imported.gaps)


def test_an_execution_trace_with_nested_attributes_is_read_the_same(tmp_path):
    """Schema 1.1 nests values and attributes, so that objects end inside of nodes."""
    nodes = []
    for node in pytorch_et([5, 10])["nodes"]:
        shapes, types = node.pop("input_shapes", []), node.pop("input_types", [])
        attrs = [{"name": "rf_id", "type": "uint64", "value": node.pop("rf_id", 0)}, {"name": "tid", "value": 1}]
        node["ctrl_deps"] = node.pop("parent")
        node["inputs"] = {"values": node["inputs"], "shapes": shapes, "types": types}
        node["outputs"] = {"values": node["outputs"], "shapes": [], "types": []}
        nodes.append(node | {"attrs": attrs})
    old, new = tmp_path / "old_0.json", tmp_path / "new_0.json"
    old.write_text(json.dumps(pytorch_et([5, 10])))
    new.write_text(json.dumps({"schema": "1.1.0-chakra.0.0.4", "nodes": nodes}))
    a, b = (import_traces([file]).graph.programs[0] for file in (old, new))
    assert a.names == b.names
    assert a.work == b.work
    assert a.dep_task.tolist() == b.dep_task.tolist()


def test_a_kineto_trace_learns_sizes_and_groups_from_its_execution_trace(tmp_path):
    ranks = two_ranks()
    for own in ranks:
        comm = next(e for e in own.events if "nccl" in e["name"])
        comm["args"] = {k: v for k, v in comm["args"].items() if k in ("correlation", "stream", "device")}
    kineto = write_ranks(tmp_path, ranks)
    assert any("size the trace does not say" in gap.what for gap in import_traces(kineto).gaps)
    config = json.dumps([{"pg_name": "5", "ranks": [0, 1]}])
    comms = {
        "id": 3, "name": "record_param_comms", "parent": 1, "outputs": [],
        "inputs": [tensor(12, 500), 7, ["5", "tp"], 0, "allreduce", [], []], "input_types": ["Tensor(float)"],
    }  # fmt: skip
    init = {"id": 2, "name": "## process_group:init ##", "parent": 1, "inputs": [config], "outputs": []}
    files = []
    for rank in range(2):
        files.append(tmp_path / f"et_{rank}.json")
        files[-1].write_text(json.dumps({"schema": "1.0.1", "nodes": [init, comms]}))
    imported = import_traces([*kineto, *files])
    calls = [w for p in imported.graph.programs for w in p.work if isinstance(w, CollectiveCall)]
    assert {(c.communicator, c.bytes, c.dtype) for c in calls} == {("5", 2000.0, "fp32")}
    assert not any("size the trace does not say" in gap.what for gap in imported.gaps)


# nccl-tests

LOG = """# nccl-tests version 2.17.8
# Collective test starting: all_reduce_perf
#  Rank  0 Group  0 Pid 1 on node-a device  0 [0000:1b:00] NVIDIA H100
#  Rank  1 Group  0 Pid 2 on node-b device  0 [0000:1b:00] NVIDIA H100
#       size         count      type   redop    root     time   algbw   busbw  #wrong     time   algbw   busbw  #wrong
    33554432       4194304    double     sum      -1   158724   23.88   42.98       0   159087   23.86   42.95       0
# Collective test concluded: all_reduce_perf
# Collective test starting: hypercube_perf
#  Rank  0 Group  0 Pid 1 on node-a device  0 [0000:1b:00] NVIDIA H100
#       size         count      type   redop    root     time   algbw   busbw  #wrong     time   algbw   busbw  #wrong
    33554432       4194304    double     sum      -1  1.00   23.88   42.98       0  1406.35   23.86   42.95       0
# Collective test starting: alltoall_perf
#  Rank  0 Group  0 Pid 1 on node-a device  0 [0000:1b:00] NVIDIA H100
#       size         count      type   redop    root     time   algbw   busbw  #wrong     time   algbw   busbw  #wrong
    33554432       4194304     float    none      -1  2405.25   23.88   42.98     N/A  1406.35   23.86   42.95     N/A
"""


def test_a_log_with_several_tests_keeps_them_apart(tmp_path):
    file = tmp_path / "node.log"
    file.write_text(LOG)
    found = [(row.op, row.nodes, row.time_s) for row in read_timed_collectives(file)]
    assert found == [("all_reduce", 2, pytest.approx(158724e-6)), ("all_to_all", 1, pytest.approx(2405.25e-6))]


def test_a_log_of_an_older_release_has_no_root(tmp_path):
    """Whole numbers of microseconds must not be taken for the root."""
    file = tmp_path / "all_reduce.log"
    file.write_text(
        "#   Rank  0 Pid 1 on host device  0 [0x00] A100\n"
        "#       size         count    type   redop     time   algbw   busbw  error     time   algbw   busbw  error\n"
        "  8589934592    2147483648   float     sum    70123   122.0   213.0    N/A    70456   121.0   212.0    N/A\n"
    )
    assert [row.time_s for row in read_timed_collectives(file)] == [pytest.approx(70123e-6)]


def test_an_import_of_a_log_lists_what_was_timed(tmp_path):
    file = tmp_path / "node.log"
    file.write_text(LOG)
    imported = import_traces([file])
    assert imported.found == {"logs": 1, "sizes of all_reduce": 1, "sizes of all_to_all": 1}
    assert imported.measured is None


def test_chakra_ranks_that_started_at_other_times_are_one_group(tmp_path):
    files = []
    for rank in range(3):
        nodes = chakra_iteration()
        for node in nodes:
            node["start_time_micros"] = 100 * rank + node["id"]
        files.append(tmp_path / f"job.{rank}.et")
        files[-1].write_bytes(chakra_bytes(nodes))
    assert [p.rank_count for p in import_traces(files).graph.programs] == [3]


def test_each_chakra_rank_has_its_own_gaps(tmp_path):
    """The first rank has all durations, the second lacks one, the third two."""
    files = []
    for rank in range(3):
        nodes = chakra_iteration()
        for node in [n for n in nodes if n["type"] == 4][:rank]:
            node["duration_micros"] = 0
        files.append(tmp_path / f"job.{rank}.et")
        files[-1].write_bytes(chakra_bytes(nodes))
    imported = import_traces(files)
    assert [(g.count, g.ranks) for g in imported.gaps if "without a duration" in g.what] == [(3, (1, 2))]
    assert len(imported.graph.programs) == 1


# Our own Parquet


def test_a_timeline_of_an_import_is_imported_the_same(tmp_path):
    first = imported_from(write_ranks(tmp_path, two_ranks()), out=tmp_path / "out")
    again = imported_from([tmp_path / "out" / "timeline.parquet"])
    for key in ("steps", "stragglers", "iteration_time_s", "breakdown"):
        assert again.summary[key] == first.summary[key]
    assert again.summary["gaps"] == first.summary["gaps"]


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """A run, with traces of two ranks."""
    out = tmp_path_factory.mktemp("traced") / "run"
    return run("zionex_a_128", out=out, report=False, levers=False, ranks=(0, 8))


def test_a_timeline_of_a_run_shows_what_the_run_showed(finished):
    again = imported_from([finished.folder / "timeline.parquet"], ranks=[0, 1, 2, 3])
    window = finished.outcome.analysis.breakdown
    step = next(s for s in again.summary["steps"] if s["step"] == f"iteration {window.window.iteration}")
    column = int(np.flatnonzero(window.ranks == 0)[0])
    assert step["rank"] == 0
    for part in ("compute", "exposed_comm", "idle"):
        assert step[f"{part}_s"] == pytest.approx(getattr(window, f"{part}_ps")[column] / 1e12, abs=1e-9)
    result = engine.run(again.imported.measured.lowered, engine.RunOptions(max_iterations=1))
    ends = again.imported.measured.result.rank_end_ps
    assert np.abs(result.rank_end_ps - ends).max() < 1e-3 * ends.max()


def test_the_chrome_trace_of_a_run_has_its_ranks_and_collectives(finished):
    """All ranks stand in one file, their processes; collectives are known by their arguments."""
    imported = import_traces([finished.folder / "trace.json.gz"])
    assert imported.ranks == (0, 8)
    iterations = len(finished.outcome.result.records)
    calls = [w for w in finished.outcome.graph.programs[0].work if isinstance(w, CollectiveCall)]
    for program in imported.graph.programs:
        found = [w.op for w in program.work if isinstance(w, CollectiveCall)]
        assert sorted(found) == sorted([w.op for w in calls] * iterations)


def test_groups_of_ranks_stay_apart_in_a_timeline(tmp_path):
    """Two instances of a communicator, ranks 0 and 1, and 2 and 3: a late rank 3 makes rank 2 wait and nobody else."""
    builder = ProgramBuilder("all", range(4), ["default"])
    late = builder.task("work", "default", Measured(np.array([1e-6, 1e-6, 1e-6, 9e-6]), Category.COMPUTE))
    builder.task("reduce", "default", CollectiveCall("all_reduce", "pair", 64.0), after=[late])
    graph = TaskGraph((builder.build(),), {"pair": np.array([0, 0, 1, 1])})
    lowered = lower(graph, build_machine(load_cluster("dgx_a100_80"), 4, launch_s=0.0)).program
    result = engine.run(lowered, engine.RunOptions(max_iterations=1))
    file = tmp_path / "timeline.parquet"
    metadata = program_metadata(graph, result)
    write_parquet(timeline_blocks(graph.programs, result), file, metadata=metadata)
    again = import_traces([file])
    assert again.graph.communicators["pair"].tolist() == [0, 0, 1, 1]
    waiting = again.measured.result.records[0].groups[0].waiting_rows_ps
    assert waiting.sum(axis=0).tolist() == [0, 0, 8_000_000, 0]


def test_a_timeline_of_several_iterations_has_an_operator_per_collective(finished):
    again = imported_from([finished.folder / "timeline.parquet"], ranks=[0])
    names = [row.name for row in again.analysis.operators]
    assert len(names) == len(set(names))
    assert not [name for name in names if "@" in name]


# Formats


def test_formats_are_told_by_content(tmp_path):
    (kineto,) = write_ranks(tmp_path, two_ranks()[:1])
    chakra = chakra_files(tmp_path, [1])[0]
    log = tmp_path / "any.txt"
    log.write_text(LOG)
    et = tmp_path / "any.json"
    et.write_text(json.dumps(pytorch_et([15])))
    assert [detect(f) for f in (kineto, chakra, log, et)] == [
        Format.KINETO, Format.CHAKRA, Format.NCCL_TESTS, Format.PYTORCH_ET,
    ]  # fmt: skip


def test_two_timelines_are_two_runs(tmp_path):
    imported_from(write_ranks(tmp_path, two_ranks()), out=tmp_path / "out")
    file = tmp_path / "out" / "timeline.parquet"
    with pytest.raises(InputError, match="one at a time"):
        import_traces([file, file])


def test_measured_work_keeps_its_seconds_on_any_machine():
    machine = build_machine(load_cluster("dgx_a100_80"), 1, launch_s=0.0)
    assert machine.compute.duration_s(Measured(0.25, Category.COMPUTE, "gemm")) == 0.25


@pytest.mark.parametrize(("comm_type", "op"), [(3, "gather"), (4, "scatter")])
def test_chakra_gathers_and_scatters_run_on_a_machine(tmp_path, comm_type, op):
    """The root's port carries the parts of the seven others: at least 7/8 of the bytes at a port's rate."""
    nodes = chakra_iteration()
    nodes[1]["attrs"] = {"comm_type": comm_type, "comm_size": 1 << 26}
    files = []
    for rank in range(8):
        files.append(tmp_path / f"job.{rank}.et")
        files[-1].write_bytes(chakra_bytes(nodes))
    cluster = load_cluster("dgx_a100_80")
    found = replayed(job_of(import_traces(files)), build_machine(cluster, 8, launch_s=0.0))
    (call,) = (w for w in found.graph.programs[0].work if isinstance(w, CollectiveCall))
    assert (call.op, call.bytes) == (op, 1 << 26)
    length_s = int(found.measured.result.iteration_end_ps[0]) / 1e12 - 110e-6
    assert length_s > 7 / 8 * (1 << 26) / 300e9


@pytest.mark.parametrize(
    ("name", "elements", "size"),
    [
        ("gather", {"In msg nelems": 1000, "Out msg nelems": 0}, 8000.0),
        ("scatter", {"In msg nelems": 0, "Out msg nelems": 1000}, 8000.0),
        ("all_gather", {"In msg nelems": 1000, "Out msg nelems": 2000}, 8000.0),
        ("reduce_scatter", {"In msg nelems": 1000, "Out msg nelems": 500}, 4000.0),
    ],
)
def test_sizes_are_those_of_nccl_tests(tmp_path, name, elements, size):
    """Of two ranks and fp32: gather and scatter count what the root has."""
    own = KinetoRank(0, 2)
    own.step(1, 0.0, 100.0)
    told = {"Collective name": name, "dtype": "Float", "Group size": 2, **elements}
    own.kernel("ncclDevKernel_SendRecv", (5.0, 5.0), (20.0, 10.0), **told)
    (program,) = import_traces([own.write(tmp_path / "trace.json")]).graph.programs
    (call,) = (w for w in program.work if isinstance(w, CollectiveCall))
    assert (call.op, call.bytes) == (name, size)
