"""Plans in TorchRec's terms: what is written, what is read, what is refused."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from inputs.errors import InputError
from inputs.yaml_lines import Document
from scenarios.progress import Silent
from scenarios.resolve import resolve
from scenarios.runner import simulate
from tests.planning_jobs import job, scenario, scenario_data
from workloads.dlrm.sharding import PLANNERS
from workloads.dlrm.sharding.plan import Plan
from workloads.dlrm.sharding.plan_exchange import MODULE, plan_from_dict, plan_to_dict

PLANNED = job()
KINDS = ["table_wise", "column_wise", "row_wise", "table_row_wise", "table_column_wise", "grid_shard", "data_parallel"]


def read(data: dict[str, Any]) -> Plan:
    return plan_from_dict(data, PLANNED.tables, 16, 8)


def entry_of(kind: str, table: str = "words") -> dict[str, Any]:
    return plan_to_dict(PLANNED.make(kind))["plan"][MODULE][table]


def same(one: Plan, two: Plan) -> bool:
    """Whether every array of two plans is equal."""
    arrays = [(getattr(one, n), getattr(two, n)) for n in ("row_wise", "data_parallel", "table_column_wise")]
    for part in ("columns", "nodes"):
        fields = type(getattr(one, part)).__dataclass_fields__
        arrays += [(getattr(getattr(one, part), f), getattr(getattr(two, part), f)) for f in fields]
    return all(np.array_equal(a, b) for a, b in arrays) and one.planner == two.planner


@pytest.mark.parametrize("planner", PLANNERS.names())
def test_a_written_plan_reads_back_identical(planner: str) -> None:
    plan = PLANNED.make(planner)
    data = json.loads(json.dumps(plan_to_dict(plan)))
    assert same(read(data), plan)
    assert plan_to_dict(read(data)) == data


def test_what_a_table_wise_entry_says() -> None:
    """TorchRec's ParameterSharding with an EnumerableShardingSpec of one ShardMetadata."""
    entry = entry_of("table_wise")
    (shard,) = entry["sharding_spec"]["shards"]
    rank = entry["ranks"][0]
    assert (entry["sharding_type"], entry["compute_kernel"]) == ("table_wise", "fused")
    assert (shard["shard_offsets"], shard["shard_sizes"]) == ([0, 0], [123_456, 48])
    assert shard["placement"] == f"rank:{rank}/cuda:{rank % 8}"


def test_what_a_data_parallel_entry_says() -> None:
    expected = {"compute_kernel": "dense", "ranks": list(range(16)), "sharding_spec": None}
    assert entry_of("data_parallel") == {"sharding_type": "data_parallel", **expected}


def test_row_blocks_are_listed_for_all_ranks_even_without_rows() -> None:
    """7 rows on 16 ranks: TorchRec lists shards of no rows."""
    shards = entry_of("row_wise", "tags")["sharding_spec"]["shards"]
    assert [s["shard_sizes"][0] for s in shards] == [1] * 7 + [0] * 9
    assert [s["shard_offsets"][0] for s in shards] == [*range(7), *[7] * 9]


@pytest.mark.parametrize("kind", KINDS)
def test_a_person_may_leave_out_what_follows(kind: str) -> None:
    """Ranks alone mean equal column ranges in their order; row_wise and data_parallel need no ranks either."""
    ranks: dict[str, list[int] | None] = {
        "table_wise": [3],
        "column_wise": [0, 9, 15],
        "table_column_wise": [8, 9],
        "table_row_wise": list(range(8, 16)),
        "grid_shard": list(range(16)),
    }
    entry = {"sharding_type": kind} | ({"ranks": ranks[kind]} if kind in ranks else {})
    data = plan_to_dict(PLANNED.make("table_wise"))
    data["plan"][MODULE]["words"] = entry
    del data["local_world_size"]
    plan = read(data)
    assert plan.sharding_types[plan.tables.names.index("words")] == kind
    assert same(read(plan_to_dict(plan)), plan)


def changed(kind: str, **changes: Any) -> dict[str, Any]:
    """A plan of one kind with another entry for `words`."""
    data = plan_to_dict(PLANNED.make(kind))
    entry = copy.deepcopy(data["plan"][MODULE]["words"])
    for key, value in changes.items():
        entry[key] = value
    data["plan"][MODULE]["words"] = entry
    return data


def shard(row: int, column: int, rows: int, dim: int, rank: int) -> dict[str, Any]:
    return {"shard_offsets": [row, column], "shard_sizes": [rows, dim], "placement": f"rank:{rank}/cuda:0"}


