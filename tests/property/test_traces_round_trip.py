"""Whatever a trace has, each export gives its times and dependencies back."""

from __future__ import annotations

import gzip
import json
from functools import cache

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings

import dlrmsim
from dlrmsim.verbs.export import WRITERS
from simulator.collective_calls import CollectiveCall
from tests.trace_files import public, write_ranks
from tests.trace_jobs import actions, two_traces
from traces.chakra.messages import COMM_COLL, read_nodes
from traces.export import write_chrome
from traces.formats import import_traces
from traces.kineto.importer import import_kineto
from traces.replay import job_of, replayed
from traces.replay.absent import with_late_absent_ranks
from traces.source import chunks


def exported(imported, form, folder):
    folder.mkdir(exist_ok=True)
    for old in folder.iterdir():
        old.unlink()
    WRITERS[form](imported, folder)
    return import_traces(sorted(folder.iterdir()))


def assert_same_dependencies(one, two):
    for p, q in zip(one.graph.programs, two.graph.programs, strict=True):
        assert p.names == q.names
        assert p.sections == q.sections
        assert p.categories == q.categories
        assert np.array_equal(p.ranks, q.ranks)
        assert np.array_equal(p.dep_ptr, q.dep_ptr)
        assert np.array_equal(p.dep_task, q.dep_task)
        assert [p.streams[s] for s in p.stream_of] == [q.streams[s] for s in q.stream_of]
        for v, w in zip(p.work, q.work, strict=True):
            if isinstance(v, CollectiveCall):
                assert (v.op, v.dtype, v.communicator) == (w.op, w.dtype, w.communicator)
                assert np.array_equal(v.bytes, w.bytes)


def assert_same_times(one, two):
    for a, b in zip(one.measured.result.records[0].groups, two.measured.result.records[0].groups, strict=True):
        assert np.array_equal(a.start_ps, b.start_ps)
        assert np.array_equal(a.end_ps, b.end_ps)
        assert np.array_equal(a.waiting_ps, b.waiting_ps)
    assert one.steps == two.steps


@pytest.mark.parametrize("form", ["chrome", "parquet"])
@settings(max_examples=40, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=actions)
def test_times_and_dependencies_come_back_exactly(tmp_path, form, steps):
    ranks = two_traces(steps)
    if not any(event["cat"] in ("kernel", "gpu_memcpy") for event in ranks[0].events):
        return
    imported = import_kineto(write_ranks(tmp_path, ranks))
    again = exported(imported, form, tmp_path / form)
    assert_same_dependencies(imported, again)
    assert_same_times(imported, again)


@settings(max_examples=40, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=actions)
def test_chakra_keeps_dependencies_exactly_and_durations_to_its_microsecond(tmp_path, steps):
    ranks = two_traces(steps)
    if not any(event["cat"] in ("kernel", "gpu_memcpy") for event in ranks[0].events):
        return
    imported = import_kineto(write_ranks(tmp_path, ranks))
    again = exported(imported, "chakra", tmp_path / "chakra")
    assert_same_dependencies(imported, again)
    pairs = zip(job_of(imported).durations_ps, job_of(again).durations_ps, strict=True)
    assert max(int(np.abs(a - b).max()) for a, b in pairs) <= 500_000


def assert_events_nest(file):
    """What Chrome's format asks of complete events on one track."""
    tracks = {}
    for event in json.loads(gzip.decompress(file.read_bytes()))["traceEvents"]:
        if event["ph"] == "X":
            start = round(event["ts"] * 1e6)
            tracks.setdefault((event["pid"], event["tid"]), []).append((start, start + round(event["dur"] * 1e6)))
    for spans in tracks.values():
        inside = []
        for start, end in sorted(spans, key=lambda span: (span[0], -span[1])):
            while inside and inside[-1] <= start:
                inside.pop()
            assert not inside or end <= inside[-1]
            inside.append(end)


@settings(max_examples=40, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=actions)
def test_events_of_a_track_nest(tmp_path, steps):
    ranks = two_traces(steps)
    assume(any(event["cat"] in ("kernel", "gpu_memcpy") for event in ranks[0].events))
    write_chrome(import_kineto(write_ranks(tmp_path, ranks)), tmp_path)
    for rank in range(2):
        assert_events_nest(tmp_path / f"rank{rank}.json.gz")


