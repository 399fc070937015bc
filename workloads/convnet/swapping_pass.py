"""Iteration of a network whose blocks stay, go to the host or are computed again: the steps of a schedule as tasks.

Kernels are those of `workloads.convnet.training_pass`, in the same order, with those that are repeated. Copies have a
stream for each direction. Where weights are in host memory, the gradients of a block go there when its backward pass
has ended (summed over ranks before, unless MPI sums them on the host) and the host updates its variables while the
device goes on with the block before.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from simulator.collective_calls import CollectiveCall
from simulator.operators import Copy, HostWork
from simulator.program import Stream, TaskGraph
from workloads.convnet.all_reduce import COMM, COORDINATOR, FROM_HOST, TO_HOST, WORLD, coordinator_of, exchange
from workloads.convnet.kernels import ImageBatch, Kernel, backward_order, forward_order
from workloads.convnet.layers import Layer
from workloads.convnet.out_of_core import OutOfCore
from workloads.convnet.settings import ConvnetSettings
from workloads.convnet.swap_schedule import BACK, KERNELS, OUT, STREAM_OF, Step
from workloads.convnet.training_pass import Gradient, PassRecorder
from workloads.graph.optimizers import DENSE_ACCESSES
from workloads.graph.parameter_servers import ADDER_BYTES_PER_S

UPDATES = "updates"
"""Stream of the host's threads that update variables."""


@dataclass(slots=True)
class _Steps:
    """Tasks of the steps of a schedule.

    Attributes:
        gradients: gradients of each block so far.
        ends: last task of each step so far.
    """

    job: OutOfCore
    recorder: PassRecorder
    gradients: dict[int, list[Gradient]] = field(default_factory=dict)
    ends: dict[Step, int] = field(default_factory=dict)

    def record(self, step: Step, more: Iterable[int] = ()) -> int:
        """Record a step; its last task. ``more``: further tasks that it waits for."""
        schedule = self.job.schedule
        waits = dict.fromkeys((*schedule.needs(step), *schedule.waits.get(step, ())))
        after = [*(self.ends[before] for before in waits), *more]
        kind, block = step
        if STREAM_OF[kind] == KERNELS:
            self.ends[step] = self._kernels(step, after)
        else:
            work = Copy(schedule.copied_bytes(step), "d2h" if STREAM_OF[kind] == OUT else "h2d")
            name = f"{kind}_{self.job.blocks[block].last}"
            self.ends[step] = self.recorder.copy(name, STREAM_OF[kind], work, section="swap", after=after)
        return self.ends[step]

    def _kernels(self, step: Step, after: list[int]) -> int:
        """Record the kernels of a step, the first of which waits for tasks; the last task."""
        (kind, number), recorder = step, self.recorder
        kernels = kernels_of(self.job, step)
        if kind == "backward":
            self.gradients[number], task = recorder.backward_of(kernels, after)
            return task
        if number == 0 and kind == "forward":
            after = [*after, *recorder.copy_images()]
        task = recorder.forward_of(kernels, after, again=kind == "recompute")
        return recorder.loss() if kind == "forward" and number == len(self.job.blocks) - 1 else task


def out_of_core_graph(job: OutOfCore) -> TaskGraph:
    """The task graph of all ranks, which all do the same."""
    return recorded(job)[0]


def recorded(job: OutOfCore) -> tuple[TaskGraph, Mapping[Step, int]]:
    """The task graph of all ranks, and the last task of each step."""
    settings = job.settings
    ranks = np.arange(settings.world_size, dtype=np.int64)
    alone = settings.world_size == 1
    exchanges: list[Stream | str] = [] if alone else [Stream(COMM, controller=COORDINATOR), TO_HOST, FROM_HOST]
    recorder = PassRecorder("convnet", ranks, job.network, settings, [OUT, BACK, UPDATES, *exchanges])
    steps, summed, updates = _Steps(job, recorder), dict[str, int](), list[int]()
    on_host = settings.strategy == "horovod_mpi"
    for step in job.schedule.steps:
        kind, block = step
        if kind == "gradients_out":
            updates.append(_to_host_and_update(steps, step, on_host=on_host))
            continue
        steps.record(step)
        if kind == "backward" and job.weights == "keep" and not alone:
            summed |= exchange(recorder.builder, steps.gradients[block], on_host=on_host)
    if job.weights == "keep":
        recorder.optimizer([gradient for found in steps.gradients.values() for gradient in found], summed)
    program = recorder.end([recorder.kernels_end(), *updates])
    if alone:
        return TaskGraph((program,), {}), steps.ends
    communicators, coordinators = {WORLD: np.zeros_like(ranks)}, {COORDINATOR: coordinator_of(settings)}
    return TaskGraph((program,), communicators, coordinators), steps.ends


def _to_host_and_update(steps: _Steps, step: Step, *, on_host: bool) -> int:
    """Sum the gradients of a block, on the device before they are copied or on the host; the task of the update."""
    job, builder, gradients = steps.job, steps.recorder.builder, steps.gradients[step[1]]
    alone, section = job.settings.world_size == 1, "exchange"

    def sums(copied: Sequence[int]) -> list[int]:
        return [
            builder.task(
                f"sum_{gradient.variable.name}",
                COMM,
                CollectiveCall("all_reduce", WORLD, float(gradient.bytes), on_host=on_host),
                after=[gradient.task, *copied],
                section=section,
            )
            for gradient in gradients
        ]

    before = [] if alone or on_host else sums([])
    copied = steps.record(step, before)
    ready = sums([copied]) if on_host and not alone else [copied]
    work = HostWork(seconds=host_update_s(sum(gradient.bytes for gradient in gradients), job.settings))
    name = f"update_{job.blocks[step[1]].last}"
    return builder.task(name, UPDATES, work, after=ready, section="optimizer")


def host_update_s(size: float, settings: ConvnetSettings) -> float:
    """Time in which the host updates weights of so many bytes: the ranks of a node share its memory's rate."""
    return DENSE_ACCESSES[settings.optimizer] * size * settings.local_world_size / ADDER_BYTES_PER_S


def kernels_of(job: OutOfCore, step: Step) -> Iterator[tuple[Layer, Kernel]]:
    """Kernels of a pass through a block."""
    (kind, number), network = step, job.network
    block, batch = job.blocks[number], ImageBatch(job.settings.images_per_rank, job.settings.precision)
    if kind == "backward":
        readers = network.readers
        gradients = {layer: readers[layer] for layer in block.layers}
        return backward_order(network, block.layers, batch, gradients)
    return forward_order(network, block.again if kind == "recompute" else block.layers, batch)