def twice_a_block() -> dict[str, Any]:
    """Row blocks of which the last is listed twice."""
    data = plan_to_dict(PLANNED.make("row_wise"))
    shards = data["plan"][MODULE]["words"]["sharding_spec"]["shards"]
    shards.append(shards[-1])
    return data


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (changed("table_wise", sharding_type="table_wide"), "did you mean 'table_wise'"),
        (
            changed("table_wise", compute_kernel="dense"),
            "a table_wise table with the kernel dense; .*expected one of fused, fused_uvm",
        ),
        (changed("table_wise", ranks=[7, 8]), "ranks and placements differ"),
        (changed("table_wise", ranks=None, sharding_spec=None), "a table_wise table without a place"),
        (changed("column_wise", ranks=[99], sharding_spec=None), r"a shard is on a rank that does not exist; given 99"),
        (changed("table_column_wise", ranks=[7, 8], sharding_spec=None), "is not on one node; given 'nodes 0 and 1'"),
        (changed("table_row_wise", ranks=[1, 2, 3], sharding_spec=None), "cannot be shared by 3 ranks"),
        (changed("table_row_wise", ranks=[*range(4, 12)], sharding_spec=None), "not the ranks of a table_row_wise"),
        (changed("row_wise", ranks=[0, 1], sharding_spec=None), "not the ranks of a row_wise table"),
        (
            changed("column_wise", ranks=None, sharding_spec={"shards": [shard(0, 0, 123_456, 24, 1)]}),
            "does not place every column of the table once; given '24 columns'; expected 48",
        ),
        (
            changed(
                "column_wise",
                ranks=None,
                sharding_spec={"shards": [shard(0, 0, 123_456, 24, 1), shard(0, 20, 123_456, 24, 2)]},
            ),
            "column shards overlap or leave a gap; given 20; expected column 24",
        ),
        (
            changed("table_wise", ranks=None, sharding_spec={"shards": [shard(0, 0, 100, 48, 1)]}),
            "not the shards of a table_wise table",
        ),
        (
            changed("row_wise", sharding_spec={"shards": [shard(0, 0, 123_456, 48, 0)]}),
            "not the row blocks of a row_wise table",
        ),
        (
            changed(
                "column_wise",
                ranks=None,
                sharding_spec={"shards": [shard(0, 0, 123_456, 48, 1), shard(0, 48, 123_456, 0, 2)]},
            ),
            "a shard without columns; given '0 columns'",
        ),
        (twice_a_block(), "not the row blocks of a row_wise table; given '17 shards'; expected 16 of"),
        (
            changed("table_wise", sharding_spec={"shards": [shard(0, 0, 1, 1, 0) | {"placement": "cuda:3"}]}),
            "not a placement: cuda:3",
        ),
    ],
)
def test_wrong_entries_are_refused(data: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message) as caught:
        read(data)
    assert "words" in str(caught.value.key)


def test_a_table_that_is_missing_or_unknown_is_named() -> None:
    data = plan_to_dict(PLANNED.make("table_wise"))
    entries = data["plan"][MODULE]
    entries["wordz"] = entries.pop("words")
    with pytest.raises(
        InputError, match=r"no such table; given 'wordz'; expected a table of the model; did you mean 'words'"
    ):
        read(data)
    del entries["wordz"]
    with pytest.raises(InputError, match="the table words is missing; expected an entry for every table") as caught:
        read(data)
    assert caught.value.key == "plan"


@pytest.mark.parametrize(("key", "value"), [("world_size", 8), ("local_world_size", 4)])
def test_a_plan_for_other_ranks_is_refused(key: str, value: int) -> None:
    with pytest.raises(InputError, match=f"the plan is for another {key}"):
        read(plan_to_dict(PLANNED.make("table_wise")) | {key: value})


def test_a_run_with_the_written_plan_is_the_run_of_the_planner() -> None:
    """To the byte of the summary, but for the planner's hash."""
    found = simulate(scenario(sharding={"planner": "greedy"}), Silent()).summary
    data = scenario_data(sharding={"plan": plan_to_dict(PLANNED.make("greedy"))})
    again = simulate(resolve(Document(data, {}, Path("test.yaml"))), Silent()).summary
    assert {k: v for k, v in again.items() if k != "scenario_hash"} == {
        k: v for k, v in found.items() if k != "scenario_hash"
    }
