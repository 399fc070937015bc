"""Every pipeline, with any of its options: engine = oracle, and nothing of the work is lost or done twice."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from benchmarks.oracle import compare
from benchmarks.random_programs import RandomProgram
from hardware_specs import load_cluster
from simulator.collective_calls import CollectiveCall
from simulator.lowering import Variation, build_machine, lower
from simulator.operators import EmbeddingLookup
from simulator.program import TaskGraph
from tests.pipeline_jobs import MODEL, read_at, small_plan, small_settings
from workloads.dlrm.iteration.generate import generate
from workloads.dlrm.model.choices import USUAL_OVERLAP, Overlap
from workloads.dlrm.model.model import load_model
from workloads.dlrm.model.settings import DlrmSettings
from workloads.graph.schedule import SCHEDULES

RANKS = 2


@st.composite
def choices(draw: st.DrawFn) -> DlrmSettings:
    """Any pipeline with any options, host-bound or not."""
    readers = st.builds(read_at, st.floats(1e7, 1e11), st.integers(1, 4))
    base = small_settings(
        RANKS,
        pipeline=draw(st.sampled_from(sorted(SCHEDULES))),
        gradient_accumulation=draw(st.integers(1, 3)),
        overlaps=draw(
            st.builds(Overlap, exchange=st.booleans(), all_reduce=st.booleans(), weight_gradients=st.booleans())
        ),
        cuda_graph=draw(st.sampled_from(["none", "network", "iteration"])),
        ingestion=draw(st.none() | readers),
    )
    shared = draw(st.sampled_from(["own", "shared"]))
    group = base.framework.input_process_group.model_copy(update={"value": shared})
    return replace(base, framework=base.framework.model_copy(update={"input_process_group": group}))


def graph_of(chosen: DlrmSettings, planner: str, *, cached: bool = False) -> TaskGraph:
    return generate(load_model(MODEL), small_plan(RANKS, planner, cached=cached), chosen)


def moved_bytes(graph: TaskGraph) -> float:
    """Bytes that all ranks put into all_to_alls of pooled vectors and gradients in an iteration."""
    program = graph.programs[0]
    return sum(
        float(np.broadcast_to(work.bytes, RANKS).sum())
        for name, work in zip(program.names, program.work, strict=True)
        if isinstance(work, CollectiveCall) and "output_dist" in name
    )


def lookups(graph: TaskGraph) -> float:
    """Rows that all ranks look up in an iteration."""
    work = (work for work in graph.programs[0].work if isinstance(work, EmbeddingLookup))
    return sum(float(np.broadcast_to(lookup.lookups, RANKS).sum()) for lookup in work)


planners = st.sampled_from(["table_wise", "row_wise", "table_row_wise", "data_parallel", "greedy"])


@pytest.mark.slow
@settings(
    max_examples=6,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
    phases=[Phase.explicit, Phase.reuse, Phase.generate],  # an oracle run takes too long to shrink
)
@given(choices(), planners, st.booleans(), st.integers(0, 3), st.sampled_from([0.0, 0.2]))
def test_engine_equals_oracle_on_every_pipeline(
    chosen: DlrmSettings, planner: str, cached: bool, seed: int, jitter: float
) -> None:
    machine = build_machine(load_cluster("dgx_a100_80"), RANKS, launch_s=5e-6)
    variation = Variation(seed=seed, compute_jitter=jitter, host_jitter=jitter, input_jitter=jitter)
    lowered = lower(graph_of(chosen, planner, cached=cached), machine, variation=variation).program
    assert compare(RandomProgram(lowered, 4)) == ""


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(choices(), planners)
def test_pipelines_move_and_look_up_the_same(chosen: DlrmSettings, planner: str) -> None:
    """The pipeline changes when, never how much; N passes do N times what one pass over their batch does."""
    plain = replace(chosen, pipeline="none", gradient_accumulation=1, overlaps=USUAL_OVERLAP, cuda_graph="none")
    one, many = graph_of(plain, planner), graph_of(chosen, planner)
    assert moved_bytes(many) == pytest.approx(chosen.gradient_accumulation * moved_bytes(one))
    assert lookups(many) == pytest.approx(chosen.gradient_accumulation * lookups(one))
    reductions = [name for name in many.programs[0].names if name.startswith("gradient_all_reduce")]
    assert len(reductions) == len([n for n in one.programs[0].names if n.startswith("gradient_all_reduce")])
