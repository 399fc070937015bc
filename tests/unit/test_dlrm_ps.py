"""DLRMs with parameter servers: closed forms, laws, memory, placement, asynchrony."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from hardware_specs import load_cluster
from inputs.errors import InputError
from scenarios.progress import Silent
from scenarios.resolve import load_scenario
from scenarios.runner import simulate, simulation_of
from scenarios.summary import summary_of
from simulator.collective_calls import CollectiveCall
from simulator.engine import RunOptions, run
from simulator.engine.oracle import run_oracle
from simulator.lowering import Variation, build_machine, lower
from simulator.operators import DenseOptimizer, EmbeddingLookup, Gemm
from workloads.dlrm.model.model import load_model
from workloads.dlrm.model.tables import expand_tables
from workloads.dlrm_ps.family import DlrmPsWorkload
from workloads.dlrm_ps.placement import place_tables, stored_bytes
from workloads.dlrm_ps.settings import MOST_WAVES, PsSettings
from workloads.dlrm_ps.thread_work import halves
from workloads.family import Workload
from workloads.graph.framework import load_framework
from workloads.graph.parameter_servers import GRPC_BYTES_PER_S, GRPC_CALL_S

MODEL = load_model("cpu_dlrm_small")
TABLES = expand_tables(MODEL)
CLUSTER = load_cluster("cpu_servers_25gbe")
CORES = 40
NIC = 25e9 / 8 * 0.9
"""Rate of a NIC, B/s."""

ALONE = PsSettings(
    trainers=1,
    sparse_servers=1,
    dense_servers=0,
    readers=0,
    threads=1,
    batch_per_thread=200,
    cores=CORES,
    framework=load_framework("pytorch_cpu"),
)
JOB = replace(ALONE, trainers=3, sparse_servers=3, dense_servers=2, readers=2, threads=6, batch_per_thread=50)


def machine_of(settings: PsSettings):
    launch_s = settings.framework.launch_s.value
    return build_machine(CLUSTER, settings.world_size, launch_s=launch_s)


def lowered(settings: PsSettings, model=MODEL, *, variation: Variation | None = None):
    return lower(DlrmPsWorkload(model, settings).graph(), machine_of(settings), variation=variation)


def iteration_s(settings: PsSettings, model=MODEL, iterations: int = 14) -> float:
    """Mean of the second half of the iterations."""
    ends = run(lowered(settings, model).program, RunOptions(iterations, keep_last=1)).iteration_end_ps
    half = iterations // 2
    return float(ends[-1] - ends[-1 - half]) / half / 1e12


def throughput(settings: PsSettings, model=MODEL) -> float:
    return settings.global_batch_size / iteration_s(settings, model)


def test_a_workload_has_a_graph_memory_and_a_headline() -> None:
    workload: Workload = DlrmPsWorkload(MODEL, JOB)
    workload.graph().check()
    assert workload.graph().world_size == 10
    assert (workload.headline.unit, workload.headline.per_iteration) == ("samples", 3 * 6 * 50)


def test_one_thread_on_one_trainer_takes_the_sum_of_its_parts() -> None:
    """Nothing overlaps: handling, messages, rows, and products on one core of forty, one after the other."""
    dense = DlrmPsWorkload(MODEL, ALONE).dense
    batch, lookups, width = 200, float(TABLES.lookups_per_sample.sum()), float(TABLES.pooled_dim.sum())
    indices = batch * 8.0 * (lookups + TABLES.feature_count)
    vectors = gradients = batch * width * 4.0
    wire_s = (indices + vectors + gradients) / NIC
    sent, taken = 2 * GRPC_CALL_S, GRPC_CALL_S
    handling_s = sent + (indices + vectors + gradients) / GRPC_BYTES_PER_S
    served_s = taken + (indices + vectors) / GRPC_BYTES_PER_S
    memory, core = 2 * 100e9 / CORES, 2 * 2.43e12 / CORES * 0.72
    rows_s = (batch * lookups * 64 * 4 + vectors + indices) / memory
    products_s = sum(
        products * max(2.0 * batch * i * o / core, 4.0 * (batch * i + i * o + batch * o) / memory)
        for layer in dense.layers
        for i, o, products in [(layer.inputs, layer.outputs, 2 if layer is dense.bottom[0] else 3)]
    )
    layers, operator_s = len(dense.layers), 210e-6 + 10e-6
    operators_s = (5 * layers + 4) * operator_s
    activations = 4.0 * batch * sum(layer.outputs for layer in dense.layers)
    moved = 2.06 * (2 + 3) * activations + 4 * vectors + 3 * 4 * dense.parameters
    inputs, outputs = 4.0 * batch * dense.interaction_inputs, 4.0 * batch * dense.interaction_outputs
    flops_s = batch * dense.interaction_flops_per_sample / (core / 0.72 * 0.1)
    interaction_s = max(flops_s, (inputs + outputs) / memory) + max(2 * flops_s, (2 * inputs + outputs) / memory)
    expected = wire_s + handling_s + served_s + rows_s + products_s + operators_s + moved / memory + interaction_s
    assert iteration_s(ALONE) == pytest.approx(expected, rel=0.02)


@pytest.mark.parametrize("batch", [20, 200])
def test_more_threads_never_lower_throughput_and_reach_what_is_saturated(batch: int) -> None:
    """At most the rate at which the trainer's NIC receives pooled vectors, and in the end 90 % of it."""
    settings = replace(ALONE, sparse_servers=4, batch_per_thread=batch)
    rates = [throughput(replace(settings, threads=threads)) for threads in (1, 2, 4, 8, 16, 40, 80)]
    assert all(after >= 0.995 * before for before, after in pairwise(rates)), rates
    wire = NIC / (float(TABLES.pooled_dim.sum()) * 4.0)
    assert max(rates) <= 1.001 * wire
    assert rates[1] == pytest.approx(2 * rates[0], rel=0.1)


