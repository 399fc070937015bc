"""Strategies of dense layers: the engine equals the oracle, and no run ends before its bound."""

from __future__ import annotations

from itertools import product

import pytest

from benchmarks.oracle import compare
from benchmarks.random_programs import RandomProgram
from scenarios.engine_run import iteration_s
from simulator.analysis import least_iteration_s
from simulator.lowering import lower
from tests.strategy_jobs import placed
from workloads.graph.levels import LEVEL_STRATEGIES

LEVELS = list(product(LEVEL_STRATEGIES, repeat=2))
BOTH = list(zip(LEVELS, LEVELS[1:] + LEVELS[:1], strict=True))
"""Each strategy once for the bottom and once for the top layers."""

ROUNDED = 1e-6
"""Fraction by which links that several activities share, at speeds in integers, may move a time."""


@pytest.mark.parametrize(("bottom", "top"), BOTH)
def test_engine_equals_oracle(bottom: tuple[str, str], top: tuple[str, str]) -> None:
    job, workload = placed(bottom, top)
    lowered = lower(workload.graph(), job.machine).program
    assert compare(RandomProgram(lowered, 2)) == ""


@pytest.mark.parametrize("passes", [1, 2])
def test_no_run_ends_before_its_bound(passes: int) -> None:
    for bottom, top in BOTH:
        job, workload = placed(bottom, top, passes)
        least_s = least_iteration_s(lower(workload.graph(), job.machine).program)
        taken_s = iteration_s(job.resolved, workload, job.machine)
        assert 0.5 * taken_s < least_s <= taken_s * (1 + ROUNDED), (bottom, top)
