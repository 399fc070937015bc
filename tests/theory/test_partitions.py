"""Networks in partitions against closed forms: waiting in a pipeline, bytes of messages and sums, memory by hand."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from inputs.errors import InputError
from simulator.engine import RunOptions, run
from simulator.lowering import lower
from simulator.operators import Convolution
from simulator.work import KernelSeries
from tests.partition_jobs import IMAGES, blocks, calls, job, machine, passes, relus
from workloads.convnet.catalog import network
from workloads.convnet.layers import Network
from workloads.convnet.memory import memory_of_partitions, memory_per_rank
from workloads.convnet.partitioned import cut_bytes, partitioned_graph
from workloads.convnet.settings import ConvnetSettings
from workloads.convnet.stages import even_counts, joined_layers, partitions_of

FREE = {"communication": 1e6, "host": 1e6}
"""Messages and launches that take no time."""


def span_and_work_ps(net: Network, settings: ConvnetSettings) -> tuple[int, int]:
    """Time from the first to the last kernel of an iteration's passes, and the work of one partition in it."""
    graph = partitioned_graph(net, settings)
    lowering = lower(graph, machine(settings.world_size), improve=FREE)
    groups = run(lowering.program, RunOptions(max_iterations=2, keep_last=1)).records[-1].groups
    starts, ends, works = [], [], []
    for program, times in zip(graph.programs, groups, strict=True):
        tasks = passes(program)
        starts.append(times.start_ps[tasks].min())
        ends.append(times.end_ps[tasks].max())
        works.append((times.end_ps - times.start_ps)[tasks, 0].sum())
    return int(max(ends) - min(starts)), int(works[0])


@pytest.mark.parametrize("schedule", ["gpipe", "1f1b"])
@pytest.mark.parametrize(("partitions", "micro_batches"), [(2, 1), (2, 8), (4, 4), (4, 24), (8, 8)])
def test_equal_partitions_wait_for_p_minus_1_of_m_plus_p_minus_1_passes(partitions, micro_batches, schedule) -> None:
    """GPipe (arXiv:1811.06965, section 2.3) and 1F1B; with 1,024 images each the loss is next to nothing."""
    images = 1024 * micro_batches
    settings = job((2,) * partitions, micro_batches=micro_batches, schedule=schedule, images_per_rank=images)
    span_ps, work_ps = span_and_work_ps(relus(2 * partitions), settings)
    waiting = 1.0 - work_ps / span_ps
    assert waiting == pytest.approx((partitions - 1) / (micro_batches + partitions - 1), abs=0.002)


def test_messages_carry_what_is_alive_at_a_cut_both_ways() -> None:
    """4 layers: convolution, and half of a block. Output of the ReLU and input of the block, 16 channels of 8 x 8."""
    net, settings = blocks(2), job((3, 4, 4), replicas=2, micro_batches=4)
    programs = partitioned_graph(net, settings).programs
    tensor = 16 * 8 * 8 * 4 * IMAGES
    assert cut_bytes(net, settings) == [2 * tensor, 2 * tensor]
    for number, neighbours in enumerate([1, 2, 1]):
        sent = calls(programs[number], "send")
        assert len(sent) == 2 * 4 * neighbours
        assert sum(call.bytes for call in sent.values()) == 2 * neighbours * 2 * tensor


def test_a_tensor_of_a_block_over_three_partitions_goes_straight_to_its_reader() -> None:
    """The input of the block passes by the partition with the block's first convolution and ReLU."""
    net = blocks(1)
    parts = partitions_of(net, (1, 2, 4))
    assert (parts[0].sends, parts[1].sends) == ({1: (1,), 2: (1,)}, {2: (3,)})
    assert parts[2].receives == {0: (1,), 1: (3,)}
    assert parts[0].gradients[1] == 2  # one from each partition that reads it
    assert cut_bytes(net, job((1, 2, 4))) == [2 * 16 * 64 * 4 * IMAGES, 2 * 16 * 64 * 4 * IMAGES]


def test_all_partitions_together_sum_the_gradients_of_the_network_once() -> None:
    net = network("resnet20_v1")
    settings = job(even_counts(net, 5, [1.0] * len(net.layers)), replicas=3)
    graph = partitioned_graph(net, settings)
    sums = [sum(call.bytes for call in calls(p, "all_reduce").values()) for p in graph.programs]
    assert sums == [4 * part.parameters for part in partitions_of(net, settings.layers_per_partition)]
    assert sum(sums) == 4 * 273_066
    instances = graph.communicators["replicas"]
    assert all(len(set(instances[p.ranks].tolist())) == 1 for p in graph.programs)
    assert len(set(instances.tolist())) == 5
    assert not calls(partitioned_graph(net, replace(settings, world_size=5)).programs[0], "all_reduce")


