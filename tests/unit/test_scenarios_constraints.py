"""Constraints of single tables in a scenario: names, ranks, sets, kernels, plans that break them, and remedies."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dlrmsim
from inputs.errors import InfeasibleError, InputError
from inputs.yaml_lines import Document
from scenarios.dlrm.plan_study import study_plan
from scenarios.dlrm.plans import plan_of
from scenarios.progress import Silent
from scenarios.resolve import load_scenario, resolve
from tests.planning_jobs import job, scenario
from workloads.dlrm.sharding import PLANNERS, plan_to_dict
from workloads.dlrm.sharding.constraints import ALONE
from workloads.dlrm.sharding.plan import Plan


def planned(planner: str, constraints: dict[str, Any], world_size: int = 16) -> Plan:
    """The plan of a planner for five tables on nodes of 8 ranks."""
    return job(world_size, sharding={"planner": planner, "steps": 8, "constraints": constraints}).make(planner)


def kinds_of(plan: Plan) -> dict[str, str]:
    return dict(zip(plan.tables.names, plan.sharding_types, strict=True))


def ranks_of(plan: Plan, name: str) -> list[int]:
    shards = plan.shards()
    return np.unique(shards.rank[shards.table == plan.tables.names.index(name)]).tolist()


@pytest.mark.parametrize("kind", ["row_wise", "table_row_wise", "table_column_wise", "grid_shard", "data_parallel"])
@pytest.mark.parametrize("planner", ["greedy", "mixed", "dynamic_programming", "search"])
def test_a_table_is_sharded_in_the_only_way_it_may(planner: str, kind: str) -> None:
    assert kinds_of(planned(planner, {"words": {"sharding_types": [kind]}}))["words"] == kind


def test_column_ranges_are_as_wide_as_asked() -> None:
    """128 columns in ranges of at least 48: two of 64; without a constraint this planner makes sixteen of 8."""
    free = planned("column_wise", {})
    items = free.tables.names.index("items")
    assert (free.columns.table == items).sum() > 2
    bound = planned("column_wise", {"items": {"min_partition": 48}})
    assert bound.columns.dim[bound.columns.table == items].tolist() == [64, 64]


@pytest.mark.parametrize(
    ("group", "ranks"), [([3, 5], {3, 5}), ("3,5", {3, 5}), ("2-4, 9", {2, 3, 4, 9}), ("nodes 1", set(range(8, 16)))]
)
@pytest.mark.parametrize("planner", ["greedy", "search", "table_wise", "zigzag", "hot", "karmarkar_karp"])
def test_shards_stay_in_their_device_group(planner: str, group: object, ranks: set[int]) -> None:
    plan = planned(planner, {"words": {"device_group": group}, "items": {"device_group": group}})
    assert {*ranks_of(plan, "words"), *ranks_of(plan, "items")} <= ranks


@pytest.mark.parametrize(
    "planner", ["greedy", "search", "table_wise", "column_wise", "table_column_wise", "hot_copies"]
)
def test_tables_of_a_set_are_on_the_same_ranks(planner: str) -> None:
    plan = planned(planner, {"words": {"together": "text"}, "pages": {"together": "text", "device_group": "0-2"}})
    assert ranks_of(plan, "words") == ranks_of(plan, "pages")
    assert set(ranks_of(plan, "words")) <= {0, 1, 2}


def test_patterns_name_tables_and_a_table_of_its_own_goes_before_them() -> None:
    """Every name but none of these three ends in s; ``words`` has its own type and keeps the width of the pattern."""
    constraints = {
        "words": {"sharding_types": ["row_wise"]},
        "*": {"sharding_types": ["table_wise"], "min_partition": 16},
        "?ags": {"sharding_types": ["data_parallel"]},
    }
    made = job(sharding={"constraints": constraints})
    kinds = kinds_of(made.make("greedy"))
    assert kinds == dict.fromkeys(kinds, "table_wise") | {"words": "row_wise", "tags": "data_parallel"}
    assert made.context.constraints is not None
    assert made.context.constraints.least_dim.tolist() == [16] * 5


@pytest.mark.parametrize(
    "constraints",
    [
        {"words": {}},
        {"words": {"compute_kernels": ["fused", "fused_uvm", "fused_uvm_caching", "key_value", "dense"]}},
        {"words": {"sharding_types": ["table_wise", "column_wise", "row_wise", "table_row_wise", "table_column_wise"]}},
        {"*": {"device_group": "0-15", "min_partition": 4}},
        {"*": {"device_group": "nodes 0-1"}},
    ],
)
def test_constraints_that_ask_for_nothing_are_none(constraints: dict[str, Any]) -> None:
    """Only the third one limits anything: it lists five of seven types."""
    limits = job(sharding={"constraints": constraints}).context.constraints
    asks = "sharding_types" in constraints.get("words", {})
    assert (limits is not None) == asks


def test_kernels_decide_on_copies_as_in_torchrec() -> None:
    """``dense`` is the kernel of copies: alone it asks for one, without it there is none."""
    free = planned("hot_copies", {})
    assert kinds_of(free)["tags"] == "data_parallel"
    assert kinds_of(planned("hot_copies", {"tags": {"compute_kernels": ["fused"]}}))["tags"] != "data_parallel"
    assert kinds_of(planned("greedy", {"words": {"compute_kernels": ["dense"]}}))["words"] == "data_parallel"
    assert kinds_of(planned("greedy", {"words": {"compute_kernels": ["dense", "dense"]}}))["words"] == "data_parallel"


@pytest.mark.parametrize(
    ("constraints", "message"),
    [
        ({"wrods": {}}, "constraints.wrods: no such table.*did you mean 'words'"),
        ({"wrod*": {}}, "no table has such a name"),
        ({"words": {"device_group": "0-16"}}, r"words.device_group: .*a rank that does not exist.*0 to 15"),
        ({"words": {"device_group": "5-3"}}, "a range that ends before it begins.*FIRST-LAST"),
        ({"words": {"device_group": "nodes 2"}}, "a node that does not exist.*nodes from 0 to 1"),
        ({"words": {"device_group": "all"}}, "not a device group: all.*0-7,16 or nodes 0-1"),
        ({"words": {"device_group": []}}, "device_group"),
        ({"words": {"sharding_types": ["row"]}}, "expected one of table_wise"),
        ({"words": {"min_partition": 0}}, "min_partition.*1 or more"),
        ({"words": {"together": "text"}}, "a set of a single table.*'text'"),
        ({"words": {"together": "a"}, "tags": {"together": "a"}, "items": {"together": "b"}}, "single table.*'b'"),
        (
            {"words": {"together": "a", "device_group": [1]}, "tags": {"together": "a", "device_group": [2]}},
            "tags.together: tables placed together have no device_group in common.*'tags, words'",
        ),
        (
            {
                "words": {"together": "a", "sharding_types": ["row_wise"]},
                "tags": {"together": "a", "compute_kernels": ["dense"]},
            },
            "placed together have no sharding_types in common",
        ),
        (
            {"words": {"compute_kernels": ["fused"], "sharding_types": ["data_parallel"]}},
            "compute_kernels of words allow none of its sharding_types",
        ),
        (
            {"words": {"sharding_types": ["column_wise"], "min_partition": 32}},
            "constraints of words, with 48 columns, leave no way.*'sharding_types column_wise, min_partition 32'",
        ),
        ({"words": {"sharding_types": ["row_wise"], "device_group": [0]}}, "leave no way.*one of table_wise"),
        ({"words": {"sharding_types": ["table_row_wise"], "device_group": "1-8"}}, "leave no way to shard it"),
    ],
)
def test_wrong_constraints_are_refused(constraints: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message) as refused:
        planned("greedy", constraints)
    assert refused.value.exit_code == 2


def test_a_planner_that_cannot_obey_is_refused() -> None:
    message = "the planner table_wise cannot obey the constraints of words.*row_wise.*such as greedy"
    with pytest.raises(InputError, match=message):
        planned("table_wise", {"words": {"sharding_types": ["row_wise"]}})


def test_a_comparison_of_planners_goes_on_without_those_that_cannot_obey() -> None:
    sharding = {"constraints": {"words": {"sharding_types": ["row_wise"]}}, "steps": 4}
    study = study_plan(scenario(sharding=sharding), Silent(), compare=True)
    found = {row.planner: row.iteration_time_s is not None for row in study.compared}
    assert set(found) == set(PLANNERS.names())
    assert {name for name, made in found.items() if made} == {
        "greedy",
        "mixed",
        "dynamic_programming",
        "row_wise",
        "search",
    }
    assert kinds_of(study.plan)["words"] == "row_wise"
    assert study.compared[0].planner == "search" or study.compared[0].iteration_time_s == study.iteration_time_s
    (row,) = (row for row in study.compared if row.planner == "zigzag")
    assert row.message == "the planner zigzag cannot obey the constraints of words"


@pytest.mark.parametrize(
    ("constraints", "room", "message"),
    [
        (
            {"words": {"device_group": [1, 2]}, "users": {"device_group": [2]}},
            8e6,
            r"the tables users, words need 0.0176 GB, their device_group \(ranks 1, 2\) has 0.016 GB",
        ),
        (
            {"words": {"device_group": [1, 2]}, "users": {"device_group": [2]}},
            9e6,
            r"with constraints of words \(device_group ranks 1, 2\), users \(device_group rank 2\)",
        ),
        (
            {"words": {"sharding_types": ["table_wise"]}},
            1e7,
            r"the table words under its constraints \(sharding_types table_wise\) needs .* GB on a rank",
        ),
    ],
)
def test_constraints_without_room_name_table_and_constraint(
    constraints: dict[str, Any], room: float, message: str
) -> None:
    """123,456 rows of 48 and 40,003 of 64 fp16 elements, each with 4 bytes of state: 17.6 MB."""
    made = job(sharding={"constraints": constraints})
    made.context = replace(made.context, memory_bytes=room)
    with pytest.raises(InfeasibleError, match=message) as refused:
        made.make("greedy")
    assert refused.value.exit_code == 3


def test_a_job_that_constraints_keep_from_fitting_is_told_so() -> None:
    """48 GB of tables on one GPU of 40 GB; without the constraint they fit on eight."""
    settings = ["cluster=zionex", "workload.sharding.constraints.*={device_group: [0], sharding_types: [table_wise]}"]
    with pytest.raises(InfeasibleError, match=r"their device_group \(rank 0\) has") as refused:
        plan_of_settings(settings)
    remedy = ("workload.sharding.constraints={}",)
    assert remedy in refused.value.remedies
    assert plan_of_settings([settings[0], *remedy]).world_size == 8


def plan_of_settings(settings: list[str]) -> Plan:
    return study_plan(load_scenario("mlperf_dlrm_v1", settings), Silent()).plan


@pytest.mark.parametrize(
    ("key", "constraint", "given", "expected"),
    [
        ("sharding_types", {"sharding_types": ["row_wise", "grid_shard"]}, "column_wise", "row_wise or grid_shard"),
        ("min_partition", {"min_partition": 32}, "a range of 24 columns", "32 or more"),
        ("device_group", {"device_group": [0, 7]}, "a shard on rank 9", "ranks 0, 7"),
        ("compute_kernels", {"compute_kernels": ["fused_uvm"]}, "fused", "fused_uvm"),
        ("together", {"together": "text"}, "ranks 0, 9", "rank 7, as tags"),
    ],
)
def test_a_given_plan_that_breaks_a_constraint_is_refused(
    key: str, constraint: dict[str, Any], given: str, expected: str
) -> None:
    """``words`` in two ranges of 24 columns on ranks 0 and 9; the others whole on rank 7."""
    constraints = {"words": constraint, **({"tags": constraint} if key == "together" else {})}
    made = job(sharding={"plan": written_plan(), "constraints": constraints})
    with pytest.raises(InputError, match=f"the plan breaks the constraint {key} of words") as refused:
        plan_of(made)
    assert (refused.value.key, refused.value.given) == ("workload.sharding.plan.plan.tables.words", given)
    assert refused.value.expected == expected


def test_a_given_plan_that_obeys_is_run() -> None:
    constraints = {"words": {"sharding_types": ["column_wise"], "min_partition": 24, "device_group": [0, 9]}}
    made = job(sharding={"plan": written_plan(), "constraints": constraints})
    assert kinds_of(plan_of(made))["words"] == "column_wise"


def written_plan() -> dict[str, Any]:
    """A plan file for the five tables."""
    whole = {name: {"sharding_type": "table_wise", "ranks": [7]} for name in ("users", "items", "tags", "pages")}
    words = {"sharding_type": "column_wise", "ranks": [0, 9]}
    return {"world_size": 16, "plan": {"tables": {**whole, "words": words}}}


def test_constraints_stand_in_the_resolved_scenario_and_lead_to_the_same_plan() -> None:
    sharding = {"planner": "greedy", "constraints": {"w*": {"device_group": "nodes 1", "min_partition": 16}}}
    resolved = scenario(sharding=sharding)
    again = resolve(Document(resolved.to_dict(), {}, Path("again.yaml")))
    assert again.scenario.workload.sharding.constraints == resolved.scenario.workload.sharding.constraints
    assert again.hash == resolved.hash
    made = [plan_to_dict(study_plan(found, Silent()).plan) for found in (resolved, again)]
    assert made[0] == made[1]


def test_a_setting_and_a_sweep_change_a_constraint(tmp_path: Path) -> None:
    """Row blocks, a whole table, and a type that 128 columns cannot have in ranges of 128."""
    key = "workload.sharding.constraints.table_0"
    row = plan_of_settings([f"{key}.sharding_types=[row_wise]"])
    assert kinds_of(row)["table_0"] == "row_wise"
    values = "[row_wise],[table_wise],[column_wise]"
    swept = dlrmsim.sweep(
        "mlperf_dlrm_v1",
        over=[f"{key}.sharding_types={values}"],
        settings=[f"{key}.min_partition=128"],
        out=tmp_path / "sweep",
    )
    assert swept.table["status"].tolist() == ["ok", "ok", "refused"]


def test_tables_alone_are_in_no_set() -> None:
    made = job(sharding={"constraints": {"words": {"together": "a"}, "tags": {"together": "a"}}})
    assert made.context.constraints is not None
    assert made.context.constraints.together.tolist() == [ALONE, ALONE, 0, 0, ALONE]


def test_the_optimum_of_a_constraint_is_no_faster_than_the_optimum() -> None:
    """A search that simulates: with a constraint it ends with a plan at most as fast."""
    free = job(8, sharding={"planner": "search", "steps": 40})
    best = free.simulate_s(free.make("search"))
    for constraint in ({"sharding_types": ["row_wise"]}, {"device_group": [0]}, {"together": "a"}):
        both = {"words": constraint, "items": constraint}
        bound = job(8, sharding={"planner": "search", "steps": 40, "constraints": both})
        assert bound.simulate_s(bound.make("search")) >= best
