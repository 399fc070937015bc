"""The generator for ranks on CPUs: one thread that launches nothing, collectives beside it."""

from dataclasses import replace

import numpy as np
import pytest

from simulator.collective_calls import CollectiveCall
from simulator.engine import RunOptions, run
from simulator.lowering import build_machine, lower
from simulator.operators import Copy, EmbeddingLookup, EmbeddingUpdate, Gemm, HostWork, Marker
from simulator.work import touched_bytes
from tests.host_machines import costs, host, kernels
from tests.pipeline_jobs import MODEL, small_plan, small_settings
from workloads.dlrm.iteration.generate import generate
from workloads.dlrm.model.model import load_model
from workloads.graph.schedule import SCHEDULES

MEASURED = kernels(
    collective_cores=0.5,
    gemm=costs(flop=1e-11),
    batched=costs(vector=1e-10),
    lookup=costs(lookup=1e-8),
    update=costs(lookup=1e-8),
    stream=costs(byte=1e-10),
    host=costs(launch=1e-6, collective=1e-5),
)


def program(pipeline="sparse_dist", planner="table_wise", **changes):
    settings = small_settings(pipeline=pipeline, on_host=True, **changes)
    (found,) = generate(load_model(MODEL), small_plan(planner=planner), settings).programs
    return found


def test_all_but_collectives_run_on_the_host_thread_in_the_order_of_their_launches():
    found = program()
    assert [stream.name for stream in found.streams] == ["host", "comm", "input_comm"]
    names = [name for name, stream in zip(found.names, found.stream_of, strict=True) if stream == 0]
    for name in ("column_lookup", "top_0_forward", "column_update", "dense_optimizer"):
        assert names.index(name) == names.index(f"launch_{name}") + 1


@pytest.mark.parametrize("planner", ["table_wise", "row_wise"])
def test_launches_know_what_the_kernel_before_passed_over(planner):
    found, before = program(planner=planner), 0.0
    launches = 0
    for work, stream in zip(found.work, found.stream_of, strict=True):
        if isinstance(work, HostWork):
            assert np.array_equal(work.after_bytes, before)
            launches += 1
        elif stream == 0 and np.any(touched_bytes(work)):
            before = touched_bytes(work)
    assert launches > 40
    assert np.all(np.asarray(before) > 0.0)


def test_a_reduce_scatter_is_copied_by_the_call_that_issues_it():
    found = program(planner="row_wise", copied=frozenset({"reduce_scatter"}))
    for task, work in enumerate(found.work):
        if isinstance(work, CollectiveCall):
            (issue,) = [before for before, _ in found.dependencies(task) if found.names[before].startswith("launch_")]
            copied = work.bytes if work.op == "reduce_scatter" else 0.0
            assert np.array_equal(found.work[issue].copied_bytes, copied)
    assert any(np.any(np.asarray(work.copied_bytes) > 0.0) for work in found.work if isinstance(work, HostWork))
    others = program(planner="row_wise")
    assert {work.copied_bytes for work in others.work if isinstance(work, HostWork)} == {0.0}


def test_launches_of_kernels_on_gpus_find_the_host_as_it_was():
    (found,) = generate(load_model(MODEL), small_plan(), small_settings(pipeline="none")).programs
    assert {work.after_bytes for work in found.work if isinstance(work, HostWork)} == {0.0}


@pytest.mark.parametrize("pipeline", ["none", "sparse_dist"])
def test_indices_are_waited_for_and_joined_where_they_are_looked_up(pipeline):
    found = program(pipeline)
    place = {name: task for task, name in enumerate(found.names)}
    assert place["input_dist_recat"] + 2 == place["column_lookup"]
    sent = (place["column_input_dist_values"], 0 if pipeline == "none" else 1)
    assert sent in found.dependencies(place["input_dist_recat"])


def test_process_groups_have_as_many_workers_as_their_library_has_threads():
    streams = {stream.name: stream.workers for stream in program(collective_threads=2).streams}
    assert streams == {"host": 1, "comm": 2, "input_comm": 2}


def lookup_of(work):
    (found,) = (each for each in work if isinstance(each, EmbeddingLookup))
    return found


def test_threads_wait_for_the_one_with_most_lookups():
    """Of what caches do not serve it has no less than the mean; one thread waits for none."""
    alone, several = lookup_of(program().work), lookup_of(program(threads=4).work)
    assert alone.cpu.busiest is None
    most, rows = several.cpu.busiest, several.cpu.rows
    assert most.lookups == pytest.approx(several.lookups), "all tables have the same pooling"
    assert np.all(most.missed.bytes >= rows.bytes * (1.0 - 1e-9))
    assert np.any(most.missed.bytes > 1.1 * rows.bytes), "small tables are in caches"
    assert rows.bytes == pytest.approx(alone.cpu.rows.bytes)


def test_the_busiest_thread_has_the_tables_of_large_pooling_that_are_neighbours():
    """One rank of two threads: of 26 tables the last 13 have three times the pooling of the first."""
    settings, plan = small_settings(1, pipeline="none", on_host=True, threads=2), small_plan(1)
    uneven = replace(plan.tables, pooling_factor=np.where(np.arange(26) < 13, 1.0, 3.0))
    (found,) = generate(load_model(MODEL), replace(plan, tables=uneven), settings).programs
    lookup = lookup_of(found.work)
    assert lookup.cpu.busiest.lookups == pytest.approx(1.5 * lookup.lookups)
    assert lookup.cpu.busiest.missed.at(0.0) == pytest.approx(1.5 * lookup.cpu.rows.at(0.0))