@pytest.mark.parametrize("table_rows", ["few", "many"])
def test_what_a_server_lacks_bounds_its_trainers_and_is_used(table_rows: str) -> None:
    """One server for more and more trainers: its NIC (incast), or the memory that its rows come from."""
    group = MODEL.tables.value[0]
    lookups = 1 if table_rows == "few" else 50
    tables = MODEL.tables.model_copy(update={"value": (group.model_copy(update={"pooling_factor": lookups}),)})
    model = MODEL.model_copy(update={"tables": tables})
    settings = replace(ALONE, dense_servers=1, threads=16, batch_per_thread=100, sync_every=1000)
    rates = [throughput(replace(settings, trainers=trainers), model) for trainers in (1, 2, 4, 8, 16, 64)]
    wire = NIC / (float(TABLES.pooled_dim.sum()) * 4.0)
    requests = DlrmPsWorkload(model, settings).job.requests
    update, lookup = requests.update, requests.lookup
    moved = lookup.row_bytes + lookup.output_bytes + lookup.index_bytes + update.weight_bytes + update.state_bytes
    moved += update.gradient_bytes + 2 * (update.gradient_bytes + update.repeated_gradient_bytes)
    memory = 100 * 200e9 / moved
    assert (wire < memory) is (table_rows == "few")
    assert rates[1] == pytest.approx(2 * rates[0], rel=0.05)
    assert all(after >= 0.98 * before for before, after in pairwise(rates)), rates
    assert 0.85 * min(wire, memory) <= rates[-1] <= 1.001 * min(wire, memory), rates


def test_the_exchange_of_dense_parameters_bounds_where_its_servers_are_few() -> None:
    """Each trainer sends all of its parameters in every iteration; the server's NIC receives those of all."""
    settings = replace(ALONE, trainers=8, sparse_servers=8, dense_servers=1, sync_every=1, batch_per_thread=10)
    parameters = DlrmPsWorkload(MODEL, settings).dense.bytes
    received_s = 8 * parameters / NIC
    assert iteration_s(settings) >= received_s
    assert iteration_s(replace(settings, sync_every=10)) < iteration_s(settings)


def test_readers_bound_where_they_decode_less_than_threads_train() -> None:
    settings = replace(ALONE, readers=1, threads=8, decode_bytes_per_s=1e6)
    decoded_s = settings.global_batch_size * DlrmPsWorkload(MODEL, settings).job.sample_bytes / (CORES * 1e6)
    assert iteration_s(settings) == pytest.approx(decoded_s, rel=0.02)
    assert iteration_s(replace(settings, decode_bytes_per_s=1e9)) == pytest.approx(
        iteration_s(replace(settings, readers=0)), rel=0.05
    )


