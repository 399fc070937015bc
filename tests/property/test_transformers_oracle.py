"""Jobs of transformers: engine = oracle, and replicas in step = each instance on its own."""

from __future__ import annotations

import random
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from benchmarks.oracle import compare
from benchmarks.random_programs import SeededChoices
from benchmarks.transformer_programs import CLUSTERS, GROUPS, TransformerJob, draw_job
from hardware_specs import load_cluster
from simulator.collective_calls import CollectiveCall
from simulator.engine import EngineRun, RunOptions, run
from simulator.lowering import build_machine, lower
from simulator.program import TaskGraph
from workloads.transformer.settings import ParallelSizes

ROUNDED = 1e-7
"""Part of an iteration by which links that several instances share, at speeds in integers, may move a time."""


def job(seed: int) -> TransformerJob:
    return draw_job(SeededChoices(random.Random(seed)))


@pytest.mark.slow
@settings(
    max_examples=5,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
    phases=[Phase.explicit, Phase.reuse, Phase.generate],  # an oracle run takes too long to shrink
)
@given(st.integers(0, 2**32))
def test_engine_equals_oracle_on_transformers(seed: int) -> None:
    assert compare(job(seed).random_program()) == ""


def apart(graph: TaskGraph) -> TaskGraph:
    """The graph whose calls have an activity for each instance."""
    programs = tuple(
        replace(
            program, work=tuple(replace(w, in_step=False) if isinstance(w, CollectiveCall) else w for w in program.work)
        )
        for program in graph.programs
    )
    return replace(graph, programs=programs)


def ran(graph: TaskGraph, own: TransformerJob) -> tuple[EngineRun, int]:
    """A run of three iterations, and its number of activities."""
    program = lower(graph, own.machine).program
    return run(program, RunOptions(max_iterations=3, keep_last=None)), len(program.activities)


def largest_difference_ps(one: EngineRun, other: EngineRun) -> int:
    """Largest difference of a start, an end or a waiting time of any task on any rank."""
    return max(
        int(np.abs(getattr(a, name) - getattr(b, name)).max(initial=0))
        for x, y in zip(one.records, other.records, strict=True)
        for a, b in zip(x.groups, y.groups, strict=True)
        for name in ("start_ps", "end_ps", "waiting_ps")
    )


def same_times(own: TransformerJob) -> tuple[int, int]:
    """Check that replicas in step have the times of separate instances; activities of both."""
    (joined, few), (separate, many) = ran(own.graph, own), ran(apart(own.graph), own)
    ends = [0, *separate.iteration_end_ps.tolist()]
    shortest_ps = min(after - before for before, after in pairwise(ends))
    assert largest_difference_ps(joined, separate) <= ROUNDED * shortest_ps
    return few, many


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.integers(0, 2**32))
def test_replicas_in_step_have_the_times_of_separate_instances(seed: int) -> None:
    """Groups that lie over nodes in different ways are no replicas, on any machine and placement."""
    few, many = same_times(job(seed))
    assert few <= many


@pytest.mark.parametrize("number", range(len(GROUPS)))
def test_replicas_with_links_of_their_own_are_equal_to_the_picosecond(number: int) -> None:
    """No two instances meet on a link where each GPU has a NIC; replicas are fewer activities."""
    sizes = ParallelSizes(**GROUPS[number])
    own = replace(
        job(0),
        machine=build_machine(load_cluster("dgx_h100"), sizes.world_size, launch_s=2e-6),
        settings=replace(job(0).settings, sizes=sizes, microbatches=2 * sizes.pipeline),
    )
    (joined, few), (separate, many) = ran(own.graph, own), ran(apart(own.graph), own)
    assert largest_difference_ps(joined, separate) == 0
    assert (few < many) is (sizes.data < sizes.world_size and number not in UNLIKE)


UNLIKE = {number for number, groups in enumerate(GROUPS) if groups.get("data") == 3}
"""Groups that lie over nodes of 8 in different ways: 12 ranks."""


def test_a_random_placement_has_no_replicas() -> None:
    """Tensor groups in a node and over two are not in step."""
    sizes = ParallelSizes(data=2, tensor=4, pipeline=2)
    for placement, joins in (("block", True), ("random", False)):
        machine = build_machine(load_cluster(CLUSTERS[0]), 16, launch_s=2e-6, placement=placement, seed=1)
        own = replace(job(0), machine=machine, settings=replace(job(0).settings, sizes=sizes, microbatches=4))
        few, many = same_times(own)
        assert (few < many) is joins
