"""``python -m benchmarks planning [--sets N] [--seed S]``: the search against every other planner on random table sets.

Each set has 30 to 60 tables on 4 to 16 ranks. Each planner's plan is written out, read as ``workload.sharding.plan``
and run like any scenario; the search is timed with the simulations that it asks for.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.rows import Row
from inputs.errors import InfeasibleError
from inputs.yaml_lines import Document
from scenarios.dlrm.plans import PlanningJob
from scenarios.progress import Silent
from scenarios.resolve import ResolvedScenario, resolve
from scenarios.runner import simulate
from workloads.dlrm.sharding import PLANNERS, plan_to_dict

SEARCH_LIMIT_S = 30.0
"""Longest processor time of planning by search on each set, seconds."""

CLUSTERS = ("zionex", "dgx_h100", "dgx_a100_80")
DIMS = (16, 32, 64, 92, 128, 192, 256)


def rows(sets: int, seed: int) -> Iterator[Row]:
    """Ratio of the fastest other planner to the search on each set (1 or more: the search is as fast), and times."""
    worst_gain, slowest_s, gains = np.inf, 0.0, []
    for number in range(sets):
        scenario = random_scenario(number, seed)
        begin = time.process_time()
        found = planned(scenario, "search")
        taken = time.process_time() - begin
        others = {name: planned(scenario, name) for name in PLANNERS.names() if name != "search"}
        searched_s = simulated_s(scenario, found)
        other_s = {name: simulated_s(scenario, plan) for name, plan in others.items()}
        best = min(other_s, key=lambda name: other_s[name])
        gain = other_s[best] / searched_s
        gains.append(gain)
        worst_gain, slowest_s = min(worst_gain, gain), max(slowest_s, taken)
        yield Row(f"set_{number}_{scenario.world_size}_ranks_{best}", gain, "x", ">= 1")
    yield Row("planning_sets", len(gains), "sets")
    yield Row("planning_least_gain", worst_gain, "x", ">= 1")
    yield Row("planning_mean_gain", float(np.mean(gains)), "x")
    yield Row("planning_search_longest_cpu", slowest_s, "s", f"<= {SEARCH_LIMIT_S:g}")


def planned(scenario: ResolvedScenario, planner: str) -> dict[str, Any] | None:
    """A planner's plan, written out; None when it finds none that fits."""
    try:
        return plan_to_dict(PlanningJob.of(scenario).make(planner))
    except InfeasibleError:
        return None


def simulated_s(scenario: ResolvedScenario, plan: dict[str, Any] | None) -> float:
    """Seconds per iteration of a whole run with a plan that was written out; infinite without a plan."""
    if plan is None:
        return math.inf
    data = scenario.to_dict()
    data["workload"]["sharding"] = {"plan": plan}
    outcome = simulate(resolve(Document(data, {}, Path("benchmark"))), Silent())
    return float(outcome.summary["iteration_time_s"])


def random_scenario(number: int, seed: int) -> ResolvedScenario:
    """A job with 30 to 60 tables on 4 to 16 ranks: rows and pooling log-uniform, dimensions of those in use."""
    draw = np.random.Generator(np.random.PCG64([seed, number]))
    count, ranks = int(draw.integers(30, 61)), int(draw.integers(4, 17))
    tables = [
        {
            "rows": int(10 ** draw.uniform(3, 7)),
            "dim": int(draw.choice(DIMS)),
            "pooling_factor": round(float(10 ** draw.uniform(0, 2)), 2),
        }
        for _ in range(count)
    ]
    data = {
        "name": f"tables_{seed}_{number}",
        "cluster": str(draw.choice(CLUSTERS)),
        "world_size": ranks,
        "workload": {
            "model": model_of_tables(tables, width=int(draw.choice([256, 512, 1024]))),
            "global_batch_size": ranks * int(draw.choice([1024, 2048, 4096])),
            "pipeline": str(draw.choice(["none", "sparse_dist"])),
        },
    }
    return resolve(Document(data, {}, Path("benchmark")))


def model_of_tables(
    tables: list[dict[str, Any]], width: int, index_reuse: str = "dlrm_datasets_2021"
) -> dict[str, Any]:
    """A model with these tables and small MLPs."""

    def made_up(value: object) -> dict[str, object]:
        return {"value": value, "source": "benchmarks/planning.py", "grade": "assumed"}

    return {
        "name": "random_tables",
        "title": "random tables",
        "tables": made_up(tables),
        "mlp": {"dense_features": made_up(13), "bottom": made_up([width, 64]), "top": made_up([width, width, 1])},
        "interaction": made_up("cat"),
        "index_reuse": made_up(index_reuse),
        "local_batch_size": made_up(512),
    }
