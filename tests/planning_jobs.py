"""Jobs that planning tests share: a few uneven tables on two ZionEX nodes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from inputs.yaml_lines import Document
from scenarios.dlrm.plans import PlanningJob
from scenarios.resolve import ResolvedScenario, resolve

TABLES = [
    {"name": "users", "rows": 40_003, "dim": 64, "pooling_factor": 1},
    {"name": "items", "rows": 9_999, "dim": 128, "pooling_factor": 20, "features": 2},
    {"name": "tags", "rows": 7, "dim": 32, "pooling_factor": 5},
    {"name": "words", "rows": 123_456, "dim": 48, "pooling_factor": 60},
    {"name": "pages", "rows": 3_000, "dim": 16, "pooling_factor": 3, "precision": "fp32"},
]
"""7 rows leave ranks without any when they are cut; 3,000 and 9,999 leave a short last block."""


def made_up(value: object) -> dict[str, object]:
    """A graded value."""
    return {"value": value, "source": "tests", "grade": "assumed"}


def scenario_data(world_size: int = 16, **workload: Any) -> dict[str, Any]:
    """A scenario as data."""
    model = {
        "name": "small",
        "title": "five tables",
        "tables": made_up(TABLES),
        "mlp": {"dense_features": made_up(4), "bottom": made_up([64, 32]), "top": made_up([64, 1])},
        "interaction": made_up("cat"),
        "index_reuse": made_up("uniform"),
        "local_batch_size": made_up(256),
    }
    return {
        "name": "small",
        "cluster": "zionex",
        "world_size": world_size,
        "workload": {"model": model, "global_batch_size": 256 * world_size, **workload},
    }


def scenario(world_size: int = 16, **workload: Any) -> ResolvedScenario:
    """The resolved scenario."""
    return resolve(Document(scenario_data(world_size, **workload), {}, Path("test.yaml")))


def job(world_size: int = 16, **workload: Any) -> PlanningJob:
    """A planning job."""
    return PlanningJob.of(scenario(world_size, **workload))