@pytest.mark.parametrize("micro_batches", [1, 4])
def test_partitions_do_the_convolutions_of_the_network(micro_batches) -> None:
    """Each once for each image, with both gradients but that of the images."""
    net = network("resnet20_v1")
    graph = partitioned_graph(net, job((20, 30, len(joined_layers(net)) - 50), micro_batches=micro_batches))
    series = [work for p in graph.programs for work in p.work if isinstance(work, KernelSeries)]
    flops = sum(n * k.flops for s in series for n, k in s.kernels if isinstance(k, Convolution))
    convs = [layer for layer in net.layers if layer.kind == "conv"]
    assert flops == 2 * IMAGES * (3 * sum(c.multiply_adds for c in convs) - convs[0].multiply_adds)


def test_memory_by_hand() -> None:
    """Two blocks with 16 channels of 8 x 8 behind 3 x 8 x 8 images, cut behind the first ReLU; 4 micro-batches of 16.

    First partition: weights 3 x 9 x 16 + 16 and 16 x 9 x 16. It keeps the image, the first output and the ReLU's:
    inputs of convolutions, and outputs of ReLUs. Second: inputs of three convolutions and of the linear layer, a ReLU.
    """
    settings = job((3, 8), micro_batches=4, reserve_bytes=1e9)
    (first, second) = ({k: float(v[r]) for k, v in items(settings).items()} for r in (0, 1))
    tensor, image = 16 * 64, 3 * 64
    weights = [3 * 9 * 16 + 16 + 16 * 9 * 16, 3 * 16 * 9 * 16 + 16 * 10 + 10]
    assert (first["weights"], second["weights"]) == (4 * weights[0], 4 * weights[1])
    assert first["gradients"] == 4 * weights[0]
    assert first["activations"] == 4 * 64 * (image + 2 * tensor) + 4 * 16 * 2 * tensor
    # the received ReLU's output, the block's output, the second ReLU's output; the mean of each channel
    assert second["activations"] == 4 * 64 * (3 * tensor + 16) + 4 * 16 * 2 * tensor
    assert first["communication buffers"] == second["communication buffers"] == 2 * 2 * tensor * 16 * 4
    one_each = {k: float(v[0]) for k, v in items(replace(settings, schedule="1f1b")).items()}
    assert one_each["activations"] == 4 * 16 * 2 * (image + 2 * tensor) + 4 * 16 * 2 * tensor


def items(settings: ConvnetSettings) -> dict[str, np.ndarray]:
    return dict(memory_of_partitions(blocks(2), settings).tiers["hbm"])


def test_one_partition_has_the_memory_of_a_rank_alone_and_the_fullest_of_more_has_less() -> None:
    net = network("resnet110_v1")
    count = len(joined_layers(net))
    whole = memory_per_rank(net, job((count,))).total("hbm")
    assert memory_of_partitions(net, job((count,))).total("hbm") == pytest.approx(whole)
    before = float(whole[0])
    for partitions in (2, 4, 8):
        layers = even_counts(net, partitions, [float(layer.output.elements) for layer in net.layers])
        fullest = float(memory_of_partitions(net, job(layers, micro_batches=8)).total("hbm").max())
        assert fullest < 0.7 * before
        before = fullest


@pytest.mark.parametrize("partitions", [1, 2, 3, 7, 30])
def test_no_other_cut_has_a_less_costly_partition(partitions) -> None:
    """Compared with the best of all cuts, found by dynamic programming over costs that differ."""
    net = blocks(8)
    costs = [float(1 + number * 7919 % 13) for number in range(len(net.layers))]
    counts = even_counts(net, partitions, costs)
    sums = [sum(costs[n] for n in numbers) for numbers in joined_layers(net)]
    assert (len(counts), sum(counts)) == (partitions, len(sums))
    best = [0.0, *[float("inf")] * len(sums)]
    for _ in range(partitions):
        best = [float("inf")] + [
            min(max(best[start], sum(sums[start:end])) for start in range(end)) for end in range(1, len(sums) + 1)
        ]
    ends = np.cumsum(counts)
    assert max(sum(sums[end - count : end]) for count, end in zip(counts, ends, strict=True)) == best[-1]


def test_wrong_partitions_are_refused() -> None:
    net = blocks(1)
    with pytest.raises(InputError, match=r"layers_per_partition.*3 numbers with the sum 8.* with the sum 7"):
        partitions_of(net, (2, 3, 3))
    with pytest.raises(
        InputError, match=r"workload.partitions: more partitions than layers.*given 8; expected at most 7"
    ):
        even_counts(net, 8, [1.0] * len(net.layers))
