"""Recurrent layers of cuDNN: a product for the inputs of all steps, then a small product and a cell for each step."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from trainer.capture.operators.call import CalledOperator
from trainer.capture.tensors import dtype_of
from workloads.captured.records import DType, Moved, Product, RecordedWork

_GATES = {0: 1, 1: 1, 2: 4, 3: 3}
"""Products of a cell by cuDNN's mode: RNN with ReLU or tanh, LSTM, GRU (pytorch RNN.cpp, get_algo_mode)."""


@dataclass(frozen=True, slots=True)
class Recurrence:
    """A layer in one direction.

    Attributes:
        batch: sequences.
        inputs: width of its inputs.
        hidden: width of its state.
        output: width of the vector for the next step and layer.
        gates: products of a cell, each as wide as the state.
        element: bytes of an element.
    """

    steps: int
    batch: int
    inputs: int
    hidden: int
    output: int
    gates: int
    dtype: DType
    element: int

    def forward(self) -> Iterator[RecordedWork]:
        """Kernels of the forward pass."""
        wide = self.gates * self.hidden
        yield Product(m=self.steps * self.batch, n=wide, k=self.inputs, dtype=self.dtype)
        for _ in range(self.steps):
            yield Product(m=self.batch, n=wide, k=self.output, dtype=self.dtype)
            yield self._cell(reads=2 * self.gates + 1, writes=self.gates + 1)
            if self.output != self.hidden:
                yield Product(m=self.batch, n=self.output, k=self.hidden, dtype=self.dtype)

    def backward(self) -> Iterator[RecordedWork]:
        """Kernels of the backward pass: gradients of states step by step, then of weights and inputs."""
        wide, rows = self.gates * self.hidden, self.steps * self.batch
        for _ in range(self.steps):
            if self.output != self.hidden:
                yield Product(m=self.batch, n=self.hidden, k=self.output, dtype=self.dtype)
            yield self._cell(reads=self.gates + 3, writes=self.gates + 1)
            yield Product(m=self.batch, n=self.output, k=wide, dtype=self.dtype)
        if self.output != self.hidden:
            yield Product(m=self.output, n=self.hidden, k=rows, dtype=self.dtype, transposed=True)
        yield Product(m=wide, n=self.inputs, k=rows, dtype=self.dtype, transposed=True)
        yield Product(m=wide, n=self.output, k=rows, dtype=self.dtype, transposed=True)
        yield Product(m=rows, n=self.inputs, k=wide, dtype=self.dtype)

    def _cell(self, reads: int, writes: int) -> Moved:
        """The element-wise part of a step; ``reads`` and ``writes`` are matrices of the state's size."""
        state = float(self.batch * self.hidden * self.element)
        return Moved(read_bytes=reads * state, write_bytes=writes * state)


def recurrent(call: CalledOperator) -> list[RecordedWork] | None:
    """Kernels of ``_cudnn_rnn`` or of its gradients; None of any other operator."""
    name = call.func._opname  # noqa: SLF001 - the name without namespace and overload
    if name not in ("_cudnn_rnn", "_cudnn_rnn_backward"):
        return None
    layers = list(_layers(call))
    if name == "_cudnn_rnn":
        return [work for layer in layers for work in layer.forward()]
    return [work for layer in reversed(layers) for work in layer.backward()]


def _layers(call: CalledOperator) -> Iterator[Recurrence]:
    given, inputs = call.given, call.tensor("input")
    first, second, width = inputs.shape
    steps, batch = (second, first) if given["batch_first"] else (first, second)
    directions = 2 if given["bidirectional"] else 1
    hidden = given["hidden_size"]
    output = given["proj_size"] or hidden
    for layer in range(given["num_layers"]):
        for _ in range(directions):
            yield Recurrence(
                steps=steps,
                batch=batch,
                inputs=directions * output if layer else width,
                hidden=hidden,
                output=output,
                gates=_GATES[given["mode"]],
                dtype=dtype_of(inputs),
                element=inputs.element_size(),
            )
