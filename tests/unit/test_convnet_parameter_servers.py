"""Parameter servers: placement of variables, channels, incast on a server's NIC, threads of a server."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from hardware_specs import load_cluster
from simulator.collective_calls import CollectiveCall
from simulator.engine import RunOptions, run
from simulator.engine.oracle import run_oracle
from simulator.lowering import build_machine, lower
from simulator.operators import Copy, HostWork
from workloads.convnet.catalog import network
from workloads.convnet.family import ConvnetWorkload
from workloads.convnet.layers import Variable
from workloads.convnet.parameter_servers import CHANNELS, GRPC_CALL_S, placed
from workloads.convnet.settings import STRATEGIES, ConvnetSettings

SETTINGS = ConvnetSettings("alexnet", 3, 1, 1, "grpc_ps", servers=1)
PARAMETERS = network("alexnet", 1001).parameters
SERVED = [strategy for strategy in STRATEGIES if strategy.startswith("grpc_ps")]


@pytest.fixture(scope="module")
def daint():
    return load_cluster("piz_daint")


@pytest.fixture(scope="module")
def full_rate(daint):
    """The machine without measured collectives: its links count at their full rate."""
    return daint.model_copy(update={"calibration": ()})


def lowered(settings, cluster):
    machine = build_machine(cluster, settings.world_size, launch_s=1e-6)
    return lower(ConvnetWorkload(settings).graph(), machine), machine


def iteration_s(settings, cluster) -> float:
    ends = run(lowered(settings, cluster)[0].program, RunOptions(4, keep_last=1)).iteration_end_ps
    return float(ends[-1] - ends[1]) / 2e12


def test_variables_go_to_the_server_that_has_least_in_the_order_of_their_creation() -> None:
    variables = [Variable(name, size) for name, size in (("a", 5), ("b", 3), ("c", 1), ("d", 2), ("e", 9))]
    assert placed(variables, 2) == {"a": 0, "b": 1, "c": 1, "d": 1, "e": 0}
    assert set(placed(variables, 1).values()) == {0}


def test_no_server_has_more_than_a_share_and_one_variable() -> None:
    net = network("inception3")
    server_of, filled = placed(net.variables, 4), Counter[int]()
    for variable in net.variables:
        filled[server_of[variable.name]] += variable.elements
    largest = max(variable.elements for variable in net.variables)
    assert max(filled.values()) < net.parameters / 4 + largest


@pytest.mark.parametrize("servers", [1, 2, 3])
def test_every_tensor_moves_once_each_way_between_a_worker_and_a_server_on_another_rank(servers: int) -> None:
    graph = ConvnetWorkload(replace(SETTINGS, servers=servers)).graph()
    graph.check()
    sent = Counter[str]()
    for program in graph.programs:
        for name, work in zip(program.names, program.work, strict=True):
            if isinstance(work, CollectiveCall) and work.op != "barrier":
                members = int((graph.communicators[work.communicator] >= 0).sum())
                part = int(work.bytes) // members  # the buffer has a part for each member
                ends = program.rank_count if name.startswith(("push", "pull")) else members - 1
                sent[name.split("_")[0]] += part * ends
    # each server passes its own worker's tensors on without a channel
    assert sent["push"] == sent["collect"] == sent["pull"] == sent["send"] == 4 * PARAMETERS * (3 - 1)


@pytest.mark.parametrize(("ranks", "programs"), [(3, 2), (8, 2), (9, 3), (1024, 5)])
def test_equal_workers_of_a_wave_share_a_program(ranks: int, programs: int) -> None:
    graph = ConvnetWorkload(replace(SETTINGS, world_size=ranks)).graph()
    graph.check()
    assert len(graph.programs) == programs


def test_waves_of_one_worker_take_as_long_as_those_of_several(daint) -> None:
    """Four workers push to one server as one wave; MPI's one thread takes a wave for each: the NIC bounds both."""
    settings = replace(SETTINGS, world_size=4, strategy="grpc_ps_gdr")
    one_wave_s = iteration_s(settings, daint)
    parts = 3 * 4 * PARAMETERS / build_machine(daint, 4, launch_s=1e-6).collectives.rates["nic"]
    assert one_wave_s > 2.0 * parts  # both ways


def test_tensors_cross_pcie_unless_gpus_are_read_directly() -> None:
    for strategy in SERVED:
        programs = ConvnetWorkload(replace(SETTINGS, strategy=strategy)).graph().programs
        copied = sum(p.rank_count * work.bytes for p in programs for work in p.work if isinstance(work, Copy))
        assert copied == (2 * 3 * 4 * PARAMETERS if CHANNELS[strategy].through_host else 0)


