"""Programs, memory and iterations of convolutional networks."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from hardware_specs import load_cluster
from inputs.errors import InputError, ProgramError
from simulator.collective_calls import CollectiveCall
from simulator.engine import RunOptions, run
from simulator.lowering import Variation, build_machine, lower
from simulator.operators import Convolution, Copy, DenseOptimizer, Elementwise, Gemm, HostWork
from simulator.program import Coordinator, ProgramBuilder, Stream, TaskGraph
from workloads.convnet.all_reduce import REQUEST_BYTES
from workloads.convnet.catalog import network
from workloads.convnet.family import ConvnetWorkload
from workloads.convnet.settings import ConvnetSettings
from workloads.family import Workload

SETTINGS = ConvnetSettings("resnet50", 4, 1, 64, "horovod_nccl")
ALONE = replace(SETTINGS, world_size=1)
MODELS = ("alexnet", "inception3", "mobilenet_v1", "resnet50", "vgg16")


@pytest.fixture(scope="module")
def daint():
    return load_cluster("piz_daint")


@pytest.fixture(scope="module")
def full_rate(daint):
    """The machine without measured collectives: its links count at their full rate."""
    return daint.model_copy(update={"calibration": ()})


def lowered(settings, cluster, *, launch_s=5e-6, improve=None):
    machine = build_machine(cluster, settings.world_size, launch_s=launch_s)
    return lower(ConvnetWorkload(settings).graph(), machine, improve=improve)


def iteration_s(settings, cluster, *, launch_s=5e-6, improve=None) -> float:
    """Mean of the iterations after the first two."""
    program = lowered(settings, cluster, launch_s=launch_s, improve=improve).program
    ends = run(program, RunOptions(4, keep_last=1)).iteration_end_ps
    return float(ends[-1] - ends[1]) / 2e12


def works(settings, kind):
    program = ConvnetWorkload(settings).graph().programs[0]
    return {name: work for name, work in zip(program.names, program.work, strict=True) if isinstance(work, kind)}


def test_a_workload_has_a_graph_memory_and_a_headline() -> None:
    workload: Workload = ConvnetWorkload(SETTINGS)
    assert workload.graph().world_size == 4
    assert np.all(workload.memory().total("hbm") > 0)
    assert (workload.headline.unit, workload.headline.per_iteration) == ("images", 256)


@pytest.mark.parametrize("model", MODELS)
def test_every_layer_has_its_kernels(model: str) -> None:
    """Three passes of each convolution and matrix product, two of the first; one update of each variable."""
    settings, net = replace(ALONE, model=model), network(model, 1001)
    convolutions = [layer for layer in net.layers if layer.kind == "conv"]
    dense = [layer for layer in net.layers if layer.kind == "dense"]
    assert len(works(settings, Convolution)) == 3 * len(convolutions) - 1
    assert len(works(settings, Gemm)) == 3 * len(dense)
    assert sum(w.flops for w in works(settings, Convolution).values()) == 2 * 64 * (
        3 * sum(layer.multiply_adds for layer in convolutions) - convolutions[0].multiply_adds
    )
    updates = works(settings, DenseOptimizer)
    assert len(updates) == len(net.variables)
    assert sum(w.parameters for w in updates.values()) == net.parameters


@pytest.mark.parametrize("strategy", ["horovod_mpi", "horovod_mpi_opt", "horovod_nccl", "baidu_ring"])
@pytest.mark.parametrize("model", ["resnet50", "vgg16"])
def test_every_gradient_is_exchanged_once_in_backward_order(model: str, strategy) -> None:
    settings, net = replace(SETTINGS, model=model, strategy=strategy), network(model, 1001)
    calls = works(settings, CollectiveCall)
    assert sum(call.bytes for call in calls.values()) == 4 * net.parameters
    layer_of = {v.name: number for number, layer in enumerate(net.layers) for v in layer.variables}
    order = [layer_of[name.removeprefix("sum_")] for name in calls]
    assert order == sorted(order, reverse=True)
    copied = works(settings, Copy)
    assert sum(copy.bytes for copy in copied.values()) == (8 * net.parameters if strategy == "horovod_mpi" else 0)


def test_gradients_of_a_tensor_with_several_readers_are_added_up() -> None:
    """The 16 blocks of ResNet-50 read their input twice: shortcut and first convolution."""
    sums = [name for name in works(ALONE, Elementwise) if name.endswith("_sum")]
    assert len(sums) == 16


def test_a_rank_alone_takes_the_time_of_its_kernels(daint) -> None:
    lowering = lowered(ALONE, daint)
    program = ConvnetWorkload(ALONE).graph().programs[0]
    durations = lowering.program.groups[0].durations.at(0)[:, 0]
    default = [stream.name for stream in program.streams].index("default")
    kernels_s = float(durations[program.stream_of == default].sum()) / 1e12
    assert iteration_s(ALONE, daint) == pytest.approx(kernels_s, rel=1e-3)


def test_a_slow_host_bounds_the_iteration(daint) -> None:
    slow = replace(ALONE, operator_s=1e-3)
    launches = works(slow, HostWork)
    assert iteration_s(slow, daint) == pytest.approx(len(launches) * 1.005e-3, rel=0.02)


def test_images_from_the_host_are_copied_before_the_first_layer(daint) -> None:
    copied = replace(ALONE, images="from_host")
    assert [copy.bytes for copy in works(copied, Copy).values()] == [64 * 224 * 224 * 3 * 4]
    assert works(ALONE, Copy) == {}
    assert iteration_s(copied, daint) >= iteration_s(ALONE, daint)


def test_ranks_without_communication_scale_linearly_and_others_do_not(daint) -> None:
    small = replace(SETTINGS, model="alexnet", images_per_rank=64)
    alone_s, together_s = iteration_s(replace(small, world_size=1), daint), iteration_s(small, daint)
    assert together_s > 1.2 * alone_s
    assert iteration_s(small, daint, improve={"NIC": 2.0}) < together_s


def test_iterations_of_horovod_are_whole_cycles_where_the_last_gradient_is_small(full_rate) -> None:
    """Its background thread looks every 5 ms; the last gradient of ResNet-50 is summed within microseconds."""
    cycles = iteration_s(SETTINGS, full_rate) / 5e-3
    assert cycles == pytest.approx(round(cycles), abs=1e-6)
    assert iteration_s(replace(SETTINGS, cycle_s=0.0), full_rate) < 5e-3 * cycles


def test_baidus_ring_by_hand(full_rate) -> None:
    """A large tensor of S bytes on n ranks, one a node: announcement, the ring's hops, 2 (n - 1) / n S over a NIC.

    Smaller ones take protocols that reach less of the link, or are posted for longer than they move.
    """
    ranks, settings = 4, replace(SETTINGS, strategy="baidu_ring", model="vgg16")
    lowering = lowered(settings, full_rate)
    program = lowering.program
    (fused,), rate = program.fused.values(), build_machine(full_rate, ranks, launch_s=5e-6).collectives.rates["nic"]
    group, record = program.groups[0], run(program, RunOptions(1)).records[0].groups[0]
    for task in np.flatnonzero(fused.call_of[0] >= 0).tolist():
        size = int(fused.bytes[fused.call_of[0][task]])
        known = program.activities[int(fused.activities[np.searchsorted(fused.sizes, size)])]
        hops_ps = fused.announcement_ps + sum(phase.latency_ps for phase in known.phases)
        moved_ps = 1e12 * 2 * (ranks - 1) / ranks * size / rate
        took_ps = int((record.end_ps - record.start_ps)[task, 0])
        if size > 12 * 2**20:
            assert took_ps == pytest.approx(hops_ps + moved_ps, abs=2), group.names[task]
        else:
            assert took_ps >= hops_ps + moved_ps - 2, group.names[task]
    assert sum(fused.bytes.tolist()) == 4 * network("vgg16", 1001).parameters


def test_a_fused_buffer_by_hand(daint) -> None:
    """AlexNet's first buffer: all that is ready at a cycle, copied in and out, in one all_reduce."""
    program = lowered(replace(SETTINGS, model="alexnet", images_per_rank=8), daint).program
    (fused,), record = program.fused.values(), run(program, RunOptions(1)).records[0].groups[0]
    calls = np.flatnonzero(fused.call_of[0] >= 0)
    ends = record.end_ps[calls, 0]
    first = calls[ends == ends.min()]
    sizes = fused.bytes[fused.call_of[0][first]]
    total, carrier = int(sizes.sum()), int(first[-1])
    assert len(first) > 1
    assert total <= fused.fusion_bytes
    step = int(np.searchsorted(fused.sizes, total))
    phases = program.activities[int(fused.activities[step])].phases
    works_ps = sum(-(-phase.work_ps * total // int(fused.sizes[step])) for phase in phases)
    expected_ps = sum(phase.latency_ps for phase in phases) + works_ps + round(total * fused.copy_ps_per_byte)
    assert int((record.end_ps - record.start_ps)[carrier, 0]) == expected_ps


def test_an_agreement_gathers_and_broadcasts_and_grows_with_ranks(daint) -> None:
    negotiations = []
    for ranks in (2, 8, 32):
        (fused,) = lowered(replace(SETTINGS, world_size=ranks), daint).program.fused.values()
        negotiations.append(fused.negotiation_ps)
        assert fused.announcement_ps == 0
    assert negotiations == sorted(negotiations)
    (baidu,) = lowered(replace(SETTINGS, strategy="baidu_ring"), daint).program.fused.values()
    assert 0 < baidu.announcement_ps < negotiations[1]
    assert REQUEST_BYTES > 0


def test_faster_communication_shortens_agreements_and_buffers(daint) -> None:
    (before,), (after,) = (
        lowered(SETTINGS, daint, improve=improve).program.fused.values() for improve in ({}, {"communication": 2.0})
    )
    assert after.negotiation_ps == pytest.approx(before.negotiation_ps / 2, abs=1)
    assert after.copy_ps_per_byte == before.copy_ps_per_byte / 2
    assert after.cycle_ps == before.cycle_ps


def test_a_straggler_delays_the_sums_of_all_ranks(daint) -> None:
    """Kernels of one rank take 1.5 times as long: the others wait for it in every buffer."""
    machine = build_machine(daint, 4, launch_s=5e-6)
    slow = Variation(straggler_ranks=(2,), straggler_slowdown=1.5)
    graph = ConvnetWorkload(SETTINGS).graph()
    ends = run(lower(graph, machine, variation=slow).program, RunOptions(4, keep_last=1)).iteration_end_ps
    assert (ends[-1] - ends[1]) / 2e12 == pytest.approx(1.5 * iteration_s(ALONE, daint), rel=0.03)


def test_a_stream_of_a_coordinator_has_its_all_reduces_only(daint) -> None:
    builder = ProgramBuilder("g", [0, 1], [Stream("comm", "fuse")])
    builder.task("gather", "comm", CollectiveCall("all_gather", "world", 8.0))
    coordinator = Coordinator("world", 8.0, 0.0, 8.0, "device")
    graph = TaskGraph((builder.build(),), {"world": np.zeros(2, dtype=np.int64)}, {"fuse": coordinator})
    with pytest.raises(ProgramError, match="task 'gather' is on a stream whose calls are fused"):
        lower(graph, build_machine(daint, 2, launch_s=5e-6))


def test_memory_by_hand() -> None:
    """AlexNet: weights and gradients; activations of 64 images; Horovod's buffer of 64 MiB on the GPU."""
    settings = replace(SETTINGS, model="alexnet", classes=1000)
    memory, net = ConvnetWorkload(settings).memory(), network("alexnet")
    hbm = {name: float(size[0]) for name, size in memory.tiers["hbm"].items()}
    assert hbm["weights"] == hbm["gradients"] == 4 * 61_100_840
    assert hbm["activations"] == 64 * 4 * (net.kept_elements + 2 * 55 * 55 * 64)
    assert hbm["communication buffers"] == 64 * 2**20
    on_host = ConvnetWorkload(replace(settings, strategy="horovod_mpi")).memory()
    assert float(on_host.tiers["hbm"]["communication buffers"][0]) == 0.0
    assert float(on_host.tiers["ddr"]["communication buffers"][0]) == 64 * 2**20 + 4 * 61_100_840
    assert memory.total("hbm").shape == (4,)


def test_half_precision_halves_activations_and_uses_tensor_cores() -> None:
    volta = load_cluster("dgx1_v100")
    single, half = (replace(ALONE, precision=precision, local_world_size=8) for precision in ("fp32", "fp16"))
    kept = [float(ConvnetWorkload(s).memory().tiers["hbm"]["activations"][0]) for s in (single, half)]
    assert kept[1] == kept[0] / 2
    assert iteration_s(half, volta) < 0.5 * iteration_s(single, volta)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"strategy": "horovod"}, "workload.strategy: no such strategy; given 'horovod'; .*did you mean 'horovod_"),
        ({"fusion_bytes": 0.0}, "workload.fusion_bytes: impossible size; given 0.0; expected 1 or more"),
        ({"servers": 5, "strategy": "grpc_ps"}, "workload.servers: more parameter servers than nodes; given 5; .* 4"),
        ({"world_size": 0}, "workload.world_size: impossible size; given 0; expected 1 or more"),
        ({"servers": 0}, "workload.servers: impossible size; given 0"),
        ({"images_per_rank": 0}, "workload.images_per_rank: impossible size; given 0"),
        ({"cycle_s": -1.0}, "workload.cycle_time: impossible time; given -1.0"),
    ],
)
def test_impossible_settings_are_refused(wrong, message) -> None:
    with pytest.raises(InputError, match=message):
        replace(SETTINGS, **wrong)


def test_an_unknown_model_is_refused() -> None:
    with pytest.raises(InputError, match=r"workload.model: no such network; given 'vgg61'.*did you mean 'vgg16'"):
        ConvnetWorkload(replace(SETTINGS, model="vgg61")).graph()