V100, A100 = ("dlrm_8xV100_torchrec", "dlrm_kineto", "*.gz"), ("a100_8ranks_rec_rank3", "*.gz")


@cache
def public_trace(*parts):
    return import_kineto(public(*parts))


@pytest.mark.parametrize("form", ["chrome", "parquet"])
@pytest.mark.parametrize("parts", [V100, A100], ids=["V100", "A100"])
def test_public_traces_come_back_exactly(tmp_path, form, parts):
    imported = public_trace(*parts)
    again = exported(imported, form, tmp_path / form)
    assert_same_dependencies(imported, again)
    assert_same_times(imported, again)
    if form == "chrome":
        for file in (tmp_path / form).iterdir():
            assert_events_nest(file)


def test_a_public_trace_comes_back_from_chakra(tmp_path):
    imported = public_trace(*V100)
    again = exported(imported, "chakra", tmp_path / "chakra")
    assert_same_dependencies(imported, again)
    for a, b in zip(job_of(imported).durations_ps, job_of(again).durations_ps, strict=True):
        assert np.abs(a - b).max() <= 500_000


def test_a_replay_can_be_exported_and_read_again(tmp_path):
    """Its absent ranks have no tails behind their collectives: the programs are completed when they are read."""
    imported = public_trace(*A100)
    late = replayed(with_late_absent_ranks(job_of(imported)))
    again = exported(late, "parquet", tmp_path / "parquet")
    assert again.world_size == 8
    assert [(s.rank, s.start_ps, s.end_ps) for s in again.steps] == [(s.rank, s.start_ps, s.end_ps) for s in late.steps]
    ends = max(int(g.end_ps.max()) for g in late.measured.result.records[0].groups)
    assert max(int(g.end_ps.max()) for g in again.measured.result.records[0].groups) == ends


def test_exported_chakra_nodes_are_those_that_another_simulator_ran(tmp_path):
    """Written again, a trace that ASTRA-sim ran has its nodes: types, durations, attributes and their fields."""
    (file,) = public("chakra_dlrm_64", "jitter", "dlrm.7.et")
    again = tmp_path / "trace.7.et"
    WRITERS["chakra"](import_traces([file]), tmp_path)
    before, after = ({n.name: n for n, *_ in read_nodes(f, chunks(f))} for f in (file, again))
    assert before.keys() == after.keys()
    names = {n.id: n.name for n in after.values()}
    for name, node in before.items():
        own = after[name]
        assert (own.type, own.duration_micros) == (node.type, node.duration_micros) or node.type == COMM_COLL
        attributes = {a.name: (a.WhichOneof("value"), getattr(a, a.WhichOneof("value"))) for a in own.attr}
        for attribute in node.attr:
            kind = attribute.WhichOneof("value")
            assert attributes[attribute.name] == (kind, getattr(attribute, kind))
        needed = {other.name for other in before.values() if other.id in node.data_deps}
        assert needed == {names[d] for d in own.data_deps} - {names[d] for d in own.ctrl_deps}


def meetings(graph):
    """Name of each call with the ranks that meet in it."""
    found = set()
    for program in graph.programs:
        for name, work in zip(program.names, program.work, strict=True):
            if isinstance(work, CollectiveCall):
                instances = graph.communicators[work.communicator]
                found |= {(name, tuple(np.flatnonzero(instances == i).tolist())) for i in set(instances[program.ranks])}
    return found


@pytest.mark.parametrize("form", sorted(WRITERS))
def test_ranks_that_meet_in_a_pipeline_meet_in_each_export(tmp_path, form):
    """Tensor groups of two stages have one name and other calls."""
    few = ["nodes=4", "workload.sequences=4"]
    ran = dlrmsim.run("llama3_70b_3d_256", settings=few, out=tmp_path / "run", report=False, levers=False)
    imported = import_traces([ran.folder / "timeline.parquet"])
    calls = meetings(imported.graph)
    assert len({ranks for name, ranks in calls if "layer" in name}) >= 4, "a tensor group for each stage"
    assert meetings(exported(imported, form, tmp_path / form).graph) == calls
