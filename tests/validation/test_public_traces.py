"""Imports of public traces against ground truth computed from the same files by others' scripts."""

from __future__ import annotations

import csv
import functools
import gzip
import json
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from benchmarks.traces import jittered_copies, simulate_in_fresh_process
from hardware_specs.loader import load_cluster
from reports.collective_table import elements
from simulator.collective_calls import CollectiveCall
from simulator.engine import RunOptions, run
from simulator.lowering import build_machine
from tests.trace_files import public
from traces.analysis import analyse_trace
from traces.chakra.importer import import_chakra
from traces.collective_args import DTYPES
from traces.formats import import_traces
from traces.kineto.importer import import_kineto
from traces.nccl_tests import read_timed_collectives
from traces.replay import job_of, replayed
from traces.replay.ranks import with_clones

TRACES = {
    "param/dlrm_kineto_8xV100": ("dlrm_8xV100_torchrec", "dlrm_kineto", "*.gz"),
    "hta/trace_diff_control_8xA100": ("a100_8ranks_rec_rank3", "*.gz"),
    "hta/nccl_data_2xA100": ("a100_2ranks_ddp", "*.gz"),
}
ROOT = Path(__file__).resolve().parents[2]
ONE_POINT = 0.01
"""What a part of a step may differ from ground truth by, as a share of the step: one percentage point."""


@functools.cache
def imported(trace):
    return import_kineto(public(*TRACES[trace]))


def truth(name, trace):
    (file,) = public(f"ground_truth_{name}.csv")
    with file.open(encoding="utf-8") as stream:
        return [row for row in csv.DictReader(stream) if row["trace"] == trace]


@pytest.mark.parametrize("trace", TRACES)
def test_the_breakdown_of_every_step_is_the_ground_truth(trace):
    own = imported(trace)
    rows = {(row.rank, row.step): row for row in analyse_trace(own, own.measured).steps}
    expected = truth("steps", trace)
    assert len(rows) == len(expected) > 0
    for line in expected:
        row = rows[int(line["rank"]), line["step"]]
        assert row.step_s * 1e6 == pytest.approx(float(line["step_us"]), rel=1e-4)
        whole = row.step_s * 1e6
        for seconds, column in (
            (row.compute_s, "window_compute_us"),
            (row.exposed_comm_s, "window_exposed_comm_us"),
            (row.comm_s, "window_comm_us"),
            (row.copy_s, "window_mem_us"),
            (row.idle_s, "window_gpu_idle_us"),
        ):
            assert abs(seconds * 1e6 - float(line[column])) / whole < ONE_POINT / 10, (
                line["rank"],
                line["step"],
                column,
            )


@pytest.mark.parametrize("trace", TRACES)
def test_collectives_have_the_sizes_of_the_ground_truth(trace):
    """nccl-tests' size of all_to_all, all_reduce and broadcast is the input."""
    for program in imported(trace).graph.programs:
        found = [float(np.sum(w.bytes)) for w in program.work if isinstance(w, CollectiveCall)]
        rows = [row for row in truth("collectives", trace) if int(row["rank"]) == program.ranks[0]]
        assert found == [float(row["in_elems"]) * DTYPES[row["dtype"].lower()][1] for row in rows]


@pytest.mark.parametrize("trace", TRACES)
def test_the_engine_replays_the_trace_to_the_picosecond(trace):
    measured = imported(trace).measured
    result = run(measured.lowered, RunOptions(max_iterations=1))
    assert (result.rank_end_ps == measured.result.rank_end_ps).all()
    for own, again in zip(measured.result.records[0].groups, result.records[0].groups, strict=True):
        assert (own.end_ps == again.end_ps).all()


def test_waiting_and_transfer_of_matched_collectives():
    """Net transfer times of the eight matched collectives within the two microseconds their ends are apart."""
    (file,) = public("dlrm_8xV100_torchrec", "dlrm_8xV100_collectives_matched.json")
    matched = json.loads(file.read_text())["collectives"]
    own = imported("param/dlrm_kineto_8xV100")
    rows = [row for row in analyse_trace(own, own.measured).collectives if row.group == "rank 0"]
    assert len(rows) == len(matched) == 8
    for row, expected in zip(rows, matched, strict=True):
        assert row.transfer_s.mean * 1e6 == pytest.approx(expected["net_us"], abs=expected["end_spread_us"] + 1)


