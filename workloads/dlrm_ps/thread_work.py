"""Kernels of a batch on a thread of a trainer, which has one core and an equal part of its server's memory rate.

Operators hold the work of all cores, a batch on each: they take as long as one batch on one core. Layers of one
shape, and activations, are one step.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from simulator.operators import DenseOptimizer, Elementwise, Gemm, HostWork, Interaction
from simulator.precisions import BYTES_PER_ELEMENT, WIRE_BYTES
from workloads.dlrm.model.dense import DensePart
from workloads.dlrm.model.layers import DenseLayer
from workloads.dlrm_ps.settings import PsSettings
from workloads.graph.buckets import GRADIENT_BYTES
from workloads.graph.optimizers import DENSE_ACCESSES

Kernel = Gemm | Elementwise | Interaction | DenseOptimizer | HostWork


@dataclass(frozen=True, slots=True)
class ThreadStep:
    """Some kernels of a batch that are alike.

    Attributes:
        flops: floating point operations of the thread, by which the progress of a batch is counted.
    """

    name: str
    section: str
    work: Kernel
    flops: float = 0.0

    def part(self, share: float, name: str) -> ThreadStep:
        """A part of a step that is a product of matrices."""
        if not isinstance(self.work, Gemm):
            return self
        return ThreadStep(name, self.section, replace(self.work, count=self.work.count * share), self.flops * share)


def thread_steps(dense: DensePart, pooled_width: int, settings: PsSettings) -> list[ThreadStep]:
    """The steps of a batch from the arrival of its pooled vectors to the gradients of these, in order."""
    return _Thread(dense, pooled_width, settings).steps()


def halves(steps: Sequence[ThreadStep], progress: float) -> tuple[list[ThreadStep], list[ThreadStep]]:
    """The steps before and after a part of all operations, 0 to below 1, is done; a step may be on both sides."""
    if progress == 0.0:
        return [], list(steps)
    goal, before = progress * sum(step.flops for step in steps), 0.0
    for number, step in enumerate(steps):
        if before + step.flops > goal:
            share = (goal - before) / step.flops
            ends = step.part(share, f"{step.name}_begun"), step.part(1.0 - share, step.name)
            return [*steps[:number], ends[0]], [ends[1], *steps[number + 1 :]]
        before += step.flops
    return list(steps), []


@dataclass(frozen=True, slots=True)
class _Thread:
    """A thread's batch; amounts are multiplied by the number of cores."""

    dense: DensePart
    pooled_width: int
    settings: PsSettings

    def steps(self) -> list[ThreadStep]:
        """All steps."""
        bottom, upper = self.dense.bottom, (*self.dense.cross, *self.dense.top)
        inner = bottom[1:] if bottom else upper[1:]
        steps = [
            self._operators("forward", 2 * len(self.dense.layers) + 2),
            *self._mlp("bottom_mlp", bottom, "forward"),
            self._columns("forward"),
            self._interaction("forward"),
            *self._mlp("top_mlp", upper, "forward"),
            self._operators("backward", 3 * len(self.dense.layers) + 2),
            *self._mlp("top_mlp", upper, "backward", upper if bottom else inner),
            self._interaction("backward"),
            self._columns("backward"),
            *self._mlp("bottom_mlp", bottom, "backward", inner if bottom else ()),
            self._update(),
        ]
        return [step for step in steps if not isinstance(step.work, Elementwise) or step.work.read_bytes > 0.0]

    @property
    def _batches(self) -> float:
        """Batches that the cores compute at once, more where threads share cores."""
        return self.settings.cores * self.settings.crowding

    def _bytes(self, width: float) -> float:
        """Bytes of ``[samples, width]``."""
        samples = self._batches * self.settings.batch_per_thread
        return samples * width * BYTES_PER_ELEMENT[self.settings.precision.dense]

    def _mlp(
        self, name: str, layers: tuple[DenseLayer, ...], way: str, gradients: tuple[DenseLayer, ...] = ()
    ) -> Iterator[ThreadStep]:
        """Forward: products, then activations; backward: activations, gradients of inputs and of weights.

        Args:
            gradients: layers whose inputs need gradients.
        """
        section = f"{name}_{way}"
        passes = 1 if way == "forward" else 2
        size = self._bytes(sum(layer.outputs for layer in layers if layer.activation))
        factor = self.settings.framework.factor("elementwise_factor")
        activations = Elementwise(factor * passes * size, factor * size)
        if way == "forward":
            yield from self._products(name, section, layers)
            yield ThreadStep(f"{name}_activations", section, activations)
        else:
            yield ThreadStep(f"{name}_activation_gradients", section, activations)
            yield from self._products(f"{name}_inputs", section, gradients)
            yield from self._products(f"{name}_weights", section, layers)

    def _products(self, name: str, section: str, layers: Sequence[DenseLayer]) -> Iterator[ThreadStep]:
        """A product for each shape, of all layers that have it; the three products of a layer take equally long."""
        samples, precision = self.settings.batch_per_thread, self.settings.precision.dense
        for (inputs, outputs), count in Counter((layer.inputs, layer.outputs) for layer in layers).items():
            work = Gemm(samples, outputs, inputs, precision, count=count * self._batches, apart=True)
            yield ThreadStep(f"{name}_{inputs}x{outputs}", section, work, 2.0 * count * samples * inputs * outputs)

    def _interaction(self, way: str) -> ThreadStep:
        """The interaction; its gradient is as many operations again for each factor of a product."""
        dense, section = self.dense, f"interaction_{way}"
        inputs, outputs = self._bytes(dense.interaction_inputs), self._bytes(dense.interaction_outputs)
        flops = self._batches * self.settings.batch_per_thread * float(dense.interaction_flops_per_sample)
        precision = self.settings.precision.dense
        if way == "forward":
            return ThreadStep("interaction", section, Interaction(flops, inputs, outputs, precision))
        return ThreadStep(
            "interaction_gradients", section, Interaction(2.0 * flops, inputs + outputs, inputs, precision)
        )

    def _columns(self, way: str) -> ThreadStep:
        """Pooled vectors from the wire to their columns, or their gradients back."""
        precision = self.settings.precision
        wire = WIRE_BYTES[precision.forward_all_to_all if way == "forward" else precision.backward_all_to_all]
        here, section = self._bytes(self.pooled_width), f"interaction_{way}"
        there = here * wire / BYTES_PER_ELEMENT[precision.dense]
        if way == "forward":
            return ThreadStep("pooled_columns", section, Elementwise(there, here))
        return ThreadStep("pooled_gradients", section, Elementwise(here, there))

    def _operators(self, way: str, count: int) -> ThreadStep:
        """Host time of operators, which the thread spends itself."""
        seconds = count * self.settings.framework.operator_s.value
        crowding = self.settings.crowding
        return ThreadStep(f"operators_{way}", f"operators_{way}", HostWork(count * crowding, seconds * crowding))

    def _update(self) -> ThreadStep:
        """Update of the parameters that all threads share, without locks (Hogwild)."""
        accesses = DENSE_ACCESSES[self.settings.optimizer.dense]
        traffic = self._batches * accesses * self.dense.parameters * GRADIENT_BYTES
        work = DenseOptimizer(self._batches * float(self.dense.parameters), traffic)
        return ThreadStep("hogwild_update", "optimizer", work)
