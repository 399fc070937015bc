"""Programs of a network cut into partitions, whose replicas train side by side (HyPar-Flow).

Consecutive ranks hold the partitions of a replica. The images of a replica are cut into micro-batches, which pass the
partitions in the order of a schedule (`workloads.graph.pipeline_schedule`). Between two partitions each direction has
its own messages, one for each micro-batch with all tensors that go the same way. A partition adds up the gradients of
its micro-batches; after its last one an all_reduce sums them over the replicas of the partition, in a communicator of
its own, and the weights are updated.

A pass of a micro-batch has one task for each kind of kernel. A GPU starts with its first kernel once that is launched,
and ends when the last one is launched and done; on CPUs one thread launches and computes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from simulator.collective_calls import CollectiveCall
from simulator.operators import Convolution, Copy, DenseOptimizer, Elementwise, Gemm, HostWork, Marker
from simulator.precisions import BYTES_PER_ELEMENT
from simulator.program import IntArray, Program, ProgramBuilder, TaskGraph
from simulator.work import Kernel, KernelSeries
from workloads.convnet.kernels import ImageBatch, backward_order, forward_order, loss
from workloads.convnet.layers import Network
from workloads.convnet.settings import ConvnetSettings
from workloads.convnet.stages import Partition, partitions_of
from workloads.convnet.training_pass import DEFAULT, HOST, IMAGE_BYTES, MEMCPY, end_of_kernels, update_kernel
from workloads.graph.buckets import GRADIENT_BYTES
from workloads.graph.messages import message, pairs
from workloads.graph.operator_names import operator_of
from workloads.graph.overheads import HostCosts
from workloads.graph.pipeline_schedule import PipelineStep, steps_of

REPLICAS, SUMS = "replicas", "sums"
"""Communicator, with an instance for each partition, and stream of the sums of gradients."""

KINDS = (Convolution, Gemm, Elementwise, DenseOptimizer)
"""Kinds of kernels, each of which is a task of a pass."""


def partitioned_graph(network: Network, settings: ConvnetSettings) -> TaskGraph:
    """The task graph of all ranks.

    Raises:
        InputError: the layers of the settings' partitions are not those of the network.
    """
    partitions = partitions_of(network, settings.layers_per_partition)
    communicators: dict[str, IntArray] = {}
    for partition in partitions:
        for reader in partition.sends:
            members = pairs(settings.world_size, _ranks(partition.number, settings), _ranks(reader, settings))
            communicators |= {_channel("forward", partition.number, reader): members}
            communicators |= {_channel("backward", partition.number, reader): members}
    if settings.replicas > 1:
        communicators[REPLICAS] = np.arange(settings.world_size, dtype=np.int64) % settings.partitions
    programs = tuple(_PartitionRecorder(partition, settings).program() for partition in partitions)
    return TaskGraph(programs, communicators, repeats=True)


def _ranks(partition: int, settings: ConvnetSettings) -> IntArray:
    """Ranks that hold a partition, one for each replica, ascending."""
    return np.arange(partition, settings.world_size, settings.partitions, dtype=np.int64)


def _channel(direction: str, maker: int, reader: int) -> str:
    """Communicator, and stream, of messages of one direction between two partitions."""
    return f"{direction}_{maker}_{reader}"


@dataclass(frozen=True, slots=True)
class _PassWork:
    """Kernels of a pass by kind, the host's work for the first launch, and for the others."""

    series: tuple[KernelSeries, ...]
    first: HostWork
    others: HostWork


