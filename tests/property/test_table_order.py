"""The order in which a model lists its tables changes no plan's time, whatever the planner."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from inputs.errors import InfeasibleError
from inputs.yaml_lines import Document
from scenarios.dlrm.plans import PlanningJob
from scenarios.resolve import load_scenario, resolve
from tests.planning_jobs import TABLES, made_up, scenario_data
from workloads.dlrm.sharding import PLANNERS

EQUAL = [{"name": f"same{i}", "rows": 50_000, "dim": 32, "pooling_factor": 1 + i % 3} for i in range(9)]
"""Tables of one size with different lookups: ties for planners by size."""
SKEWED: dict[str, Any] = {"distribution": "zipf", "exponent": 1.05}


def listed(tables: list[dict[str, Any]], order: np.ndarray, **workload: Any) -> PlanningJob:
    data = scenario_data(16, **workload)
    data["workload"]["model"]["tables"] = made_up([tables[i] for i in order])
    return PlanningJob.of(resolve(Document(data, {}, Path("test.yaml"))))


def time_of(planned: PlanningJob, planner: str) -> float | None:
    planned.context = replace(planned.context, steps=4)
    try:
        return planned.simulate_s(planned.make(planner))
    except InfeasibleError:
        return None


def orders(count: int) -> list[np.ndarray]:
    return [np.arange(count), np.arange(count)[::-1], np.random.default_rng(3).permutation(count)]


@pytest.mark.parametrize("planner", PLANNERS.names())
@pytest.mark.parametrize(
    ("tables", "workload"),
    [
        (TABLES, {}),
        ([*TABLES, *EQUAL], {"indices": SKEWED, "global_batch_size": 16 * 4096}),
        (EQUAL, {"sharding": {"compute_kernels": ["fused", "fused_uvm_caching"]}, "pipeline": "sparse_dist"}),
    ],
)
def test_small_models(planner: str, tables: list[dict[str, Any]], workload: dict[str, Any]) -> None:
    found = [time_of(listed(tables, order, **workload), planner) for order in orders(len(tables))]
    assert found[0] is not None
    assert found[1:] == pytest.approx([found[0]] * 2, rel=1e-9)


@pytest.mark.parametrize("planner", [name for name in PLANNERS.names() if name != "search"])
def test_a_shipped_model_with_many_equal_tables(planner: str) -> None:
    """synthetic_small, its groups of tables in other orders."""
    resolved = load_scenario("synthetic_small")
    groups = resolved.to_dict()["workload"]["model"]["tables"]["value"]
    named = [{**group, "name": f"group{i}"} for i, group in enumerate(groups)]
    found = []
    for order in orders(len(named)):
        data = resolved.to_dict()
        data["workload"]["model"]["tables"]["value"] = [named[i] for i in order]
        found.append(time_of(PlanningJob.of(resolve(Document(data, {}, Path("test.yaml")))), planner))
    if found[0] is None:
        assert found == [None] * 3
    else:
        assert found[1:] == pytest.approx([found[0]] * 2, rel=1e-9)
