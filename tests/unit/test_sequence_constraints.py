"""Constraints on tables of sequences: plans of the four types that there are for them, refusals, hints."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from dlrmsim.cli import main
from inputs.errors import InputError
from scenarios.dlrm.plan_study import study_plan
from scenarios.dlrm.plans import PlanningJob, plan_of
from scenarios.progress import Silent
from scenarios.runner import simulate
from tests.sequence_jobs import placed, resolved_job, scenario_data

FOUR = {"table_wise", "column_wise", "row_wise", "data_parallel"}
"""Sharding types of TorchRec's EmbeddingCollection."""
OVER_NODES = ("table_row_wise", "table_column_wise", "grid_shard")
CONSTRAINTS: dict[str, dict[str, Any]] = {
    "device_group": {"item": {"device_group": [0, 2]}},
    "nodes": {"user": {"device_group": "nodes 0"}},
    "min_partition": {"item": {"min_partition": 16}},
    "together": {"item": {"together": "ids"}, "user": {"together": "ids"}},
    "both kinds": {"item": {"sharding_types": ["column_wise", "grid_shard", "table_row_wise"]}},
}


@pytest.mark.parametrize("constraint", CONSTRAINTS)
@pytest.mark.parametrize("planner", ["greedy", "mixed", "dynamic_programming", "search"])
@pytest.mark.parametrize("nodes", [1, 2, 4])
def test_planners_give_constrained_tables_types_of_sequences(nodes: int, planner: str, constraint: str) -> None:
    """On several nodes every type is possible for pooled tables; the plan obeys, and its graph can be made."""
    sharding = {"planner": planner, "steps": 1, "constraints": CONSTRAINTS[constraint]}
    _, workload = placed(None, 8 * nodes, sharding=sharding)
    plan, names = workload.plan, workload.plan.tables.names
    assert set(plan.sharding_types) <= FOUR
    assert workload.graph().programs
    shards = plan.shards()
    ranks = {name: set(shards.rank[shards.table == names.index(name)].tolist()) for name in names}
    if constraint == "device_group":
        assert ranks["item"] <= {0, 2}
    if constraint == "nodes":
        assert ranks["user"] <= set(range(8))
    if constraint == "min_partition":
        assert np.all(shards.dim[shards.table == names.index("item")] >= 16)
    if constraint == "together":
        kinds = dict(zip(names, plan.sharding_types, strict=True))
        assert kinds["item"] == kinds["user"]
        assert ranks["item"] == ranks["user"]
    if constraint == "both kinds":
        assert plan.sharding_types[names.index("item")] == "column_wise"


@pytest.mark.parametrize("nodes", [1, 2, 4])
def test_a_comparison_under_constraints_has_types_of_sequences_only(nodes: int) -> None:
    """Planners of other types say that they cannot obey; none of the others fails."""
    constraints = {
        "item": {"together": "ids", "device_group": "0-3", "min_partition": 16},
        "user": {"together": "ids"},
        "artist": {"sharding_types": ["column_wise", "table_wise", "table_column_wise"]},
    }
    resolved = resolved_job(None, 8 * nodes, sharding={"steps": 1, "constraints": constraints})
    study = study_plan(resolved, Silent(), compare=True)
    for row in study.compared:
        if row.planner in (*OVER_NODES, "row_wise", "data_parallel"):
            assert row.message == f"the planner {row.planner} cannot obey the constraints of artist"
        else:
            assert row.message == ""
            assert set(row.tables_by_type or ()) <= FOUR
    assert set(study.plan.sharding_types) <= FOUR


def refused(constraints: dict[str, Any], folder: Path, capsys: pytest.CaptureFixture[str]) -> tuple[str, list[str]]:
    """What a run on two nodes prints of wrong constraints, and the lines of its file."""
    file = folder / "job.yaml"
    data = json.loads(json.dumps(scenario_data(None, 16, sharding={"constraints": constraints})))
    file.write_text(yaml.safe_dump(data, sort_keys=False), encoding="utf-8")
    assert main(["run", str(file), "--check"]) == 2
    shown = capsys.readouterr()
    assert shown.out == ""
    return shown.err, file.read_text(encoding="utf-8").splitlines()


@pytest.mark.parametrize("types", [[kind] for kind in OVER_NODES] + [list(OVER_NODES)])
def test_types_over_nodes_alone_are_refused_with_their_line(
    types: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shown, lines = refused({"item": {"sharding_types": types}}, tmp_path, capsys)
    line = 1 + next(number for number, text in enumerate(lines) if text.strip() == "sharding_types:")
    assert f"job.yaml:{line}: workload.sharding.constraints.item.sharding_types: the table item is one of a" in shown
    expected = [kind for kind in ("table_row_wise", "table_column_wise", "grid_shard") if kind in types]
    assert f"given '{', '.join(expected)}'" in shown
    assert shown.rstrip().endswith("expected some of table_wise, column_wise, row_wise, data_parallel")


def test_the_entry_of_the_table_that_is_wrong_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Not of another table of its set, which has no sharding types of its own."""
    constraints = {"item": {"together": "a"}, "user": {"together": "a", "sharding_types": ["table_row_wise"]}}
    shown, _ = refused(constraints, tmp_path, capsys)
    assert "workload.sharding.constraints.user.sharding_types: the table user" in shown


def test_sets_without_a_type_of_sequences_in_common_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    constraints = {
        name: {"together": "a", "sharding_types": [kind, "table_row_wise"]}
        for name, kind in (("item", "row_wise"), ("user", "column_wise"))
    }
    shown, _ = refused(constraints, tmp_path, capsys)
    assert "tables placed together have no sharding_types in common" in shown


@pytest.mark.parametrize(
    ("constraint", "offered"),
    [
        ({"sharding_types": ["column_wise"], "min_partition": 32}, "table_wise, row_wise, data_parallel"),
        ({"sharding_types": ["row_wise"], "device_group": [0]}, "table_wise"),
        ({"sharding_types": ["row_wise", "grid_shard"], "device_group": "nodes 0"}, "table_wise, column_wise"),
    ],
)
def test_hints_offer_types_of_sequences_only(constraint: dict[str, Any], offered: str) -> None:
    job = PlanningJob.of(resolved_job(None, 16, sharding={"constraints": {"item": constraint}}))
    with pytest.raises(InputError, match="leave no way to shard it") as found:
        plan_of(job)
    assert found.value.expected == f"one of {offered} among its sharding_types, or other constraints"


@pytest.mark.parametrize("mode", ["train", "eval"])
def test_levers_are_settings_that_a_job_with_sequences_may_have(mode: str) -> None:
    """Under a constraint on two nodes: neither planners over nodes nor graphs of whole iterations."""
    sharding = {"constraints": {"item": {"device_group": "0-3"}}}
    outcome = simulate(resolved_job(None, 16, sharding=sharding, mode=mode), Silent())
    found = [candidate.setting for candidate in outcome.prepared.job.candidates(outcome.bound)]
    assert "workload.sharding.planner=column_wise" in found
    assert "workload.cuda_graph=network" in found
    assert not [setting for setting in found if setting.endswith((*OVER_NODES, "cuda_graph=iteration"))]
