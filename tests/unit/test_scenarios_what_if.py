"""What-ifs: plans that are kept, plans of their own, refusals, and equality with runs from scratch."""

from __future__ import annotations

import json
import random

import pytest

import dlrmsim
from inputs.errors import InputError
from scenarios.progress import Silent
from scenarios.resolve import asked_again, load_scenario
from scenarios.runner import simulate, simulation_of
from scenarios.summary import summary_of
from scenarios.what_if import WhatIf, in_rows

CHANGES = {
    "synthetic_tiny": [
        "cluster.node.nics.nic.bytes_per_s=10GB/s", "cluster.node.scale_up.bytes_per_s=100GB/s",
        "cluster.node.gpu.memory_bytes_per_s=3TB/s", "workload.pipeline=none", "workload.pipeline=sparse_dist",
        "workload.global_batch_size=2048", "precision.all_reduce=fp16", "precision.tables=fp16", "run.iterations=5",
        "run.max_iterations=20", "variation.compute_jitter=0.05", "variation.host_jitter=0.1", "variation.seed=3",
        "variation.straggler_ranks=[1]", "output.record.iterations=3", "cost={gpu_hour_usd: 2}",
        "placement=round_robin",
        "network.algorithms={all_reduce: ring}", "network.background={nvlink: 0.2}", "name=other",
        "workload.sharding.planner=row_wise", "workload.sharding.planner=data_parallel",
        'transform=[{fuse: "*"}]',
    ],
    "gpt2_8": [
        "workload.samples_per_rank=8", "cluster.node.scale_up.bytes_per_s=100GB/s", "precision.all_reduce=bf16",
        "run.iterations=4", "variation.compute_jitter=0.02", "cost={gpu_hour_usd: 1}", "workload.recompute=full",
        "placement=random", "variation.seed=5", "name=another",
    ],
    "cpu_dlrm_small": [
        "workload.embedding_update=atomic", "run.iterations=4", "name=another", "cost={gpu_hour_usd: 1}",
        "variation.straggler_ranks=[1]", "nodes=2", "network.backend=ccl", "run.max_iterations=5",
    ],
}  # fmt: skip
"""Small scenarios and changes of their keys; some are refused together."""

COUNTS = {"synthetic_tiny": 120, "gpt2_8": 40, "cpu_dlrm_small": 40}
SHORT = "run.max_iterations=6"


@pytest.fixture(scope="module")
def tiny() -> WhatIf:
    return WhatIf.of(load_scenario("synthetic_tiny"))


def written(summary: object) -> str:
    return json.dumps(summary, sort_keys=True)


@pytest.mark.parametrize("name", CHANGES)
def test_200_random_changes_are_as_from_scratch(name):
    """Each takes over machine, plan, graph and lowering of the run before it, where they are the same."""
    source, before = random.Random(name), simulation_of(load_scenario(name, [SHORT]), Silent())
    base, reused = before.resolved, {"machine": 0, "graph": 0, "lowering": 0}
    tried = 0
    while tried < COUNTS[name]:
        settings = source.sample(CHANGES[name], source.randint(1, 2))
        try:
            fresh = simulation_of(asked_again(base, [SHORT, *settings]), Silent())
        except InputError:
            continue
        tried += 1
        again = simulation_of(asked_again(base, [SHORT, *settings]), Silent(), before)
        reused["machine"] += again.prepared.machine is before.prepared.machine
        reused["graph"] += again.graph is before.graph
        reused["lowering"] += again.lowering is before.lowering
        texts = [written(summary_of(s.prepared, s.analysis, None, None, None, s.warnings)) for s in (fresh, again)]
        assert texts[0] == texts[1], settings
        assert fresh.result.rank_end_ps.tolist() == again.result.rank_end_ps.tolist(), settings
        before = again
    assert min(reused.values()) > 0, "changes that leave each part as it is are among the changes"


def test_a_bound_after_another_run_is_as_from_scratch():
    before = simulate(load_scenario("synthetic_tiny"), Silent())
    resolved = load_scenario("synthetic_tiny", ["run.iterations=6"])
    assert written(simulate(resolved, Silent(), before=before).summary) == written(simulate(resolved, Silent()).summary)