class _PartitionRecorder:
    """Records the tasks of one iteration of a partition."""

    def __init__(self, partition: Partition, settings: ConvnetSettings) -> None:
        self._partition, self._settings, self._number = partition, settings, partition.number
        self._batch = ImageBatch(settings.images_per_rank // settings.micro_batches, settings.precision)
        self._costs = HostCosts(settings.operator_s, settings.overheads, settings.overhead_factor)
        incoming = [(maker, self._number) for maker in partition.receives]
        outgoing = [(self._number, reader) for reader in partition.sends]
        channels = [
            _channel(direction, *ends) for ends in [*incoming, *outgoing] for direction in ("forward", "backward")
        ]
        self._builder = ProgramBuilder(
            f"partition_{self._number}", _ranks(self._number, settings), [HOST, DEFAULT, MEMCPY, SUMS, *channels]
        )
        self._device = HOST if settings.on_host else DEFAULT
        self._known: dict[tuple[bool, bool], _PassWork] = {}
        self._last: list[int] = []

    def program(self) -> Program:
        """The program."""
        settings = self._settings
        begin = self._builder.task("begin", HOST, Marker(), section="forward")
        steps = steps_of(self._number, settings.partitions, settings.micro_batches, order=settings.schedule)
        for step in steps:
            received = self._receive(step, begin)
            self._run(step, received)
            self._send(step)
        self._update(self._sum())
        self._last = [end_of_kernels(self._builder, self._device, settings, self._last)]
        after_s = self._costs.end_s()
        self._builder.task("end", HOST, HostWork(seconds=after_s), after=self._last, section="optimizer")
        return self._builder.build()

    # Passes

    def _run(self, step: PipelineStep, after: Sequence[int]) -> None:
        """A pass of a micro-batch."""
        section = "backward" if step.backward else "forward"
        self._kernels(f"{section}_{step.microbatch}", self._work(step), section, after)

    def _kernels(self, name: str, work: _PassWork, section: str, after: Iterable[int]) -> None:
        """Launch kernels, which wait for tasks."""
        settings, builder = self._settings, self._builder
        more: list[int] = []
        if settings.on_host:  # one thread starts each kernel when it comes to it
            launch = _plus(work.first, work.others)
            waits = [builder.task(f"launch_{name}", HOST, launch, after=after, section=section)]
        else:
            waits = [builder.task(f"launch_{name}", HOST, work.first, section=section), *after]
            more = [builder.task(f"launch_more_{name}", HOST, work.others, section=section)]
        for series in work.series:
            task = f"{name}_{series.name.lower()}"
            waits = [builder.task(task, self._device, series, after=waits, section=section)]
        if more:
            waits = [builder.task(f"{name}_done", self._device, Marker(), after=more, section=section)]
        self._last = waits

    def _work(self, step: PipelineStep) -> _PassWork:
        """Work of a pass; equal passes share it."""
        key = (step.backward, step.microbatch > 0)
        if key not in self._known:
            if step.backward:
                self._known[key] = self._series(self._backward(adds=step.microbatch > 0), "backward")
            else:
                self._known[key] = self._series(self._forward(), "forward")
        return self._known[key]

    def _forward(self) -> list[tuple[Kernel, bool]]:
        """Kernels of the forward pass, and whether each is of the operator before."""
        partition = self._partition
        order = forward_order(partition.network, partition.numbers, self._batch)
        found: list[tuple[Kernel, bool]] = [(kernel.work, kernel.continues) for _, kernel in order]
        if partition.is_last:
            found.append((loss(self._settings.classes, self._batch), False))
        return found

    def _backward(self, *, adds: bool) -> list[tuple[Kernel, bool]]:
        """Kernels of the backward pass; ``adds``: gradients of weights are added to those of micro-batches before."""
        partition = self._partition
        found: list[tuple[Kernel, bool]] = []
        for layer, kernel in backward_order(partition.network, partition.numbers, self._batch, partition.gradients):
            found.append((kernel.work, kernel.continues))
            if adds and kernel.makes_gradients:
                sizes = (float(variable.elements * GRADIENT_BYTES) for variable in layer.variables)
                found += [(Elementwise(2.0 * size, size), True) for size in sizes]
        return found

    def _series(self, kernels: Sequence[tuple[Kernel, bool]], section: str) -> _PassWork:
        """Kernels by kind, with the host's work for their launches."""
        counted = Counter(work for work, _ in kernels)
        series = tuple(
            KernelSeries(kind.__name__, tuple((count, work) for work, count in counted.items() if type(work) is kind))
            for kind in KINDS
            if any(type(work) is kind for work in counted)
        )
        first, others = HostWork(), HostWork()
        for number, (work, continues) in enumerate(kernels):
            cost = self._costs.launch([operator_of(work, section)], 1, continues=continues)
            if number == 0:
                first = cost
            else:
                others = _plus(others, cost)
        return _PassWork(series, first, others)

    # Messages

    def _receive(self, step: PipelineStep, begin: int) -> list[int]:
        """Inputs of a pass: images, tensors of earlier partitions, or gradients of later ones."""
        partition = self._partition
        if step.backward:
            return [
                self._message("backward", self._number, reader, numbers, step, [begin])
                for reader, numbers in partition.sends.items()
            ]
        copied = [self._images(step)] if self._number == 0 and self._settings.images == "from_host" else []
        return copied + [
            self._message("forward", maker, self._number, numbers, step, [begin])
            for maker, numbers in partition.receives.items()
        ]

    def _send(self, step: PipelineStep) -> None:
        """Outputs of a pass: tensors that later partitions read, or gradients of those that it read."""
        partition = self._partition
        if step.backward:
            for maker, numbers in partition.receives.items():
                self._message("backward", maker, self._number, numbers, step, self._last)
        else:
            for reader, numbers in partition.sends.items():
                self._message("forward", self._number, reader, numbers, step, self._last)

    def _message(
        self, direction: str, maker: int, reader: int, numbers: Sequence[int], step: PipelineStep, after: Sequence[int]
    ) -> int:
        settings, channel = self._settings, _channel(direction, maker, reader)
        size = self._batch.bytes_of(sum(self._partition.network.elements(number) for number in numbers))
        call = message(channel, size, settings.precision, to_higher=direction == "forward")
        return self._builder.task(f"{channel}_{step.microbatch}", channel, call, after=after, section=direction)

    def _images(self, step: PipelineStep) -> int:
        size = float(self._partition.network.image.elements * self._batch.images * IMAGE_BYTES)
        return self._builder.task(f"copy_images_{step.microbatch}", MEMCPY, Copy(size, "h2d"), section="input")

    # Weights

    def _sum(self) -> list[int]:
        """Sum of the partition's gradients over its replicas, after the last pass."""
        parameters = self._partition.parameters
        if self._settings.replicas == 1 or not parameters:
            return []
        call = CollectiveCall("all_reduce", REPLICAS, float(parameters * GRADIENT_BYTES), in_step=True)
        return [self._builder.task("sum_gradients", SUMS, call, after=self._last, section="exchange")]

    def _update(self, summed: Sequence[int]) -> None:
        """An update of each variable."""
        updates = [update_kernel(variable, self._settings) for variable in self._partition.variables]
        if updates:
            work = self._series([(update, number > 0) for number, update in enumerate(updates)], "optimizer")
            self._kernels("update", work, "optimizer", summed)


def _plus(one: HostWork, other: HostWork) -> HostWork:
    """Launches of two pieces of host work together."""
    return HostWork(one.launches + other.launches, one.seconds + other.seconds)


def message_bytes(partition: Partition, settings: ConvnetSettings) -> float:
    """Bytes of the messages of a micro-batch that a rank sends and receives in a forward pass."""
    images = settings.images_per_rank // settings.micro_batches
    elements = partition.received_elements + partition.sent_elements
    return float(elements * images * BYTES_PER_ELEMENT[settings.precision])


def cut_bytes(network: Network, settings: ConvnetSettings) -> list[float]:
    """Bytes that a replica's images send forward over each cut in an iteration, and their gradients back."""
    images, found = settings.images_per_rank, [0.0] * (settings.partitions - 1)
    element = BYTES_PER_ELEMENT[settings.precision]
    for partition in partitions_of(network, settings.layers_per_partition):
        for reader, numbers in partition.sends.items():
            size = sum(network.elements(number) for number in numbers) * images * element
            for cut in range(partition.number, reader):
                found[cut] += float(size)
    return found