def test_threads_compute_what_the_model_has_and_update_all_parameters() -> None:
    """Three products of each layer but the first, whose inputs are data; times cores, as each core does the same."""
    workload = DlrmPsWorkload(MODEL, JOB)
    trainer = workload.graph().programs[0]
    first = workload.dense.bottom[0]
    flops = 3 * sum(layer.flops_per_sample for layer in workload.dense.layers) - first.flops_per_sample
    found = sum(2.0 * w.count * w.m * w.n * w.k for w in trainer.work if isinstance(w, Gemm))
    assert found == pytest.approx(JOB.groups * CORES * 50 * flops)
    updates = [work for work in trainer.work if isinstance(work, DenseOptimizer)]
    assert [update.parameters for update in updates] == [CORES * workload.dense.parameters] * JOB.groups


def test_what_trainers_send_servers_receive_and_the_other_way_round() -> None:
    sent: dict[tuple[str, int], float] = defaultdict(float)
    received: dict[tuple[str, int], bool] = defaultdict(bool)
    for program in DlrmPsWorkload(MODEL, JOB).graph().programs:
        number: dict[str, int] = defaultdict(int)
        for work in program.work:
            if isinstance(work, CollectiveCall):
                key = work.communicator, number[work.communicator]
                number[work.communicator] += 1
                sent[key] += float(np.sum(work.bytes))
                received[key] |= bool(np.any(work.receive_weights))
                assert not np.any((np.asarray(work.bytes) > 0) & (work.receive_weights > 0))
    assert all(received[key] for key in sent)
    samples, width = JOB.global_batch_size, float(TABLES.pooled_dim.sum())
    of_tables = sum(size for (name, _), size in sent.items() if name.startswith("lookups"))
    assert of_tables == pytest.approx(
        samples * (8 * (TABLES.lookups_per_sample.sum() + TABLES.feature_count) + 2 * 4 * width)
    )


@pytest.mark.parametrize("settings", [ALONE, JOB, replace(JOB, slow_ranks=(0, 4)), replace(JOB, trainers=6)])
def test_engine_equals_oracle(settings: PsSettings) -> None:
    program = lowered(settings).program
    ends = run(program, RunOptions(4, keep_last=1)).iteration_end_ps
    np.testing.assert_array_equal(ends, run_oracle(program, RunOptions(4, keep_last=1)).iteration_end_ps)


def test_a_slow_trainer_does_not_slow_the_others() -> None:
    """Nothing waits for another trainer: those that are not slow go on at their own pace."""
    slow = replace(JOB, slow_ranks=(1,))
    assert [1] in slow.waves

    def ends(factor: float) -> dict[int, float]:
        found = run(
            lowered(slow, variation=Variation(straggler_ranks=(1,), straggler_slowdown=factor)).program,
            RunOptions(6, keep_last=1),
        )
        groups = DlrmPsWorkload(MODEL, slow).graph().programs
        (record,) = found.records
        return {int(p.ranks[0]): float(g.end_ps.max()) for p, g in zip(groups, record.groups, strict=True)}

    before, after = ends(1.0), ends(3.0)
    assert after[0] == pytest.approx(before[0], rel=0.02)
    assert after[1] > 1.5 * before[1]


def test_the_queue_is_that_of_the_slowest_server() -> None:
    settings = replace(JOB, slow_ranks=(JOB.first_sparse + 2,))
    names = {p.name: p for p in DlrmPsWorkload(MODEL, settings).graph().programs}
    queue = next(p for p in names.values() if p.name.startswith("sparse") and any(s.name == "queue" for s in p.streams))
    assert queue.ranks.tolist() == [JOB.first_sparse + 2]


def test_waves_hold_each_trainer_once() -> None:
    for trainers in (1, 3, 4, 15, 64):
        waves = replace(JOB, trainers=trainers, slow_ranks=(0, 2)).waves
        assert sorted(rank for wave in waves for rank in wave) == list(range(trainers))
        assert len(waves) <= 2 * MOST_WAVES


@pytest.mark.parametrize("progress", [0.0, 0.2, 0.5, 0.99])
def test_a_batch_that_is_begun_within_has_all_of_its_work(progress: float) -> None:
    steps = DlrmPsWorkload(MODEL, JOB).job.steps
    begun, rest = halves(steps, progress)
    flops = sum(step.flops for step in steps)
    assert sum(step.flops for step in begun) == pytest.approx(progress * flops)
    assert sum(step.flops for step in (*begun, *rest)) == pytest.approx(flops)


