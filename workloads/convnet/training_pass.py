"""Forward and backward pass and optimizer of a rank, kernel by kernel as the host launches them.

A kernel waits for its launch and for the kernel before it on the stream; on CPUs one thread launches and computes.
TensorFlow's ``session.run`` ends when all of an iteration has ended, so the first launch of the next iteration waits
for that.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from simulator.operators import Copy, Delay, DenseOptimizer, HostWork, Marker
from simulator.program import IntArray, Program, ProgramBuilder, Stream
from simulator.work import Operator
from workloads.convnet.kernels import ImageBatch, Kernel, backward_order, forward_order, loss
from workloads.convnet.layers import IMAGES, Layer, Network, Variable
from workloads.convnet.settings import ConvnetSettings
from workloads.graph.buckets import GRADIENT_BYTES
from workloads.graph.operator_names import operator_of
from workloads.graph.optimizers import DENSE_ACCESSES
from workloads.graph.overheads import HostCosts

HOST, DEFAULT, MEMCPY = "host", "default", "memcpy"
"""Streams of every rank: the thread that launches kernels, and on CPUs computes them; kernels; copies of images."""

IMAGE_BYTES = 4
"""Images reach the GPU as fp32 (tf_cnn_benchmarks' preprocessing)."""


@dataclass(frozen=True, slots=True)
class Gradient:
    """A variable's gradient, known after a task."""

    variable: Variable
    task: int

    @property
    def bytes(self) -> int:
        """Size of the tensor."""
        return self.variable.elements * GRADIENT_BYTES


def update_kernel(variable: Variable, settings: ConvnetSettings) -> DenseOptimizer:
    """Update of a variable."""
    size = variable.elements * GRADIENT_BYTES
    return DenseOptimizer(variable.elements, float(DENSE_ACCESSES[settings.optimizer] * size))


def end_of_kernels(builder: ProgramBuilder, stream: str, settings: ConvnetSettings, after: Iterable[int] = ()) -> int:
    """A task after the last kernel of a stream, and after the device's wait for the framework."""
    waits_s = settings.iteration_s
    work = Delay(waits_s, "session.run") if waits_s > 0.0 else Marker()
    return builder.task("last", stream, work, after=after, section="optimizer")


class PassRecorder:
    """Records the tasks of one iteration of a group of ranks."""

    def __init__(
        self, name: str, ranks: IntArray, network: Network, settings: ConvnetSettings, streams: Sequence[Stream | str]
    ) -> None:
        """Start an empty iteration; ``streams``: beside those of every rank."""
        self.builder = ProgramBuilder(name, ranks, [HOST, DEFAULT, MEMCPY, *streams])
        self._network, self._settings = network, settings
        self._device = HOST if settings.on_host else DEFAULT
        self._numbers = range(len(network.layers))
        self._batch = ImageBatch(settings.images_per_rank, settings.precision)
        self._costs = HostCosts(settings.operator_s, settings.overheads, settings.overhead_factor)

    def kernel(
        self, name: str, work: Operator, *, section: str, after: Iterable[int] = (), continues: bool = False
    ) -> int:
        """Launch a kernel; returns its task. ``continues``: the operator before does, in profiles with overheads."""
        host = self._costs.launch([operator_of(work, section)], 1, continues=continues)
        launch = self.builder.task(f"launch_{name}", HOST, host, section=section)
        return self.builder.task(name, self._device, work, after=[launch, *after], section=section)

    def copy(self, name: str, stream: str, work: Copy, *, section: str, after: Iterable[int] = ()) -> int:
        """Launch a copy on a stream of its own; returns its task."""
        host = self._costs.launch([operator_of(work, section)], 1)
        launch = self.builder.task(f"launch_{name}", HOST, host, section=section)
        return self.builder.task(name, stream, work, after=[launch, *after], section=section)

    def forward(self, weights: Mapping[str, int] | None = None) -> None:
        """The forward pass and the loss.

        Args:
            weights: the task after which a variable is there, by its name; those without are always there.
        """
        first = self.copy_images()
        for layer, kernel in forward_order(self._network, self._numbers, self._batch):
            after = [weights[v.name] for v in layer.variables] if weights is not None else []
            after += first if IMAGES in layer.inputs else []
            self.kernel(_named(layer, kernel.part), kernel.work, section="forward", after=after)
        self.loss()

    def forward_of(
        self, kernels: Iterable[tuple[Layer, Kernel]], after: Iterable[int] = (), *, again: bool = False
    ) -> int:
        """Kernels of a forward pass; the last task.

        Args:
            after: tasks that the first kernel waits for.
            again: whether they compute a second time.
        """
        task, ending, section = -1, "_again" if again else "", "recompute" if again else "forward"
        for layer, kernel in kernels:
            task = self.kernel(_named(layer, kernel.part) + ending, kernel.work, section=section, after=after)
            after = ()
        return task

    def copy_images(self) -> list[int]:
        """The copy of the images to the device; none if they are made there."""
        return [self._images()] if self._settings.images == "from_host" else []

    def loss(self) -> int:
        """The loss, and the gradient of the network's output."""
        return self.kernel("loss", loss(self._settings.classes, self._batch), section="forward")

    def backward(self) -> list[Gradient]:
        """The backward pass; gradients in the order in which they become known."""
        order = backward_order(self._network, self._numbers, self._batch, self._network.readers)
        return self.backward_of(order)[0]

    def backward_of(
        self, kernels: Iterable[tuple[Layer, Kernel]], after: Iterable[int] = ()
    ) -> tuple[list[Gradient], int]:
        """Kernels of a backward pass: gradients in the order in which they become known, and the last task.

        Args:
            after: tasks that the first kernel waits for.
        """
        gradients: list[Gradient] = []
        task = -1
        for layer, kernel in kernels:
            name = _named(layer, kernel.part)
            task = self.kernel(name, kernel.work, section="backward", after=after, continues=kernel.continues)
            after = ()
            if kernel.makes_gradients:
                gradients += [Gradient(variable, task) for variable in layer.variables]
        return gradients, task

    def optimizer(self, gradients: Sequence[Gradient], summed: Mapping[str, int]) -> None:
        """An update of each variable, in the order of the gradients.

        Args:
            summed: the task after which the sum over ranks of a variable's gradient is there, by its name.
        """
        for gradient in gradients:
            variable = gradient.variable
            work = update_kernel(variable, self._settings)
            after = [summed[variable.name]] if variable.name in summed else []
            further = gradient is not gradients[0]
            self.kernel(f"update_{variable.name}", work, section="optimizer", after=after, continues=further)

    def kernels_end(self) -> int:
        """A task after the last kernel, and after the device's wait for the framework."""
        return end_of_kernels(self.builder, self._device, self._settings)

    def end(self, after: Iterable[int]) -> Program:
        """The program; its host waits for these tasks."""
        after_s = self._costs.end_s()
        if after_s > 0.0:
            self.builder.task("end_of_operator", HOST, HostWork(seconds=after_s), section="optimizer")
        self.builder.task("end", HOST, Marker(), after=after, section="optimizer")
        return self.builder.build()

    def _images(self) -> int:
        size = float(self._network.image.elements * self._settings.images_per_rank * IMAGE_BYTES)
        return self.builder.task("copy_images", MEMCPY, Copy(size, "h2d"), section="input")


def _named(layer: Layer, part: str) -> str:
    return f"{layer.name}_{part}" if part else layer.name
