"""Forward and backward pass of a stack of HSTU layers: vectors of positions, their MLPs, the layers, the candidates.

The backward pass goes through the same parts in reverse. Where the stack computes again instead of keeping activations,
the kernels of UVQK and of the gate stand in it once more.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from simulator.operators import Amount, Elementwise, Gemm
from simulator.work import Work
from workloads.dlrm.iteration.hstu_kernels import StackKernels, received_bytes, unpooled_elements
from workloads.dlrm.model.hstu_part import HstuPart
from workloads.dlrm.model.layers import DenseLayer
from workloads.graph.recorder import Recorder

FORWARD, BACKWARD = "hstu_forward", "hstu_backward"
"""Sections of the tasks."""

Linear: TypeAlias = Callable[[Sequence[DenseLayer], Amount, str], None]
"""Records linear layers over a number of positions in a section: forward, or their gradients in reverse."""
Ready: TypeAlias = Callable[[DenseLayer, str], None]
"""Lets the gradients of a layer be summed."""


@dataclass(frozen=True, slots=True)
class _Tasks:
    """Records kernels over positions in one section."""

    recorder: Recorder
    kernels: StackKernels
    linear: Linear
    section: str

    @property
    def stack(self) -> HstuPart:
        """The stack."""
        return self.kernels.stack

    @property
    def arrived(self) -> Amount:
        """Elements of the vectors of a rank's lookups."""
        return unpooled_elements(self.kernels.job)

    def kernel(self, name: str, work: Work, *, launches: int = 1) -> int:
        """A kernel; returns the task."""
        return self.recorder.kernel(name, work, section=self.section, launches=launches)

    def point(
        self, name: str, read: float, written: float, *, positions: Amount | None = None, launches: int = 1
    ) -> None:
        """A kernel that reads ``read`` and writes ``written`` elements of each position."""
        self.kernel(name, self.kernels.pointwise(read, written, positions), launches=launches)

    def gate(self, number: int, *, again: str = "") -> None:
        """Normalise the attention, gate it by u, and put u, the attention and the product side by side."""
        values = self.stack.hstu.values
        self.point(f"hstu_{number}_gate{again}", 2.0 * values, 3.0 * values)

    def context_product(self) -> Gemm:
        """Product of contextual vectors with their weights; each of its two gradients takes as many operations."""
        stack, job = self.stack, self.kernels.job
        samples = self.kernels.positions.samples
        return Gemm(samples, stack.width, stack.context_dim, job.precision, count=stack.contextual)


@dataclass(frozen=True, slots=True)
class StackForward(_Tasks):
    """Records the forward pass of a stack."""

    def record(self, reader: str) -> int:
        """All parts up to the candidates; returns the first kernel, which reads the received vectors.

        Args:
            reader: its name.
        """
        first = self._inputs(reader)
        for number in range(self.stack.layers):
            self._layer(number)
        self._candidates()
        return first

    def _inputs(self, reader: str) -> int:
        """Bring the vectors into order and precision, and to the width of the layers."""
        job, stack = self.kernels.job, self.stack
        element = job.settings.lookup_bytes(summed=False)
        vectors = self.arrived * element
        first = self.kernel(reader, Elementwise(received_bytes(job, "forward"), vectors))
        self.kernel("candidates_concat", Elementwise(vectors, vectors))
        if element > job.element_bytes:
            self.kernel("vectors_cast", Elementwise(vectors, self.arrived * job.element_bytes))
        own, width = self.kernels.positions.own, float(stack.width)
        mlps = [mlp for mlp in (*stack.content, stack.action) if mlp]
        for mlp in mlps:
            self._mlp(mlp, own)
        if len(mlps) > 1:
            self.point("vectors_add", len(mlps) * width, width, positions=own, launches=len(mlps) - 1)
        if stack.contextual:
            self._context()
        if stack.hstu.position_buckets is not None:
            self.point("positions_add", 2.0 * width, width)
        self.point("input_dropout", width, width)
        return first

    def _context(self) -> None:
        layer, job, width = self.stack.context_layer, self.kernels.job, float(self.stack.width)
        if layer is not None and job.casts_weights:
            self.kernel("context_weight_cast", Elementwise(4.0 * layer.parameters, 2.0 * layer.parameters))
        self.kernel("context_forward", self.context_product())
        self.point("context_concat", width, width)

    def _layer(self, number: int) -> None:
        """One HSTU layer."""
        hstu, width, every, name = self.stack.hstu, self.stack.width, self.kernels.positions.all, f"hstu_{number}"
        self.point(f"{name}_norm", width, width)
        self.linear([self.stack.uvqk(number)], every, self.section)
        self.point(f"{name}_silu", hstu.values, hstu.values)
        if hstu.stores_bias:
            self.kernel(f"{name}_bias", Elementwise(0.0, self.kernels.bias_bytes))
        self.kernel(f"{name}_attention", self.kernels.attention())
        self.gate(number)
        self.linear([self.stack.output(number)], every, self.section)
        self.point(f"{name}_residual", 2.0 * width, width)

    def _candidates(self) -> None:
        """Take the candidates' positions, normalise them, and join them with the candidates' own vectors."""
        width, targets = float(self.stack.width), self.kernels.positions.targets
        self.point("candidates_split", width, width, positions=targets)
        self.point("candidates_norm", width, width, positions=targets)
        if self.stack.item:
            self._mlp(self.stack.item, targets)
            self.point("candidates_product", 2.0 * width, width, positions=targets)

    def _mlp(self, layers: Sequence[DenseLayer], positions: Amount) -> None:
        """Linear layers, each with a kernel behind it that normalises and, but for the last, activates."""
        for layer in layers:
            self.linear([layer], positions, self.section)
            self.point(f"{layer.name}_norm", float(layer.outputs), float(layer.outputs), positions=positions)


