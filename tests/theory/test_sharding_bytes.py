"""Bytes and memory of every sharding type, counted by hand from the written plan, against what is simulated."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from scenarios.dlrm.plan_study import statistics_of
from scenarios.dlrm.plans import PlanningJob
from scenarios.progress import Silent
from scenarios.runner import simulate
from simulator.lowering import lower
from simulator.precisions import BYTES_PER_ELEMENT
from tests.planning_jobs import job, scenario
from workloads.dlrm.iteration.generate import generate
from workloads.dlrm.iteration.memory import stored_on_ranks
from workloads.dlrm.model.batch_contents import batch_lookups
from workloads.dlrm.sharding import SHARDING_TYPES, plan_to_dict
from workloads.dlrm.sharding.plan import Plan
from workloads.dlrm.sharding.plan_exchange import MODULE

LOCAL = 8
MIXED = "mixed"
KINDS = [*SHARDING_TYPES, MIXED]


def plan_of(planned: PlanningJob, kind: str) -> Plan:
    """All tables in one way, or each table in a way of its own."""
    if kind != MIXED:
        return planned.make(kind)
    from workloads.dlrm.sharding.composing import compose
    from workloads.dlrm.sharding.options import Option

    options = [
        Option("table_row_wise"),
        Option("column_wise", 2),
        Option("data_parallel"),
        Option("row_wise"),
        Option("table_wise"),
    ]
    return compose(planned.tables, planned.context, options, MIXED)


def shards(plan: Plan) -> Iterator[tuple[int, str, dict[str, Any]]]:
    """(table, sharding type, shard) of everything that the written plan lists."""
    entries = plan_to_dict(plan)["plan"][MODULE]
    for table, name in enumerate(plan.tables.names):
        spec = entries[name]["sharding_spec"]
        for shard in spec["shards"] if spec else []:
            yield table, entries[name]["sharding_type"], shard


def rank_of(shard: dict[str, Any]) -> int:
    return int(shard["placement"].split(":")[1].split("/")[0])


def counted(plan: Plan, planned: PlanningJob) -> dict[tuple[str, str], float]:
    """(op, direction) -> bytes over all ranks, nccl-tests' size, a shard at a time.

    TorchRec (software facts, collectives per iteration): a shard's owner is sent the lengths of its features by every
    sample and the indices that fall into its rows. A column shard's rank sends a vector per sample. A rank of a
    row_wise table puts a vector per sample into a reduce_scatter; so does a rank of a node, which then holds 1/L of the
    samples' sums and sends them across nodes. Backward mirrors forward: of an all_to_all the receivers send, an
    all_gather puts out what the reduce_scatter took.
    """
    settings, tables, total = planned.settings, plan.tables, defaultdict(float)
    batch = settings.global_batch_size
    for table, kind, shard in shards(plan):
        features, share = int(tables.features[table]), shard["shard_sizes"][0] / int(tables.rows[table])
        vectors = batch * features * shard["shard_sizes"][1]
        total["all_to_all", "lengths"] += batch * features * settings.length_bytes
        indices = float(batch_lookups(tables, settings)[table].sum()) * share
        total["all_to_all", "values"] += indices * settings.index_bytes
        for direction, size in (("forward", settings.forward_bytes), ("backward", settings.backward_bytes)):
            if kind in ("table_wise", "column_wise", "table_column_wise"):
                total["all_to_all", direction] += vectors * size
            else:
                total["reduce_scatter" if direction == "forward" else "all_gather", direction] += vectors * size
                if kind != "row_wise":
                    total["all_to_all", direction] += vectors / LOCAL * size
    return dict(total)


def simulated(plan: Plan, planned: PlanningJob) -> dict[tuple[str, str], float]:
    """(op, direction) -> bytes over all ranks that lowering hands to the engine."""
    lowering = lower(generate(planned.resolved.model, plan, planned.settings), planned.machine)
    total = defaultdict(float)
    for info in lowering.collectives:
        for direction in ("lengths", "values", "forward", "backward"):
            if f"_dist_{direction}" in info.task:
                total[info.op, direction] += info.bytes * info.members * info.instances
    return dict(total)


SKEWS: dict[str, dict[str, Any]] = {
    "even": {},
    "hashed": {"indices": {"distribution": "zipf", "exponent": 1.1}},
    "ordered": {
        "indices": {"distribution": "zipf", "exponent": 0.9, "order": "popularity"},
        "pooling_spread": {"distribution": "lognormal", "deviation": 1.0},
    },
}
"""Laws of rows and of bag lengths."""


@pytest.mark.parametrize("skew", SKEWS)
@pytest.mark.parametrize("kind", KINDS)
def test_bytes_of_every_collective_are_those_of_the_plan(kind: str, skew: str) -> None:
    """To rounding: sums of floats in another order. Skew moves lookups between ranks and loses none."""
    planned = job(**SKEWS[skew])
    plan = plan_of(planned, kind)
    if kind != MIXED:
        assert set(plan.sharding_types) == {kind}
    expected = counted(plan, planned)
    got = simulated(plan, planned)
    assert set(got) == set(expected)
    for key, size in expected.items():
        assert got[key] == pytest.approx(size, rel=1e-12), key


@pytest.mark.parametrize("kind", [k for k in KINDS if k != "data_parallel"])
def test_every_rank_is_sent_what_it_receives(kind: str) -> None:
    """Uneven sizes conserve samples: over each collective of input and output the bytes sent are those received, and
    every rank ends up with a vector of its own samples for every feature that is not copied."""
    planned = job()
    plan = plan_of(planned, kind)
    graph = generate(planned.resolved.model, plan, planned.settings)
    program, batch, tables = graph.programs[0], planned.settings.local_batch_size, plan.tables
    copied = set(plan.data_parallel.tolist())
    width = sum(int(d) for t, d in enumerate(tables.pooled_dim) if t not in copied)
    received = np.zeros(plan.world_size)
    for name, call in zip(program.names, program.work, strict=True):
        if "output_dist_forward" not in name or name.startswith(("launch", "wait")):
            continue
        sent = np.broadcast_to(np.asarray(call.bytes), plan.world_size)
        if call.op == "all_to_all":
            received += arriving(sent, call.receive_weights, graph.communicators[call.communicator])
        elif call.communicator == "world":
            received += sent / plan.world_size
    size = BYTES_PER_ELEMENT["fp16"]
    assert received == pytest.approx(np.full(plan.world_size, batch * width * size), rel=1e-12)


def arriving(sent: np.ndarray, weights: np.ndarray | None, instance: np.ndarray) -> np.ndarray:
    """Bytes that each rank receives in an all_to_all."""
    found = np.zeros(len(instance))
    for number in np.unique(instance):
        members = np.flatnonzero(instance == number)
        share = np.ones(len(members)) if weights is None else weights[members]
        found[members] = sent[members].sum() * share / share.sum()
    return found


@pytest.mark.parametrize("kind", KINDS)
def test_memory_is_what_the_shards_add_up_to(kind: str) -> None:
    """By hand: rows x columns x element size, and 4 B of rowwise Adagrad state per row; copies stand elsewhere."""
    planned = job()
    plan = plan_of(planned, kind)
    weights, state = np.zeros(plan.world_size), np.zeros(plan.world_size)
    for table, _, shard in shards(plan):
        rows, dim = shard["shard_sizes"]
        weights[rank_of(shard)] += rows * dim * int(plan.tables.element_bytes[table])
        state[rank_of(shard)] += 4 * rows
    found = stored_on_ranks(plan, planned.settings)
    assert found["hbm", "weights"] == pytest.approx(weights, rel=0)
    assert found["hbm", "optimizer state"] == pytest.approx(state, rel=0)


def test_memory_of_a_node_by_hand() -> None:
    """`words` (123,456 x 48, fp16) by rows on 8 ranks: 15,432 rows each, 15,432 x 48 x 2 B of weights, 61,728 B of
    state; `tags` (7 rows) leaves the last rank of its node nothing."""
    planned = job()
    plan = plan_of(planned, "table_row_wise")
    words, tags = plan.tables.names.index("words"), plan.tables.names.index("tags")
    rows = dict(zip(plan.nodes.table.tolist(), plan.node_block_rows().tolist(), strict=True))
    assert rows[words] == [15_432] * 8
    assert rows[tags] == [1, 1, 1, 1, 1, 1, 1, 0]


def test_the_statistics_are_those_of_the_run() -> None:
    """Per rank: what statistics say is received and sent, summed, is what the engine was given."""
    planned = job()
    plan = plan_of(planned, MIXED)
    found, total = statistics_of(planned, plan), simulated(plan, planned)
    sent = sum(size for (_, direction), size in total.items() if direction == "forward")
    assert found.output_bytes.sum() == pytest.approx(sent, rel=1e-12)
    received = total["all_to_all", "lengths"] + total["all_to_all", "values"]
    assert found.input_bytes.sum() == pytest.approx(received, rel=1e-12)
    entries = [entry for entry in shards(plan) if entry[2]["shard_sizes"][0]]
    copies = plan.world_size * len(plan.data_parallel)
    assert sum(int(count.sum()) for count in found.shards.values()) == len(entries) + copies


@pytest.mark.parametrize("kind", ["table_row_wise", "grid_shard", "table_column_wise"])
@pytest.mark.parametrize("world_size", [8, 16, 32])
def test_sharding_over_nodes_runs_on_one_node_and_on_many(kind: str, world_size: int) -> None:
    """On one node there is nobody across: the all_to_all has one member and takes no time of the network."""
    outcome = simulate(scenario(world_size, sharding={"planner": kind}), Silent())
    assert outcome.summary["iteration_time_s"] > 0
    cross = [info for info in outcome.lowering.collectives if info.communicator == "cross_node"]
    assert all(info.members == world_size // LOCAL for info in cross)
    assert bool(cross) == (kind != "table_column_wise")


def test_the_all_to_all_across_nodes_waits_for_the_reduce_scatter_in_them() -> None:
    """TorchRec waits for the reduce_scatter before it starts the all_to_all, and the other way round in backward."""
    planned = job()
    plan = plan_of(planned, "table_row_wise")
    outcome = simulate(scenario(sharding={"plan": plan_to_dict(plan)}), Silent())
    program, times = outcome.graph.programs[0], outcome.result.records[-1].groups[0]
    begin = {name: times.start_ps[task] for task, name in enumerate(program.names)}
    end = {name: times.end_ps[task] for task, name in enumerate(program.names)}
    node, cross = ("node_wise_output_dist_{}_" + part for part in ("node", "cross_node"))
    assert np.all(begin[cross.format("forward")] >= end[node.format("forward")])
    assert np.all(begin[node.format("backward")] >= end[cross.format("backward")])
