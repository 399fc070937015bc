"""Hybrid embedding: which rows are frequent, and that no lookup is lost or looked up twice."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from inputs.errors import InputError
from simulator.collective_calls import CollectiveCall
from tests.pipeline_jobs import MODEL, small_plan, small_settings
from workloads.dlrm.iteration.generate import generate
from workloads.dlrm.iteration.groups import EmbeddingGroup
from workloads.dlrm.iteration.hybrid import frequent_rows, threshold
from workloads.dlrm.iteration.job import Job, make_job
from workloads.dlrm.iteration.memory import memory_per_rank
from workloads.dlrm.model.choices import HybridEmbedding, Optimizer
from workloads.dlrm.model.model import load_model
from workloads.dlrm.model.settings import DlrmSettings

RANKS = 4
RULE = HybridEmbedding()
SGD = Optimizer(dense="sgd", tables="sgd")


def hybrid(rule: HybridEmbedding | None = RULE, **changes: object) -> DlrmSettings:
    """The small job with measured reuse of indices, which popular rows follow from."""
    from workloads.dlrm.laws.index_laws import make_law

    law = make_law(load_model(MODEL).index_reuse.value)
    return small_settings(RANKS, optimizer=SGD, indices=law, hybrid=rule, **changes)


def job(settings: DlrmSettings) -> Job:
    return make_job(load_model(MODEL), small_plan(RANKS), settings)


def total(group: EmbeddingGroup, amount: str) -> float:
    """Over all ranks."""
    return float(np.broadcast_to(getattr(group.lookup, amount), RANKS).sum())


def test_the_rule_on_one_node() -> None:
    """p such that in M samples of a rank two of M (M - 1) / 2 pairs are the row with probability 0.01."""
    samples = 512
    p = threshold(hybrid(), RULE) / (RANKS * samples)
    assert samples * (samples - 1) / 2 * p * p == pytest.approx(0.01)


def test_the_rule_on_several_nodes() -> None:
    """Sending c vectors at one rate takes as long as summing one gradient at the other: N^2 / (N - 1) ratio eff."""
    settings = hybrid(local_world_size=2)
    assert threshold(settings, RULE) == pytest.approx(16 / 3 * 190 / 130 * 0.5)
    assert threshold(settings, RULE.model_copy(update={"count_threshold": 7.5})) == 7.5


@pytest.mark.parametrize("count", [0.5, 2.0, 30.0])
def test_lookups_and_vectors_are_split_not_lost(count: float) -> None:
    """Owners and copies together look up, and make, what owners alone did; only what owners make is sent."""
    plain, both = job(hybrid(None)), job(hybrid(RULE.model_copy(update={"count_threshold": count})))
    assert [group.kind for group in both.groups] == ["column", "frequent"]
    for amount in ("lookups", "row_bytes", "output_bytes"):
        split = [total(group, amount) for group in both.groups]
        assert sum(split) == pytest.approx(total(plain.groups[0], amount))
        assert min(split) > 0
    assert both.pooled_width == plain.pooled_width
    owners = total(both.groups[0], "output_bytes") / total(plain.groups[0], "output_bytes")
    for direction in ("forward", "backward"):
        sent = [float(np.sum(np.broadcast_to(getattr(j.groups[0], direction)[0].bytes, RANKS))) for j in (both, plain)]
        assert sent[0] == pytest.approx(owners * sent[1])
    values = [float(np.sum(np.broadcast_to(j.groups[0].values.bytes, RANKS))) for j in (both, plain)]  # type: ignore[union-attr]
    assert values[0] == pytest.approx(owners * values[1])


def test_rows_above_the_threshold_are_frequent() -> None:
    """Every frequent row is looked up more often than the threshold; lookups allow no more of them."""
    settings = hybrid(RULE.model_copy(update={"count_threshold": 5.0}))
    tables = small_plan(RANKS).tables
    found = frequent_rows(tables, settings, np.arange(len(tables)))
    lookups = settings.global_batch_size * found.share
    assert np.all(found.rows * 5.0 <= lookups + 1e-6)
    assert np.all(found.local_distinct <= found.distinct)
    assert np.all(found.distinct <= found.rows + 1e-6)
    assert np.all(found.rows <= tables.rows)
    fewer = frequent_rows(tables, hybrid(RULE.model_copy(update={"count_threshold": 50.0})), np.arange(len(tables)))
    assert 0 < fewer.rows.sum() < found.rows.sum()


def test_frequent_rows_are_kept_and_summed_on_all_ranks() -> None:
    """Their gradients are in the all_reduce, their weights and gradients in the memory of every rank."""
    settings = hybrid(RULE.model_copy(update={"count_threshold": 5.0}))
    plain, both = job(hybrid(None)), job(settings)
    tables = both.plan.tables
    rows = frequent_rows(tables, settings, np.arange(len(tables))).rows
    assert both.parameters - plain.parameters == int(rows @ tables.dim)
    assert sum(bucket.parameters for bucket in both.buckets) == both.parameters
    uses = [memory_per_rank(load_model(MODEL), both.plan, chosen).tiers["hbm"] for chosen in (settings, hybrid(None))]
    for item in ("weights", "gradients"):
        extra = np.asarray(uses[0][item]) - np.asarray(uses[1][item])
        assert extra == pytest.approx(float(rows @ tables.dim) * 2)  # fp16
    calls = [
        w for w in generate(load_model(MODEL), both.plan, settings).programs[0].work if isinstance(w, CollectiveCall)
    ]
    reduced = sum(float(np.mean(call.bytes)) for call in calls if call.op == "all_reduce")
    assert reduced == pytest.approx(both.parameters * 4)


def test_what_hugectr_does_not_split_is_refused() -> None:
    plan = small_plan(RANKS)
    with pytest.raises(InputError, match="for SGD"):
        make_job(load_model(MODEL), plan, replace(hybrid(), optimizer=Optimizer(dense="sgd", tables="rowwise_adagrad")))
    with pytest.raises(InputError, match="whole rows"):
        make_job(load_model(MODEL), small_plan(RANKS, "row_wise"), hybrid())
    tables = replace(plan.tables, pooling_factor=np.full(len(plan.tables), 2.0))
    with pytest.raises(InputError, match="one lookup per feature"):
        make_job(load_model(MODEL), replace(plan, tables=tables), hybrid())
