"""MPI that adds in the memory of GPUs: closed form of the kernels beside the transfers of an all_reduce."""

from __future__ import annotations

import numpy as np
import pytest

from hardware_specs import load_cluster
from simulator.lowering import build_machine
from simulator.network.collectives import Call

SIZE = 1 << 26


@pytest.fixture(scope="module")
def model():
    return build_machine(load_cluster("owens"), 4, launch_s=0.0).collectives


def call(model, *, on_host=False):
    (block,) = model.blocks(np.zeros(4, dtype=np.int64))
    return Call("all_reduce", block, np.full((1, 1), float(SIZE)), on_host=on_host)


def beside_s(model, asked):
    """Seconds of all stages beside their transfers."""
    timed = model.time(asked)
    ways = model.transport.ways(timed.algorithm, asked, timed.algorithm.stages(asked))[timed.protocol]
    return float(sum(np.max(model.transport.copy_seconds(way.touched_bytes) + way.kernels_s) for way in ways))


def test_kernels_of_gpus_copy_and_add_at_the_rate_of_their_memory(model):
    """Halving and doubling on 4 ranks copies the buffer and adds 3/4 of it, in two kernels, at 1.5 copies a byte."""
    gpu, constants = model.cluster.node.gpu, model.cluster.collectives.messages
    copy_s = 2.0 / (gpu.memory_bytes_per_s.value * gpu.achieved.stream_fraction.value)
    assert model.time(call(model)).algorithm.name == "halving_doubling"
    expected = 2 * constants.gpu_kernel_s.value + (1.0 + 1.5 * 0.75) * SIZE * copy_s
    assert beside_s(model, call(model)) == pytest.approx(expected)


def test_hosts_add_their_own_buffers_with_one_thread(model):
    constants = model.cluster.collectives.messages
    expected = (1.0 + 1.5 * 0.75) * SIZE / constants.copy_bytes_per_s.value
    assert beside_s(model, call(model, on_host=True)) == pytest.approx(expected)


def test_faster_messages_leave_kernels_of_gpus_as_they_are(model):
    better = model.improved({}, message_speed=1.1)
    assert beside_s(better, call(better)) == pytest.approx(beside_s(model, call(model)))
    assert beside_s(better, call(better, on_host=True)) == pytest.approx(
        beside_s(model, call(model, on_host=True)) / 1.1
    )
