"""Two real processes of TorchRec train under our plans (gloo, CPU): what they hold, look up and update."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

import pytest

from tests import torchrec_jobs  # noqa: F401 - first: skips without torchrec

import dlrmsim  # isort: skip
from tests.torchrec_rank import BATCH, DIM, ROWS, TABLES, indices, module
from workloads.dlrm.sharding.plan_file import PlanFile, read_plan

pytestmark = pytest.mark.filterwarnings("ignore")

ROOT = Path(__file__).parents[2]
RANKS = 2
EVERY_TYPE = {
    "table_0": {"sharding_type": "data_parallel"},
    "table_1": {"sharding_type": "table_wise", "ranks": [1]},
    "table_2": {"sharding_type": "column_wise", "ranks": [1, 0]},
    "table_3": {"sharding_type": "row_wise"},
    "table_4": {"sharding_type": "table_row_wise", "ranks": [0, 1]},
    "table_5": {"sharding_type": "table_column_wise", "ranks": [0, 1]},
    "table_6": {"sharding_type": "grid_shard", "ranks": [0, 1, 0, 1]},
}


@pytest.fixture(scope="module")
def plans(tmp_path_factory) -> list[Path]:
    """All sharding types, a person's plan; and a planner's."""
    folder = tmp_path_factory.mktemp("plans")
    file = {"world_size": RANKS, "local_world_size": RANKS, "plan": {"any": EVERY_TYPE}}
    (folder / "every_type.json").write_text(json.dumps(file), encoding="utf-8")
    job = dlrmsim.from_torchrec(
        module(),
        cluster="dgx_h100",
        world_size=RANKS,
        batch_size_per_rank=BATCH,
        settings=["workload.sharding.planner=zigzag"],
    )
    dlrmsim.plan(job.resolved, out=folder / "zigzag")
    return [folder / "every_type.json", folder / "zigzag" / "plan.json"]


@pytest.fixture(scope="module")
def trained(plans, tmp_path_factory) -> list[list[dict]]:
    """Findings of each rank under each plan."""
    folder = tmp_path_factory.mktemp("ranks")
    outs = [folder / f"rank_{rank}.json" for rank in range(RANKS)]
    command = [sys.executable, str(ROOT / "tests" / "torchrec_rank.py")]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    processes = [
        subprocess.Popen(
            [*command, str(rank), str(RANKS), str(folder / "store"), str(out), *map(str, plans)],
            cwd=folder,
            env=environment,
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank, out in enumerate(outs)
    ]
    try:
        said = [process.communicate(timeout=300)[1] for process in processes]
    finally:
        for process in processes:
            process.kill()
    assert [process.returncode for process in processes] == [0] * RANKS, "\n".join(said)
    return [json.loads(out.read_text(encoding="utf-8")) for out in outs]


def shards_of(plan: PlanFile, rank: int) -> list[tuple[int, ...]]:
    """Table, first row and column, rows and columns of every shard of a rank."""
    found = []
    for tables in plan.plan.values():
        for name, entry in tables.items():
            table = int(name.removeprefix("table_"))
            if entry.sharding_spec is None:
                found.append((table, 0, 0, ROWS, DIM))
                continue
            shards = [shard for shard in entry.sharding_spec.shards if shard.rank == rank]
            found += [(table, *shard.shard_offsets, *shard.shard_sizes) for shard in shards]
    return sorted(found)


@pytest.mark.parametrize("number", [0, 1], ids=["every type", "zigzag"])
@pytest.mark.parametrize("rank", range(RANKS))
def test_ranks_hold_the_shards_of_the_plan(plans, trained, number, rank):
    from trainer.torchrec.listed_shards import with_shards

    plan = with_shards(read_plan(json.loads(plans[number].read_text(encoding="utf-8"))), module())
    assert sorted(tuple(shard) for shard in trained[rank][number]["shards"]) == shards_of(plan, rank)


@pytest.mark.parametrize("number", [0, 1], ids=["every type", "zigzag"])
def test_pooled_vectors_are_those_of_whole_tables(trained, number):
    """Sums of a few fp32 numbers below 4: equal within 1e-5."""
    assert max(found[number]["error"] for found in trained) < 1e-5


@pytest.mark.parametrize("number", [0, 1], ids=["every type", "zigzag"])
def test_backward_updates_rows_that_a_rank_looked_up_and_no_others(trained, number):
    """In every sharded table; samples whose gradient is zero update none."""
    looked_up = [
        set.union(*({*indices(rank)[table].flatten().tolist()} for rank in range(RANKS))) for table in range(TABLES)
    ]
    changed = defaultdict(set)
    for found in trained:
        for table, rows in found[number]["changed"].items():
            changed[int(table)] |= set(rows)
    sharded = range(1, TABLES) if number == 0 else range(TABLES)
    assert all(changed[table] for table in sharded)
    assert all(changed[table] <= looked_up[table] for table in range(TABLES))