def test_a_kept_plan_is_the_plan_of_the_unchanged_scenario():
    question = WhatIf.of(load_scenario("mlperf_dlrm_v1", ["nodes=2"]))
    faster = "cluster.node.scale_up.bytes_per_s=2TB/s"
    answer, own = question.ask(faster), question.ask(faster, plan="own")
    assert (answer.plan, answer.refusal) == ("kept", "")
    assert answer.summary["sharding"] == question.unchanged.summary["sharding"]
    assert (own.plan, own.refusal) == ("own", "")


@pytest.mark.parametrize("setting", ["workload.sharding.planner=row_wise", "workload.rows_scaling=fit"])
def test_keys_of_the_plan_have_a_plan_of_their_own(tiny, setting):
    answer = tiny.ask(setting)
    assert (answer.plan, answer.refusal) == ("own", "")
    assert answer.summary == tiny.ask(setting, plan="own").summary


def test_wrong_keys_of_the_plan_are_refused(tiny):
    assert "nonsense" in tiny.ask("workload.sharding.planner=nonsense").refusal


def test_tables_of_another_precision_have_their_bytes_under_a_kept_plan(tiny):
    answer = tiny.ask("precision.tables=fp16")
    assert answer.plan == "kept"
    before, after = (each.summary["memory"]["hbm"]["max_bytes"] for each in (tiny.unchanged, answer))
    assert after < before


def test_nodes_of_another_width_have_a_plan_of_their_own():
    settings = ["cluster=dgx1_v100_32", "world_size=16", "workload.sharding.planner=table_row_wise"]
    question = WhatIf.of(load_scenario("dlrm_default", settings))
    assert "whole nodes" in question.ask("cluster=deepbench_titan_x").refusal


def test_a_plan_that_was_kept_is_not_taken_for_the_scenarios_own(tiny):
    """A job with the plan of another one, as the start of a further change."""
    base = tiny.base.prepared
    slow = asked_again(base.resolved, ["workload.sharding.planner=row_wise"])
    kept = base.job.changed(slow, base.machine)
    again = kept.changed(slow, base.machine, place_again=True)
    assert kept.workload.plan.planner != again.workload.plan.planner == "row_wise"


def test_no_such_plan_is_refused(tiny):
    with pytest.raises(InputError, match="expected kept or own"):
        tiny.ask("run.iterations=4", plan="keep")


def test_another_number_of_ranks_has_a_plan_of_its_own(tiny):
    answer = tiny.ask("world_size=4", "nodes=null")
    assert (answer.plan, answer.refusal) == ("own", "")
    assert answer.summary["world_size"] == 4


def test_gains_are_of_the_time_of_a_sample(tiny):
    before, answer = tiny.unchanged, tiny.ask("workload.global_batch_size=2048")
    per_sample = [a.iteration_time_s / a.summary["global_batch_size"] for a in (before, answer)]
    assert tiny.gain(answer) == pytest.approx(1 - per_sample[1] / per_sample[0])
    assert tiny.gain(before) == 0.0


@pytest.mark.parametrize(
    ("setting", "reason"),
    [("workload.pipline=none", "pipeline"), ("workload.global_batch_size=100000000000", "fit")],
)
def test_a_refused_change_has_its_reason(tiny, setting, reason):
    answer = tiny.ask(setting)
    assert answer.summary is None
    assert reason in answer.refusal
    assert tiny.gain(answer) is None


def test_the_verb_tries_each_change_by_itself():
    found = dlrmsim.what_if("synthetic_tiny", changes=["workload.pipeline=none", "run.iterations=4 and name=x"])
    assert [answer.settings for answer in found.answers] == [
        ("workload.pipeline=none",),
        ("run.iterations=4", "name=x"),
    ]
    assert found.answers[1].summary["name"] == "x"
    rows = in_rows(found)
    assert len(rows) == 3
    assert rows[0]["gain"] == 0.0
    with pytest.raises(InputError, match="is no change"):
        dlrmsim.what_if("synthetic_tiny", changes=["faster"])
