"""The HSTU stack of a model with its tables: layers, operations and parameters in closed form.

With T positions of all samples and Q the sum of their squares, h heads with d elements of queries and v of values, a
layer of width D takes ``2 T D h (2 v + 2 d)`` operations for UVQK, ``2 Q h (d + v) / 2`` for attention (the mask leaves
half of the pairs), and ``2 T 3 h v D`` for the output, in the forward pass.
"""

from __future__ import annotations

from dataclasses import dataclass

from inputs.errors import InputError
from simulator.operators import Amount
from workloads.dlrm.model.hstu import PROJECTED, TRAINED, Hstu
from workloads.dlrm.model.layers import DenseLayer
from workloads.dlrm.model.tables import Tables
from workloads.graded import Graded


@dataclass(frozen=True, slots=True)
class HstuFlops:
    """Operations by part; amounts of samples or of ranks."""

    attention: Amount
    uvqk: Amount
    output: Amount

    @property
    def total(self) -> Amount:
        """All of the blocks."""
        return self.attention + self.uvqk + self.output


@dataclass(frozen=True, slots=True)
class HstuPart:
    """The stack with the widths of a model's tables.

    Attributes:
        contextual: positions before the sequence.
        content: MLPs of the vectors of a position, each of two layers, for the first table and for the others.
        action: MLP of a position's action; empty: none.
        item: MLP of a candidate's vectors; empty: none.
        content_dims: elements of the vectors of a position, of each MLP of ``content``.
        context_dim: elements of the vector of a contextual position; 0: there are none.
    """

    hstu: Hstu
    contextual: int
    content: tuple[tuple[DenseLayer, ...], ...]
    action: tuple[DenseLayer, ...]
    item: tuple[DenseLayer, ...]
    content_dims: tuple[int, ...]
    context_dim: int

    @property
    def layers(self) -> int:
        """Number of HSTU layers."""
        return self.hstu.layers.value

    @property
    def width(self) -> int:
        """Elements of a position."""
        return self.hstu.width.value

    def uvqk(self, number: int) -> DenseLayer:
        """Projection of a layer to u, v, q and k."""
        return DenseLayer(f"hstu_{number}_uvqk", self.width, self.hstu.projected, activation=False)

    def output(self, number: int) -> DenseLayer:
        """Projection of a layer back to the width of a position."""
        inputs = PROJECTED * self.hstu.values
        return DenseLayer(f"hstu_{number}_output", inputs, self.width, activation=False, bias=False)

    def norms(self, number: int) -> DenseLayer:
        """Weights and biases of the two norms of a layer, counted as a linear layer."""
        return DenseLayer(f"hstu_{number}_norms", 2, self.width + self.hstu.values, activation=False, bias=False)

    def bias(self, number: int) -> DenseLayer | None:
        """Learned biases of a layer's scores, counted as a linear layer; None: there are none."""
        if self.hstu.bias_buckets is None:
            return None
        buckets = self.hstu.bias_buckets.value
        return DenseLayer(f"hstu_{number}_bias", buckets, 1, activation=False, bias=False)

    @property
    def position_vectors(self) -> DenseLayer | None:
        """Learned vectors of positions and of times, counted as a linear layer; None: there are none."""
        if self.hstu.position_buckets is None:
            return None
        return DenseLayer("positions", self.hstu.position_buckets.value, self.width, activation=False, bias=False)

    @property
    def context_layer(self) -> DenseLayer | None:
        """Projection of contextual vectors, with other weights for each position; None: without such vectors."""
        if not self.contextual:
            return None
        return DenseLayer("context", self.contextual * self.context_dim, self.width, activation=False)

    def named_layers(self) -> tuple[DenseLayer, ...]:
        """All linear layers in forward order; learned vectors and weights of norms count as layers without bias."""
        found = [layer for mlp in (*self.content, self.action) for layer in mlp]
        found += [layer for layer in (self.context_layer, self.position_vectors) if layer is not None]
        for number in range(self.layers):
            bias = self.bias(number)
            found += [self.norms(number), self.uvqk(number), *([bias] if bias else []), self.output(number)]
        return (*found, *self.item)

    def forward_flops(self, positions: Amount, squares: Amount) -> HstuFlops:
        """Operations of the forward pass of all layers, 2 for each product; masked halves of attention left out.

        Args:
            positions: sum of the samples' positions.
            squares: sum of their squares.
        """
        layers = self.layers
        return HstuFlops(
            attention=layers * squares * self.hstu.attention_forward,
            uvqk=layers * positions * float(self.uvqk(0).flops_per_sample),
            output=layers * positions * float(self.output(0).flops_per_sample),
        )

    def training_flops(self, positions: Amount, squares: Amount) -> HstuFlops:
        """Operations of forward and backward pass, nothing computed again but the scores; see `forward_flops`."""
        forward = self.forward_flops(positions, squares)
        attention = forward.attention + self.layers * squares * self.hstu.attention_backward
        return HstuFlops(attention, TRAINED * forward.uvqk, TRAINED * forward.output)