@dataclass(frozen=True, slots=True)
class StackBackward(_Tasks):
    """Records the backward pass of a stack; ``linear`` records gradients.

    Attributes:
        ready: starts the sum of gradients of parameters that ``linear`` does not record: norms, biases, positions, the
            contextual projection.
    """

    ready: Ready

    def record(self) -> None:
        """All parts down to the gradients of the received vectors, in the precision of the wire."""
        self._candidates()
        for number in reversed(range(self.stack.layers)):
            self._layer(number)
        self._inputs()

    def _candidates(self) -> None:
        width, targets = float(self.stack.width), self.kernels.positions.targets
        if self.stack.item:
            self.point("candidates_product_backward", 3.0 * width, 2.0 * width, positions=targets)
            self._mlp(self.stack.item, targets)
        self.point("candidates_norm_backward", 3.0 * width, width, positions=targets)
        self.point("candidates_split_backward", 0.0, width)

    def _layer(self, number: int) -> None:
        """Gradients of one HSTU layer."""
        hstu, width, every, name = self.stack.hstu, self.stack.width, self.kernels.positions.all, f"hstu_{number}"
        values, again = hstu.values, hstu.recomputes
        if again:
            self.gate(number, again="_again")
        self.linear([self.stack.output(number)], every, self.section)
        self.point(f"{name}_gate_backward", 5.0 * values, 2.0 * values)
        if again:
            self.point(f"{name}_norm_again", width, width)
            self.kernel(f"{name}_uvqk_again", Gemm(every, hstu.projected, width, self.kernels.job.precision))
        if hstu.stores_bias and again:
            self.kernel(f"{name}_bias_again", Elementwise(0.0, self.kernels.bias_bytes))
        self.kernel(f"{name}_attention_backward", self.kernels.attention(backward=True))
        if hstu.stores_bias:
            self.kernel(f"{name}_bias_backward", Elementwise(self.kernels.bias_bytes, 0.0))
        if (bias := self.stack.bias(number)) is not None:
            self.ready(bias, self.section)
        self.point(f"{name}_silu_backward", 2.0 * values, values)
        self.linear([self.stack.uvqk(number)], every, self.section)
        self.point(f"{name}_norm_backward", 3.0 * width, width)
        self.ready(self.stack.norms(number), self.section)

    def _inputs(self) -> None:
        job, stack = self.kernels.job, self.stack
        own, width = self.kernels.positions.own, float(stack.width)
        self.point("input_dropout_backward", width, width)
        if (positions := stack.position_vectors) is not None:
            self.point("positions_backward", 2.0 * width, 0.0, launches=2)
            self.ready(positions, self.section)
        if (context := stack.context_layer) is not None:
            self.point("context_concat_backward", width, width)
            for gradient in ("input", "weight"):
                self.kernel(f"context_{gradient}_gradient", self.context_product())
            self.ready(context, self.section)
        for mlp in reversed([mlp for mlp in (*stack.content, stack.action) if mlp]):
            self._mlp(mlp, own)
        element = job.settings.gradient_bytes(gathered=False)
        vectors = self.arrived * element
        if element > job.element_bytes:
            self.kernel("vectors_cast_backward", Elementwise(self.arrived * job.element_bytes, vectors))
        self.kernel("candidates_concat_backward", Elementwise(vectors, vectors))
        self.kernel("vectors_permute_backward", Elementwise(vectors, received_bytes(job, "backward")))

    def _mlp(self, layers: Sequence[DenseLayer], positions: Amount) -> None:
        for layer in reversed(layers):
            outputs = float(layer.outputs)
            self.point(f"{layer.name}_norm_backward", 3.0 * outputs, outputs, positions=positions)
            self.linear([layer], positions, self.section)