def test_a_pair_knows_the_splits_and_keeps_the_times():
    kineto, ets = (public("dlrm_8xV100_torchrec", part, "*.gz") for part in ("dlrm_kineto", "dlrm_pytorch_et"))
    both = import_traces([*kineto, *ets])
    alone = imported("param/dlrm_kineto_8xV100")
    assert both.measured.result.rank_end_ps.tolist() == alone.measured.result.rank_end_ps.tolist()
    assert not any("left out" in gap.what or "without their" in gap.what for gap in both.gaps)
    assert {float(np.sum(w.bytes)) for p in both.graph.programs for w in p.work if isinstance(w, CollectiveCall)} >= {
        24576.0, 192.0, 1536.0, 1576964.0, 448.0, 907840.0,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("parts", "collectives"),
    [
        (("dlrm_8xV100_torchrec", "dlrm_pytorch_et", "*.gz"), 64),
        (("resnet_2gpu_et", "*.gz"), 21),
        (("chakra_samples", "1.0.2*"), 10),
    ],
)
def test_execution_traces_alone(parts, collectives):
    own = import_traces(public(*parts))
    assert own.found["collectives"] == collectives
    world_size = own.world_size
    machine = build_machine(load_cluster("dgx_a100_80"), world_size, launch_s=5e-6)
    result = replayed(with_clones(job_of(own)), machine).measured.result
    assert result.iteration_end_ps[0] > 0
    assert len(result.ranks) == world_size


def test_logs_of_nccl_tests():
    for file in public("nccl_tests_logs", "*.gz"):
        rows = read_timed_collectives(file)
        assert len(rows) >= 29
        busiest = max(row.bytes / row.time_s for row in rows)
        assert 1e9 < busiest < 1e12, file.name


WORD_BYTES = {"int8": 1, "uint8": 1, "half": 2, "bfloat16": 2, "float": 4, "int32": 4, "double": 8}


def test_count_column_is_that_of_nccl_tests():
    """Real logs of five operations: elements of the buffer, or of a rank's part."""
    seen = set()
    for file in public("nccl_tests_logs", "*.gz"):
        lines = gzip.decompress(file.read_bytes()).decode().splitlines()
        words = [line.split() for line in lines if re.match(r"\s*[1-9]\d*\s+\d+\s+[a-z]", line)]
        for row, (size, count, kind, *_) in zip(read_timed_collectives(file), words, strict=True):
            ranks = row.nodes * row.ranks_per_node
            if int(size) % (16 * ranks) == 0:  # else releases differ in how they round
                assert int(count) == elements(row.op, ranks, int(size), WORD_BYTES[kind]), (file.name, row)
                seen.add(row.op)
    assert seen >= {"all_reduce", "all_gather", "reduce_scatter", "all_to_all", "broadcast"}


def test_64_chakra_ranks_are_one_program():
    for kind in ("identical", "jitter"):
        own = import_chakra(public("chakra_dlrm_64", kind, "*.et"))
        assert [(p.rank_count, p.task_count) for p in own.graph.programs] == [(64, 25)]
        seconds = sum(np.asarray(getattr(w, "seconds", 0.0)) for w in own.graph.programs[0].work)
        expected = 2.505e-3 if kind == "identical" else pytest.approx(2.505e-3, rel=0.2)
        assert np.mean(seconds) == pytest.approx(expected) if kind == "identical" else np.mean(seconds) == expected


@pytest.mark.slow
def test_4096_chakra_ranks_import_and_simulate_in_seconds(tmp_path):
    """At most 10 s, of which the engine at most 1 s (one core's time), within 1 GiB."""
    jittered_copies(public("chakra_dlrm_64", "identical", "dlrm.0.et")[0], tmp_path, 4096)
    found = simulate_in_fresh_process(tmp_path)
    assert found["engine_s"] < 1.0
    assert found["import_s"] + found["engine_s"] < 10.0
    assert found["peak_mib"] < 1024


def test_memory_is_bounded_by_the_events_kept(tmp_path):
    """A trace of 400 MB whose events are Python functions, but for one step, takes no more memory than a small one."""
    filler = b'{"ph":"X","cat":"python_function","name":"%s","pid":1,"tid":1,"ts":1.0,"dur":1.0},\n' % (b"f" * 300)
    file = tmp_path / "large.json"
    kept = [
        {"ph": "X", "cat": "user_annotation", "name": "ProfilerStep#1", "pid": 1, "tid": 1, "ts": 0, "dur": 100},
        {"ph": "X", "cat": "kernel", "name": "gemm", "pid": 0, "tid": 7, "ts": 5, "dur": 9, "args": {"stream": 7}},
    ]
    with file.open("wb") as stream:
        stream.write(b'{"traceEvents":[\n')
        for _ in range(1000):
            stream.write(filler * 1000)
        stream.write(json.dumps(kept)[1:].encode() + b"}")
    assert file.stat().st_size > 350e6
    modules = "from pathlib import Path; from benchmarks.traces import peak_mib"
    action = f"from traces.kineto.importer import import_kineto; import_kineto([Path({str(file)!r})])"
    code = f"{modules}; {action}; print(peak_mib())"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert float(done.stdout) < 250
