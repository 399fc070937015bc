"""Passes, CUDA graphs and memory of pipelines."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from simulator.categories import Category
from simulator.collective_calls import CollectiveCall
from simulator.operators import HostWork, Marker
from simulator.program import Program
from tests.pipeline_jobs import MODEL, read_at, small_plan, small_program, small_settings
from workloads.dlrm.iteration.memory import bytes_beside_tables, memory_per_rank
from workloads.dlrm.model.model import load_model
from workloads.dlrm.model.tables import expand_tables
from workloads.graph.passes import PassBuilder
from workloads.graph.schedule import SCHEDULES


def test_lags_in_passes_become_lags_in_iterations() -> None:
    """Pass p of iteration i waits for what is so many passes before, in the same or an earlier iteration."""
    builder = PassBuilder(np.arange(1), ("s",), passes=3)
    for number in range(3):
        task = builder.task("a", "s", Marker(), section="x")
        builder.depend(task, "a", lag=4)
        if builder.last_pass:
            builder.task("end", "s", Marker(), section="x")
        builder.depend(task, "end", lag=1)
        if number < 2:
            builder.next_pass()
    program = builder.build()
    assert program.names == ("a", "a_pass_1", "a_pass_2", "end_pass_2")
    assert program.dependencies(0) == [(2, 2), (3, 1)]
    assert program.dependencies(1) == [(0, 1)]
    assert program.dependencies(2) == [(1, 1)]


def test_waiting_for_what_no_pass_does_is_a_fault() -> None:
    builder = PassBuilder(np.arange(1), ("s",), passes=1)
    builder.depend(builder.task("a", "s", Marker(), section="x"), "typo", lag=1)
    with pytest.raises(KeyError, match="typo"):
        builder.build()


def test_waiting_for_a_later_pass_is_a_fault() -> None:
    builder = PassBuilder(np.arange(1), ("s",), passes=2)
    task = builder.task("a", "s", Marker(), section="x")
    with pytest.raises(ValueError, match="later pass"):
        builder.depend(task, "a", lag=-1)


@pytest.mark.parametrize("pipeline", sorted(SCHEDULES))
def test_caches_are_filled_before_their_lookup(pipeline: str) -> None:
    """A pass ahead in the prefetching pipeline, in others right before the lookup, on its stream."""
    program = small_program(small_settings(pipeline=pipeline), cached=True)
    fill, lookup = (program.names.index(name) for name in ("column_cache_fill", "column_lookup"))
    assert {lag for task, lag in program.dependencies(lookup) if task == fill} == {int(pipeline == "prefetch")}
    assert (program.stream_of[fill] == program.stream_of[lookup]) == (pipeline != "prefetch")


def launches(program: Program) -> list[str]:
    return [name for name, work in zip(program.names, program.work, strict=True) if isinstance(work, HostWork)]


def test_a_graph_of_the_iteration_is_launched_once() -> None:
    """All kernels and collectives wait for one launch; the host waits for nothing, sizes are known."""
    program = small_program(small_settings(cuda_graph="iteration", pipeline="sparse_dist"))
    assert launches(program) == ["launch_graph_0"]
    assert not [name for name in program.names if "splits" in name]
    graph = program.names.index("launch_graph_0")
    for task, category in enumerate(program.categories):
        if category is not Category.HOST:
            assert (graph, 0) in program.dependencies(task)


def test_a_graph_of_the_network_ends_at_collectives_and_embeddings() -> None:
    """Each dense kernel is in a graph; between two of a graph nothing else is launched."""
    program = small_program(small_settings(cuda_graph="network"))
    dense = {
        "bottom_mlp_forward",
        "top_mlp_forward",
        "top_mlp_backward",
        "bottom_mlp_backward",
        "loss",
        "loss_backward",
    }
    for task, section in enumerate(program.sections):
        before = [program.names[t] for t, lag in program.dependencies(task) if lag == 0]
        graphs = [name for name in before if name.startswith("launch_graph")]
        if program.categories[task] is Category.COMPUTE:
            assert len(graphs) == (section in dense or section.startswith(("interaction", "gradient")))
        elif isinstance(program.work[task], CollectiveCall):
            assert graphs == []
    eager = small_program(small_settings())
    assert len(launches(program)) < len(launches(eager)) / 2


def test_memory_of_pipelines() -> None:
    """Batches on the device as the schedule has them; semi_sync keeps the pooled vectors of a batch more."""
    model, plan = load_model(MODEL), small_plan()
    uses = {name: memory_per_rank(model, plan, small_settings(pipeline=name)) for name in SCHEDULES}
    inputs = {name: use.tiers["hbm"]["inputs in flight"] for name, use in uses.items()}
    exchanged = inputs["inter_iteration"] - inputs["none"]
    copied = (inputs["none"] - exchanged) / 2
    expected = {"sparse_dist": (3, 4), "fused_sparse_dist": (3, 4), "prefetch": (4, 5), "semi_sync": (4, 5)}
    for name, (batches, copies) in expected.items():
        assert inputs[name] == pytest.approx(batches * copied + copies * exchanged)
    extra = uses["semi_sync"].tiers["hbm"]["activations"] - uses["sparse_dist"].tiers["hbm"]["activations"]
    assert extra == pytest.approx(512 * 26 * 32 * 2)  # samples x tables x dim x fp16
    tables = expand_tables(model, "fp16")
    beside = {name: bytes_beside_tables(model, tables, small_settings(pipeline=name)) for name in SCHEDULES}
    one_and_three = beside["sparse_dist"] - beside["none"]  # a copy from the host, three in the order of the owners
    assert beside["semi_sync"] - beside["sparse_dist"] == pytest.approx(one_and_three / 2 + extra[0])


def test_memory_of_the_queue_and_of_passes() -> None:
    """Host memory has the queue's batches; activations and inputs are those of a pass."""
    model, plan = load_model(MODEL), small_plan()
    usual = memory_per_rank(model, plan, small_settings())
    queued = memory_per_rank(model, plan, small_settings(ingestion=read_at(1e9, 7)))
    assert queued.tiers["ddr"]["inputs in flight"] == pytest.approx(usual.tiers["ddr"]["inputs in flight"] / 2 * 7)
    settings = small_settings()
    half = replace(settings, global_batch_size=settings.global_batch_size // 2, gradient_accumulation=2)
    halved = memory_per_rank(model, plan, half)
    for item in ("activations", "inputs in flight"):
        assert halved.tiers["hbm"][item] == pytest.approx(usual.tiers["hbm"][item] / 2)
