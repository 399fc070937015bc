"""Dense layers under MAD-Max's strategies: volumes, memory and work by closed forms.

With P the parameters of a rank's layers before FSDP divides them, t ranks of a tensor group, f of FSDP's shards and b
samples of a rank: FSDP gathers P twice and scatters gradients once, 3 P in all; its replicas sum P / f; DDP sums P, of
which a ring moves 2 (n - 1) / n; a block of a tensor group gathers t b inputs and scatters t b outputs forward, and the
reverse backward.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise, product

import numpy as np
import pytest

from simulator.equality import same
from simulator.operators import Elementwise, Gemm
from tests.strategy_jobs import BATCH, BOTTOM, NODE_RANKS, NODES, TOP, calls, placed
from workloads.dlrm.iteration.divided_layers import GatheredWeights
from workloads.dlrm.iteration.job import make_job
from workloads.dlrm.iteration.layer_parts import LayerPart, layer_parts
from workloads.dlrm.iteration.memory import bytes_beside_tables
from workloads.dlrm.model.choices import DenseStrategies
from workloads.dlrm.model.dense import dense_part
from workloads.graph.levels import GATHER, LEVEL_STRATEGIES, LevelStrategies, all_levels
from workloads.graph.recorder import DEFAULT, HOST, Recorder

LEVELS = list(product(LEVEL_STRATEGIES, repeat=2))
DDP = ("ddp", "ddp")
FLOAT = 4


def group(strategy: str, chosen: tuple[str, str]) -> tuple[str, int]:
    """Communicator and size of the ranks in which a strategy applies."""
    inside, between = (level == strategy for level in chosen)
    if inside and between:
        return "world", NODE_RANKS * NODES
    return ("node", NODE_RANKS) if inside else ("cross_node", NODES) if between else ("world", 1)


def rank_parameters(widths: tuple[int, ...], tensor: int) -> list[int]:
    """Parameters of each layer on a rank: pairs of layers by columns and rows, a last single one by rows."""
    found = []
    for place, (inputs, outputs) in enumerate(pairwise(widths)):
        last, columns = place == len(widths) - 2, place % 2 == 0
        if columns and not last:
            found.append((inputs + 1) * outputs // tensor)
        else:
            found.append(inputs * outputs // tensor + outputs)
    return found


@pytest.mark.parametrize("chosen", LEVELS)
def test_volumes_are_those_of_the_closed_forms(chosen: tuple[str, str]) -> None:
    (_, tensor), (shard_name, shards) = group("tensor", chosen), group("fsdp", chosen)
    summed_name, replicas = group("ddp", chosen)
    own = sum(rank_parameters(TOP, tensor)) * FLOAT
    program = placed(DDP, chosen)[1].graph().programs[0]
    gathered, scattered = (
        calls(program, "all_gather", "_weights_"),
        calls(program, "reduce_scatter", "gradient_scatter"),
    )
    if shards > 1:
        assert sum(call.bytes for call in (*gathered, *scattered)) == 3 * own
        assert {call.communicator for call in (*gathered, *scattered)} == {shard_name}
    else:
        assert gathered == scattered == []
    over_replicas = calls(program, "all_reduce", "gradient_replicas")
    bottom = sum(rank_parameters(BOTTOM, 1)) * FLOAT
    buckets = {call.communicator: 0.0 for call in calls(program, "all_reduce", "gradient_all_reduce")}
    for call in calls(program, "all_reduce", "gradient_all_reduce"):
        buckets[call.communicator] += float(np.max(call.bytes))
    expected = {"world": float(bottom)}
    if shards == 1 and replicas > 1:
        expected[summed_name] = expected.get(summed_name, 0.0) + own
    assert buckets == expected
    assert sum(call.bytes for call in over_replicas) == (own / shards if shards > 1 and replicas > 1 else 0)


@pytest.mark.parametrize("chosen", [level for level in LEVELS if "tensor" in level])
def test_tensor_groups_exchange_activations_at_the_ends_of_blocks(chosen: tuple[str, str]) -> None:
    name, tensor = group("tensor", chosen)
    program = placed(DDP, chosen)[1].graph().programs[0]
    ends = [(TOP[0], TOP[2]), (TOP[2], TOP[3])]  # a block of two layers, and a single one
    inputs, outputs = (FLOAT * tensor * BATCH * sum(widths) for widths in zip(*ends, strict=True))
    parts = {"inputs": ("all_gather", inputs), "outputs": ("reduce_scatter", outputs)}
    for end, (op, size) in parts.items():
        back = {"all_gather": "reduce_scatter", "reduce_scatter": "all_gather"}[op]
        forward = [call for call in calls(program, op, f"_{end}") if call not in calls(program, op, f"_{end}_backward")]
        assert sum(call.bytes for call in forward) == size
        backward = calls(program, back, f"_{end}_backward")
        assert sum(call.bytes for call in backward) == size
        assert {call.communicator for call in (*forward, *backward)} == {name}


@pytest.mark.parametrize("chosen", LEVELS)
def test_memory_is_that_of_a_count_by_hand(chosen: tuple[str, str]) -> None:
    (_, tensor), (_, shards) = group("tensor", chosen), group("fsdp", chosen)
    job, workload = placed(DDP, chosen)
    beside = bytes_beside_tables(job.resolved.model, job.tables, job.settings)
    own, plain = workload.memory().tiers["hbm"], placed(DDP, DDP)[1].memory().tiers["hbm"]
    layers = rank_parameters(TOP, tensor)
    kept = sum(-(-parameters // shards) for parameters in layers)
    whole = sum(rank_parameters(TOP, 1))
    for item in ("weights", "gradients"):
        assert set(plain[item] - own[item]) == {FLOAT * (whole - kept)}, item
    if shards > 1:  # two layers at a time, and the gradient of the largest
        largest = sorted(layers, reverse=True)
        assert set(own["gathered weights"]) == {FLOAT * (largest[0] + largest[1] + largest[0])}
    else:
        assert "gathered weights" not in own
    sums = own["communication buffers"] - plain["communication buffers"]
    if tensor > 1:  # autograd keeps the gathered inputs of blocks; outputs of the widest block are summed
        assert set(own["activations"] - plain["activations"]) == {FLOAT * BATCH * tensor * (TOP[0] + TOP[2])}
        assert set(sums) == {FLOAT * BATCH * tensor * TOP[2]}
    else:
        assert set(sums) == {0.0}
    total = workload.memory().total("hbm") - placed(DDP, DDP)[1].memory().total("hbm")
    plain_job = placed(DDP, DDP)[0]
    plain_beside = bytes_beside_tables(plain_job.resolved.model, plain_job.tables, plain_job.settings)
    assert np.allclose(total, beside - plain_beside)  # planners leave that room
    assert job.context.memory_bytes <= job.report(workload.plan).capacity_bytes["hbm"]


def test_all_strategies_do_the_same_products() -> None:
    def flop(chosen: tuple[str, str]) -> float:
        program = placed(chosen, chosen)[1].graph().programs[0]
        products = [work for work in program.work if isinstance(work, Gemm)]
        return sum(2.0 * float(work.m) * float(work.n) * float(work.k) for work in products)

    assert len({flop(chosen) for chosen in LEVELS}) == 1


def test_data_parallelism_everywhere_is_the_default() -> None:
    _, workload = placed(DDP, DDP)
    default = replace(workload, settings=replace(workload.settings, dense=DenseStrategies()))
    assert same(workload.graph(), default.graph())


@pytest.mark.parametrize(("local", "nodes"), [(1, 1), (1, NODES), (NODE_RANKS, 1)])
def test_levels_of_one_rank_change_nothing(local: int, nodes: int) -> None:
    """Strategies that are the same on a machine make the same parts, and data parallelism makes none."""
    job, _ = placed(DDP, DDP)
    settings = replace(job.settings, world_size=local * nodes, local_world_size=local)
    part = dense_part(job.resolved.model, job.tables)

    def parts(chosen: LevelStrategies) -> dict[str, LayerPart]:
        return layer_parts(part, replace(settings, dense=DenseStrategies(bottom=chosen, top=chosen)))

    for node, between in LEVELS:
        chosen = LevelStrategies(node=node, between=between)
        assert parts(chosen) == parts(chosen.on(local, nodes))
        assert bool(parts(chosen)) != chosen.on(local, nodes).plain
    assert len(all_levels(local, nodes)) == (1 if local * nodes == 1 else len(LEVEL_STRATEGIES))


@pytest.mark.parametrize("chosen", LEVELS)
def test_gradients_of_all_layers_are_divided_by_the_ranks(chosen: tuple[str, str]) -> None:
    """Each gradient is written once for it, whole on a rank before FSDP scatters it, by kernels of one rate."""

    def written(of: tuple[str, str]) -> list[float]:
        program = placed(DDP, of)[1].graph().programs[0]
        named = zip(program.names, program.work, strict=True)
        scaled = [work for name, work in named if name.startswith("top") and name.endswith("_gradient_scale")]
        return [float(np.max(work.write_bytes)) for work in scaled if isinstance(work, Elementwise)]

    (_, tensor), whole = group("tensor", chosen), written(DDP)
    expected = [rank_parameters(TOP, tensor), rank_parameters(TOP, 1)]
    assert len(written(chosen)) == len(whole) == len(TOP) - 1
    assert sum(written(chosen)) / sum(whole) == pytest.approx(sum(expected[0]) / sum(expected[1]))


def test_weights_are_used_in_the_order_in_which_they_are_gathered() -> None:
    job, workload = placed(DDP, ("fsdp", "fsdp"))
    first, second, *_ = (made := make_job(job.resolved.model, workload.plan, job.settings)).parts.values()
    recorder = Recorder(np.arange(made.plan.world_size), job.settings.framework, [HOST, DEFAULT, GATHER], name="test")
    with pytest.raises(ValueError, match=f"{second.whole.name} are used in place of those of {first.whole.name}"):
        GatheredWeights(recorder, made, "dense_optimizer").use(second, "test")


def test_fsdp_scatters_the_gradients_of_every_pass_and_sums_replicas_once() -> None:
    program = placed(("fsdp", "ddp"), ("fsdp", "ddp"), passes=2)[1].graph().programs[0]
    layers = len(BOTTOM) + len(TOP) - 2
    assert len(calls(program, "reduce_scatter", "gradient_scatter")) == 2 * layers
    assert len(calls(program, "all_gather", "_weights_")) == 4 * layers
    assert len(calls(program, "all_reduce", "gradient_replicas")) == layers