@pytest.mark.parametrize("by", ["bytes", "lookups"])
@pytest.mark.parametrize("servers", [1, 3, 20])
def test_tables_are_spread_evenly_and_keep_their_rows_and_lookups(by, servers: int) -> None:
    model = load_model("mlperf_dlrm_v1")
    tables = expand_tables(model)
    placed = place_tables(tables, servers, by, "rowwise_adagrad")
    assert int(placed.tables.rows.sum()) == int(tables.rows.sum())
    assert placed.tables.lookups_per_sample.sum() == pytest.approx(tables.lookups_per_sample.sum())
    sizes = stored_bytes(placed.tables, "rowwise_adagrad")
    assert sizes.max() <= 1.001 * max(sizes.sum() / servers, 1.0)
    amount = sizes if by == "bytes" else placed.tables.lookups_per_sample * placed.tables.dim * 4.0
    held = placed.on_servers(amount, servers)
    assert held.max() <= amount.sum() / servers + amount.max()
    assert placed.cut == (
        0 if servers == 1 else int(np.count_nonzero(stored_bytes(tables, "rowwise_adagrad") * servers > sizes.sum()))
    )


def test_memory_of_servers_is_that_of_their_tables_and_parameters() -> None:
    workload = DlrmPsWorkload(MODEL, JOB)
    items = workload.memory().tiers["hbm"]
    sparse = slice(JOB.first_sparse, JOB.first_dense)
    dense, readers = slice(JOB.first_dense, JOB.first_reader), slice(JOB.first_reader, None)
    assert items["weights"][sparse].sum() == float(TABLES.weight_bytes.sum())
    assert items["optimizer state"][sparse].sum() == 4.0 * float(TABLES.rows.sum())
    assert items["weights"][dense].sum() == workload.dense.bytes
    assert np.all(items["weights"][: JOB.trainers] == workload.dense.bytes)
    assert np.all(items["gradients"][: JOB.trainers] == JOB.threads * workload.dense.bytes)
    assert not items["weights"][readers].any()


@pytest.mark.parametrize("key", ["trainers", "sparse_servers", "threads", "batch_per_thread", "sync_every"])
def test_sizes_below_one_are_refused(key: str) -> None:
    with pytest.raises(InputError) as caught:
        replace(JOB, **{key: 0})
    assert caught.value.key == f"workload.{key}"


def test_lookups_of_a_server_are_its_share_of_a_batch() -> None:
    programs = DlrmPsWorkload(MODEL, JOB).graph().programs
    lookups = 0.0
    for program in programs:
        if program.name.startswith("sparse"):
            work = next(work for work in program.work if isinstance(work, EmbeddingLookup))
            lookups += float(np.broadcast_to(work.lookups, program.rank_count).sum())
    assert lookups == pytest.approx(JOB.batch_per_thread * TABLES.lookups_per_sample.sum())


def test_the_shipped_scenario_runs_and_its_trainers_are_bound_by_computing() -> None:
    """Model A: 1.9 GFLOP for each sample against 0.75 MB on the wire."""
    done = simulate(load_scenario("ps_async_a"), Silent())
    servers = done.summary["parameter_servers"]
    assert servers["trainers"] * servers["threads"] * servers["batch_per_thread"] == 90_000
    assert done.summary["bound"]["joint"]["class"] == "compute"
    assert done.analysis.iteration.steady


def test_64_trainers_do_4_times_the_work_of_16() -> None:
    rates = []
    for trainers in (16, 64):
        keys = (f"nodes={trainers + 65}", "workload.readers=20")
        resolved = load_scenario("ps_async_a", keys)
        rates.append(resolved.global_batch_size / simulation_of(resolved, Silent()).analysis.iteration.seconds)
    assert rates[1] == pytest.approx(4 * rates[0], rel=0.03)


def test_means_and_chosen_ranks_are_of_trainers_and_each_role_has_its_own() -> None:
    settings = ["workload.model=cpu_dlrm_small", "nodes=5", "workload.sparse_servers=2", "workload.threads=4"]
    resolved = load_scenario("ps_async_a", [*settings, "workload.dense_servers=1", "workload.readers=0"])
    done = simulation_of(resolved, Silent())
    found = summary_of(done.prepared, done.analysis, None, None, None, ())
    roles, trainers = found["roles"], found["training"]["ranks"]
    assert {name: role["ranks"] for name, role in roles.items()} == {
        "trainers": 2, "table servers": 2, "dense servers": 1
    }  # fmt: skip
    assert roles["trainers"]["compute_fraction"] == found["breakdown"]["fractions"]["compute"]
    assert all(rank < trainers for rank in found["ranks"].values())
    assert found["imbalance"] == pytest.approx(1.0, abs=0.05)
    assert found["rank_name"] == "machines"
