"""Small training jobs for the trainer's tests, with every kind of sharding, run as real processes."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import yaml

from trainer.process.launch import run_ranks
from trainer.process.pin import usable_cores
from trainer.process.runs import Run

if TYPE_CHECKING:  # tests that need no torch read this, too
    from torch import Tensor

    from trainer.model import RankModel

TABLES = [(1000, 3.0, 2), (57, 1.0, 2), (400, 2.5, 1), (5, 4.0, 2), (20, 0.7, 1), (5000, 2.0, 1)]
DIM = 8
FEATURES = sum(features for _, _, features in TABLES)
"""Features of all tables, of which each has rows, mean lookups and features; 5 rows cut for 4 are 2, 2, 1 and none."""
SLEEPING = {"OMP_WAIT_POLICY": "passive", "GOMP_SPINCOUNT": "0"}
"""Environment in which threads of a rank sleep while they wait: those that spin wait for each other on shared cores."""


def graded(value: Any) -> dict[str, Any]:
    return {"value": value, "source": "a test", "grade": "assumed"}


def model(**changes: Any) -> dict[str, Any]:
    tables = [{"rows": r, "dim": DIM, "pooling_factor": p, "features": f} for r, p, f in TABLES]
    return {
        "name": "tiny",
        "title": "a tiny model",
        "tables": graded(tables),
        "mlp": {"dense_features": graded(5), "bottom": graded([16, 8]), "top": graded([16, 1])},
        "interaction": graded("dot"),
        "index_reuse": graded("uniform"),
        "local_batch_size": graded(16),
    } | changes


def plan(world_size: int) -> dict[str, Any]:
    """Tables sharded in five ways on any number of ranks, all on one node."""
    last = world_size - 1
    tables = {
        "table_0": {"sharding_type": "table_wise", "ranks": [last]},
        "table_1": {"sharding_type": "data_parallel"},
        "table_2": {"sharding_type": "column_wise", "ranks": [last, 0]},
        "table_3": {"sharding_type": "row_wise"},
        "table_4": {"sharding_type": "table_wise", "ranks": [0]},
        "table_5": {"sharding_type": "table_row_wise", "ranks": list(range(world_size))},
    }
    return planned(world_size, tables)


def planned(world_size: int, tables: dict[str, Any]) -> dict[str, Any]:
    """A plan of the given entries."""
    return {"world_size": world_size, "plan": {"tables": tables}}


def scenario(world_size: int, **workload: Any) -> dict[str, Any]:
    """A scenario in fp32 with a global batch of 64."""
    exact = dict.fromkeys(("dense", "tables", "forward_all_to_all", "backward_all_to_all", "all_reduce"), "fp32")
    return {
        "name": "tiny",
        "cluster": "dgx_a100_40",
        "world_size": world_size,
        "workload": {
            "model": model(),
            "global_batch_size": 64,
            "sharding": {"plan": plan(world_size)},
            "framework": "pytorch",
            "optimizer": {"dense": "sgd", "tables": "rowwise_adagrad"},
        }
        | workload,
        "precision": exact,
        "variation": {"seed": 7},
    }


def write(folder: Path, content: dict[str, Any]) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / "scenario.yaml"
    file.write_text(yaml.safe_dump(content), encoding="utf-8")
    return file


def losses(folder: Path, content: dict[str, Any], run: Run | None = None) -> npt.NDArray[np.float64]:
    """Train and return the mean loss of the global batch in each iteration."""
    world_size = content["world_size"]
    out = folder / "out"
    out.mkdir(parents=True)
    told = replace(run or Run(Path()), scenario=write(folder, content), out=out)
    run_ranks(told, world_size, usable_cores()[:world_size])  # one thread each
    ranks = [json.loads((out / f"rank{rank}.json").read_text(encoding="utf-8")) for rank in range(world_size)]
    return np.mean([rank["iterations"]["loss"] for rank in ranks], axis=0)


def whole_tables(ranks: list[RankModel]) -> dict[int, Tensor]:
    """The weights of every table ``[rows, dim]``, put together from what the ranks hold; NaN where nobody does."""
    import torch

    whole: dict[int, Tensor] = {}
    for rank in ranks:
        for held in [*rank.copied, *(table for tables in rank.sharded.values() for table in tables)]:
            for piece, first in zip(held.block.pieces, held.block.first_rows, strict=False):
                shape = (piece.table_rows, piece.table_dim)
                table = whole.setdefault(piece.table, torch.full(shape, torch.nan, dtype=held.weight.dtype))
                rows = slice(piece.row, piece.row + piece.rows)
                columns = slice(piece.column, piece.column + piece.dim)
                table[rows, columns] = held.weight[first : first + piece.rows]
    return whole