def hstu_part(hstu: Hstu, tables: Tables) -> HstuPart:
    """The stack of a model with its tables.

    Raises:
        InputError: no table, or one of another sequence, has vectors for it.
    """
    dims = _dims(tables, hstu.sequence)
    if not dims:
        raise InputError(
            "no table has vectors of the sequence",
            key="workload.model.hstu.sequence",
            given=hstu.sequence,
            expected="its tables",
        )
    context = _dims(tables, hstu.context) if hstu.context is not None else []
    if hstu.context is not None and not context:
        key, expected = "workload.model.hstu.context", f"a table with sequence: {hstu.context}, or no context"
        raise InputError("no table has contextual vectors", key=key, given=hstu.context, expected=expected)
    known = {hstu.sequence, hstu.context}
    other = next((n for n, s in zip(tables.names, tables.sequence_names, strict=True) if s not in known), None)
    if other is not None:
        raise InputError(
            "a table of neither the history nor its context",
            key="workload.model.tables",
            given=other,
            expected=f"sequence: {hstu.sequence}" + (f" or {hstu.context}" if hstu.context else ""),
        )
    if len(set(context)) > 1:
        given = ", ".join(map(str, sorted(set(context))))
        raise InputError(
            "contextual vectors of several widths", key="workload.model.tables", given=given, expected="equal dims"
        )
    if hstu.preprocessor_width is None and (sum(dims) != hstu.width.value or set(context) - {hstu.width.value}):
        raise InputError(
            "vectors of another width than the layers, and no MLP before them",
            key="workload.model.hstu.width",
            given=", ".join(map(str, sorted({sum(dims), *context}))),
            expected=f"{hstu.width.value} elements, or preprocessor_width",
        )
    content_dims = (dims[0], *([sum(dims[1:])] if len(dims) > 1 else []))
    actions = None if hstu.action_width is None else hstu.action_width.value
    return HstuPart(
        hstu=hstu,
        contextual=len(context),
        content=_content(hstu, content_dims),
        action=_mlp("action", actions, hstu.preprocessor_width, hstu.width.value),
        item=_mlp("item", sum(dims), hstu.item_width, hstu.width.value),
        content_dims=content_dims,
        context_dim=context[0] if context else 0,
    )


def _dims(tables: Tables, sequence: str | None) -> list[int]:
    """Elements of each feature's vectors of a sequence, in order of the tables."""
    named = zip(tables.sequence_names, tables.dim.tolist(), tables.features.tolist(), strict=True)
    return [dim for name, dim, features in named if name == sequence for _ in range(features)]


def _content(hstu: Hstu, dims: tuple[int, ...]) -> tuple[tuple[DenseLayer, ...], ...]:
    if hstu.preprocessor_width is None:
        return ()
    width = hstu.width.value
    names = ("content", "additional")
    return tuple(_mlp(name, dim, hstu.preprocessor_width, width) for name, dim in zip(names, dims, strict=False))


def _mlp(name: str, inputs: int | None, hidden: Graded[int] | None, width: int) -> tuple[DenseLayer, ...]:
    if inputs is None or hidden is None:
        return ()
    return (
        DenseLayer(f"{name}_0", inputs, hidden.value, activation=False),
        DenseLayer(f"{name}_1", hidden.value, width, activation=False),
    )