@pytest.mark.parametrize("ranks", [2, 4, 6])
def test_incast_on_one_server_takes_as_long_as_all_its_workers_together(full_rate, ranks: int) -> None:
    """n - 1 workers push S through the server's NIC, which takes (n - 1) S / rate; nothing is a factor of incast."""
    settings = replace(SETTINGS, world_size=ranks, strategy="grpc_ps_gdr")
    lowering, machine = lowered(settings, full_rate)
    group, record = lowering.program.groups[0], run(lowering.program, RunOptions(2, keep_last=1)).records[0].groups[0]
    collected = [number for number, name in enumerate(group.names) if name.startswith("collect_")]
    begin_ps = min(int((record.start_ps + record.waiting_ps)[number, 0]) for number in collected)
    end_ps = max(int(record.end_ps[number, 0]) for number in collected)
    expected_s = (ranks - 1) * 4 * PARAMETERS / machine.collectives.rates["nic"]
    assert (end_ps - begin_ps) / 1e12 == pytest.approx(expected_s, rel=0.03)


def test_a_server_on_every_node_shares_the_incast(daint) -> None:
    settings = replace(SETTINGS, model="mobilenet_v1", world_size=4, strategy="grpc_ps_gdr")
    one_s, four_s = (iteration_s(replace(settings, servers=servers), daint) for servers in (1, 4))
    assert one_s > 1.3 * four_s


def test_threads_of_a_server_and_copies_of_messages_cost_time(daint) -> None:
    """gRPC's channels pass 1.6 GB/s on at each end, MPI's one thread copies for all workers; RDMA leaves CPUs alone."""
    times = {strategy: iteration_s(replace(SETTINGS, strategy=strategy), daint) for strategy in SERVED}
    assert times["grpc_ps_gdr"] < times["grpc_ps_verbs"] < min(times["grpc_ps"], times["grpc_ps_mpi"])


def test_a_call_of_grpc_costs_both_ends_the_same() -> None:
    assert CHANNELS["grpc_ps"].seconds(0.0) == CHANNELS["grpc_ps_gdr"].seconds(1e9) == GRPC_CALL_S
    assert CHANNELS["grpc_ps"].seconds(0.8e9) == pytest.approx(0.5, rel=1e-3)


def test_the_next_iteration_waits_for_all_updates_and_all_workers(daint) -> None:
    lowering, _ = lowered(SETTINGS, daint)
    result = run(lowering.program, RunOptions(2, keep_last=None))
    first, second = result.records
    updated = max(
        int(times.end_ps[number].max())
        for group, times in zip(lowering.program.groups, first.groups, strict=True)
        for number, name in enumerate(group.names)
        if name.startswith("apply_")
    )
    pulls = [
        int(times.end_ps[number].min())
        for group, times in zip(lowering.program.groups, second.groups, strict=True)
        for number, name in enumerate(group.names)
        if name.startswith("pull_")
    ]
    assert min(pulls) > updated


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_engine_equals_oracle_on_every_strategy(daint, strategy) -> None:
    settings = replace(SETTINGS, strategy=strategy, model="alexnet", servers=2, images_per_rank=8)
    program = lowered(settings, daint)[0].program
    options = RunOptions(2, keep_last=None)
    one, two = run(program, options), run_oracle(program, options)
    assert one.iteration_end_ps.tolist() == two.iteration_end_ps.tolist()
    for mine, theirs in zip(one.records, two.records, strict=True):
        for a, b in zip(mine.groups, theirs.groups, strict=True):
            assert np.array_equal(a.start_ps, b.start_ps)
            assert np.array_equal(a.end_ps, b.end_ps)


def test_a_server_works_for_each_worker_that_is_not_beside_it() -> None:
    program = ConvnetWorkload(replace(SETTINGS, servers=1)).graph().programs[0]
    served = [n for n, w in zip(program.names, program.work, strict=True) if isinstance(w, HostWork)]
    variables = len(network("alexnet", 1001).variables)
    for kind in ("take", "serve"):  # a quarter of the threads works for the wave of two, the rest for the next one
        of_wave = [name for name in served if name.startswith(f"{kind}_")]
        assert len(of_wave) == 2 * variables
        assert sum(name.endswith("_passed") for name in of_wave) == variables
    assert sum(name.startswith("add_") for name in served) == 2 * variables  # of the wave, and of the worker beside it
    assert sum(name.startswith("apply_") for name in served) == variables


def test_servers_keep_their_variables_in_host_memory() -> None:
    memory = ConvnetWorkload(replace(SETTINGS, servers=2)).memory()
    for item in ("weights", "gradients"):
        kept = memory.tiers["ddr"][item]
        assert kept.sum() == 4 * PARAMETERS
        assert kept[:2].min() > 0.0 == kept[2]
    assert ConvnetWorkload(replace(SETTINGS, strategy="horovod_nccl")).memory().tiers["ddr"]["weights"].sum() == 0.0
