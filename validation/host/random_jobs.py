"""Jobs drawn at random: what the study of accuracy measures, and, smaller, what a host is calibrated on."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

PLANNERS = ("greedy", "table_wise", "column_wise", "row_wise", "greedy_size", "greedy_lookups")
MOST_TABLES = 40
"""Largest number of tables of a job."""
DIMS = (16, 32, 48, 64, 96, 128, 192, 256)
"""Elements of a row; all tables of a job have the same."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of the jobs that are drawn.

    Attributes:
        table_bytes: most of all tables.
        gathered_bytes: most of what all ranks look up in an iteration.
        flops: most of the dense layers' forward pass in an iteration, all ranks together.
    """

    table_bytes: float
    gathered_bytes: float = float("inf")
    flops: float = float("inf")

    def allow(self, job: dict[str, Any]) -> bool:
        """Whether a job may be drawn."""
        model, batch = job["workload"]["model"], job["workload"]["global_batch_size"]
        tables = model["tables"]["value"]
        mlp = model["mlp"]
        widths = [mlp["dense_features"]["value"], *mlp["bottom"]["value"]]
        joined = widths[-1] + sum(table["dim"] for table in tables)
        layers = [*itertools.pairwise(widths)]
        top = [joined if model["interaction"]["value"] == "cat" else len(tables) ** 2 // 2, *mlp["top"]["value"]]
        layers += itertools.pairwise(top)
        looked_up = sum(4.0 * table["dim"] * table["pooling_factor"] for table in tables)
        allowed: bool = (
            sum(4.0 * table["rows"] * table["dim"] for table in tables) <= self.table_bytes
            and batch * looked_up <= self.gathered_bytes
            and 2.0 * batch * sum(wide * narrow for wide, narrow in layers) <= self.flops
        )
        return allowed


def random_job(
    random: np.random.Generator, name: str, cluster: str, ranks: int | None = None, dim: int | None = None
) -> dict[str, Any]:
    """A scenario: 2 to 40 tables of 1e3 to 1e6 rows, pooling 1 to 100, batch 128 to 8192, dims 16 to 256.

    Args:
        name: name of the scenario, also in its file.
        cluster: name or path of its machine.
        ranks: number of ranks; None: 1, 2 or 4 at random.
        dim: elements of a row; None: one of `DIMS`.
    """
    tables = _tables(random, int(random.integers(2, MOST_TABLES + 1)), DIMS if dim is None else [dim])
    widths = [int(2 ** random.integers(4, 11)) for _ in range(4)]
    drawn = int(random.choice([1, 2, 4]))
    ranks = drawn if ranks is None else ranks
    batch = ranks * max(1, round(2 ** random.uniform(7, 13) / ranks))
    source = {"source": "drawn at random", "grade": "assumed"}
    model = {
        "name": name,
        "title": "Drawn at random",
        "tables": {**source, "value": tables},
        "mlp": {
            "dense_features": {**source, "value": int(random.integers(8, 513))},
            "bottom": {**source, "value": [widths[0], widths[1], tables[0]["dim"]]},
            "top": {**source, "value": [widths[2], widths[3], 1]},
        },
        "interaction": {**source, "value": str(random.choice(["dot", "cat"]))},
        "index_reuse": {**source, "value": "uniform"},
        "local_batch_size": {**source, "value": batch // ranks},
    }
    return {
        "schema": 1,
        "name": name,
        "cluster": cluster,
        "world_size": ranks,
        "workload": {
            "model": model,
            "global_batch_size": batch,
            "sharding": {"planner": str(random.choice(PLANNERS))},
            "pipeline": str(random.choice(["none", "sparse_dist"])),
            "framework": "pytorch",
            "optimizer": {
                "dense": str(random.choice(["sgd", "adagrad"])),
                "tables": str(random.choice(["sgd", "rowwise_adagrad", "adagrad"])),
            },
        },
        "precision": dict.fromkeys(
            ("dense", "tables", "forward_all_to_all", "backward_all_to_all", "all_reduce"), "fp32"
        ),
    }


def _tables(random: np.random.Generator, count: int, dims: Sequence[int]) -> list[dict[str, int]]:
    """So many tables, all of one of the dims."""

    def log_uniform(low: float, high: float) -> int:
        return int(np.exp(random.uniform(np.log(low), np.log(high))))

    dim = int(random.choice(dims))
    return [{"rows": log_uniform(1e3, 1e6), "dim": dim, "pooling_factor": log_uniform(1, 101)} for _ in range(count)]
