"""Exchange of gradients by all_reduce: Horovod's fused buffers, and Baidu's ring for each tensor.

The calls are on a stream of a coordinator (`simulator.program.Coordinator`), which agrees with all ranks on what is
ready. Horovod fuses it. Over MPI between hosts a gradient is copied to the host before its call and back after it
(Horovod without ``HOROVOD_GPU_ALLREDUCE``); MPI between GPUs and NCCL read and write it where it is.

Baidu's coordinator, from which Horovod's stems, announces each tensor to one rank after the other and runs a ring for
it; nothing is fused (tensorflow/tensorflow r1.13, ``contrib/mpi_collectives/mpi_ops.cc``).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from simulator.collective_calls import CollectiveCall
from simulator.operators import Copy
from simulator.program import Coordinator, ProgramBuilder, Stream, TaskGraph
from workloads.convnet.layers import Network
from workloads.convnet.settings import ConvnetSettings
from workloads.convnet.training_pass import Gradient, PassRecorder

COMM, TO_HOST, FROM_HOST = "comm", "to_host", "from_host"
"""Streams of calls, and of copies of gradients between GPU and host."""

WORLD, COORDINATOR = "world", "coordinator"

REQUEST_BYTES = 64.0
"""Bytes of a request for one tensor: its name, shape and type (horovod 0.15, ``mpi_message.fbs``; names in
tf_cnn_benchmarks have some 40 letters)."""

BAIDU_CYCLE_S = 1e-3
"""Pause of Baidu's background thread, seconds (``contrib/mpi_collectives/mpi_ops.cc``: ``sleep_for``)."""


def all_reduce_graph(network: Network, settings: ConvnetSettings) -> TaskGraph:
    """The task graph of all ranks, which all do the same."""
    ranks = np.arange(settings.world_size, dtype=np.int64)
    comm = Stream(COMM, controller=COORDINATOR)
    recorder = PassRecorder("convnet", ranks, network, settings, [comm, TO_HOST, FROM_HOST])
    recorder.forward()
    gradients = recorder.backward()
    summed = exchange(recorder.builder, gradients, on_host=settings.strategy == "horovod_mpi")
    recorder.optimizer(gradients, summed)
    return TaskGraph(
        (recorder.end([recorder.kernels_end()]),),
        {WORLD: np.zeros_like(ranks)},
        {COORDINATOR: coordinator_of(settings)},
    )


def single_graph(network: Network, settings: ConvnetSettings) -> TaskGraph:
    """The task graph of one rank alone, which exchanges nothing."""
    recorder = PassRecorder("convnet", np.zeros(1, dtype=np.int64), network, settings, [])
    recorder.forward()
    recorder.optimizer(recorder.backward(), {})
    return TaskGraph((recorder.end([recorder.kernels_end()]),), {})


def exchange(builder: ProgramBuilder, gradients: Sequence[Gradient], *, on_host: bool) -> dict[str, int]:
    """Calls for all gradients; the task after which each variable's sum is on the GPU."""
    summed: dict[str, int] = {}
    for gradient in gradients:
        name, size, done = gradient.variable.name, float(gradient.bytes), gradient.task
        if on_host:
            done = builder.task(f"to_host_{name}", TO_HOST, Copy(size, "d2h"), after=[done], section="exchange")
        call = CollectiveCall("all_reduce", WORLD, size, on_host=on_host)
        done = builder.task(f"sum_{name}", COMM, call, after=[done], section="exchange")
        if on_host:
            done = builder.task(f"from_host_{name}", FROM_HOST, Copy(size, "h2d"), after=[done], section="exchange")
        summed[name] = done
    return summed


def coordinator_of(settings: ConvnetSettings) -> Coordinator:
    """The coordinator of the strategy."""
    baidu = settings.strategy == "baidu_ring"
    return Coordinator(
        communicator=WORLD,
        fusion_bytes=0.0 if baidu else settings.fusion_bytes,
        cycle_s=BAIDU_CYCLE_S if baidu else settings.cycle_s,
        request_bytes=REQUEST_BYTES,
        copies_in="host" if settings.strategy == "horovod_mpi" else "device",
        announces_each=baidu,
        algorithm="ring" if baidu else None,
    )