def test_kernels_are_told_what_caches_do_not_serve():
    """Without a cache all; with one that holds everything no row, weight or state comes from memory.

    Rows fill their lines; a state of 4 bytes brings one of 64 along.
    """
    found = program()
    (lookup,) = (work for work in found.work if isinstance(work, EmbeddingLookup))
    (update,) = (work for work in found.work if isinstance(work, EmbeddingUpdate))
    for misses, whole in (
        (lookup.cpu.rows, lookup.row_bytes),
        (update.cpu.rows, update.weight_bytes),
        (update.cpu.state, 16 * np.asarray(update.state_bytes)),
    ):
        assert misses.at(0.0) == pytest.approx(np.broadcast_to(whole, 2))
        assert np.all(np.diff(misses.bytes, axis=0) <= 1e-9)
        assert np.max(misses.at(2.0**28)) < 0.5 * np.max(whole)


@pytest.mark.parametrize(("planner", "lines"), [("column_wise", 4.0), ("data_parallel", 1.0)])
def test_updates_of_narrow_rows_fetch_lines_but_not_those_of_whole_tables(planner, lines):
    """Half of a row of 32 bytes is a quarter of a line; a pass over copies reads all of them, whatever their rows."""
    settings, plan = small_settings(pipeline="none", on_host=True), small_plan(planner=planner)
    narrow = replace(plan, tables=replace(plan.tables, element_bytes=plan.tables.element_bytes // 2))
    (found,) = generate(load_model(MODEL), narrow, settings).programs
    (update,) = (each for each in found.work if isinstance(each, EmbeddingUpdate))
    assert update.cpu.rows.at(0.0) == pytest.approx(lines * np.broadcast_to(update.weight_bytes, 2))


def test_the_dot_interaction_is_a_product_of_each_sample_and_two_of_its_gradient():
    found = program()
    named = zip(found.names, found.work, strict=True)
    products = {name: work for name, work in named if isinstance(work, Gemm) and work.count > 1}
    assert list(products) == ["interaction", "interaction_right_gradient", "interaction_left_gradient"]
    flops = {name: 2 * work.count * work.m * work.n * work.k for name, work in products.items()}
    assert len(set(flops.values())) == 1
    assert flops["interaction"] == 512 * 2 * 27 * 27 * 32


@pytest.mark.parametrize("planner", ["table_wise", "column_wise", "row_wise", "data_parallel"])
def test_pooled_vectors_are_copied_shard_by_shard(planner):
    """Each of 26 tables in one part, or in two ranges of columns: into the interaction, and gradients out of it."""
    parts = 52 if planner == "column_wise" else 26
    copies = [work for work in program(planner=planner).work if getattr(work, "access", "") == "columns"]
    assert [(copy.parts, copy.pieces) for copy in copies] == [(parts, parts * 512)] * 2


def test_the_gradient_of_pooled_vectors_is_copied_out_of_that_of_the_interaction():
    found = program()
    (copied,) = (w for n, w in zip(found.names, found.work, strict=True) if n == "interaction_pooled_gradient")
    assert copied.read_bytes == copied.write_bytes == 512 * 26 * 32 * 4


@pytest.mark.parametrize("planner", ["greedy", "row_wise", "data_parallel"])
@pytest.mark.parametrize("pipeline", sorted(SCHEDULES))
def test_every_pipeline_runs_and_waits_for_no_more_than_its_work(pipeline, planner):
    settings = small_settings(pipeline=pipeline, on_host=True)
    graph = generate(load_model(MODEL), small_plan(planner=planner), settings)
    machine = build_machine(host(2, MEASURED), 2, launch_s=1.0)
    lowered = lower(graph, machine)
    result = run(lowered.program, RunOptions(max_iterations=4))
    (found,) = graph.programs
    busy_s = sum(
        np.max(machine.compute.duration_s(work)) for work in found.work if not isinstance(work, CollectiveCall)
    )
    taken_s = int(result.iteration_end_ps[-1] - result.iteration_end_ps[-2]) / 1e12
    alone_s = sum(info.alone_s for info in lowered.collectives)
    assert 0.9 * busy_s <= taken_s <= 2 * (busy_s + alone_s)


def test_a_rank_that_is_alone_copies_what_it_would_send():
    """Each all_to_all becomes a copy of its bytes by the host; an all_reduce nothing."""
    settings = small_settings(pipeline="none", on_host=True, world_size=1)
    (found,) = generate(load_model(MODEL), small_plan(planner="table_wise", world_size=1), settings).programs
    assert not [work for work in found.work if isinstance(work, CollectiveCall)]
    by_name = dict(zip(found.names, found.work, strict=True))
    pooled = by_name["column_output_dist_forward"]
    assert isinstance(pooled, Copy)
    assert pooled.bytes == by_name["column_output_dist_backward"].bytes
    assert isinstance(by_name["gradient_all_reduce_0"], Marker)
    assert set(found.stream_of.tolist()) == {0}
