"""The dense part of a DLRM: layers, their FLOPs and parameters."""

from __future__ import annotations

import math
from dataclasses import dataclass

from inputs.errors import InputError
from simulator.precisions import Precision
from workloads.dlrm.model.hstu_part import HstuPart, hstu_part
from workloads.dlrm.model.layers import DenseLayer
from workloads.dlrm.model.model import DlrmModel
from workloads.dlrm.model.tables import Tables
from workloads.graph.buckets import GRADIENT_BYTES

MAX_LENGTHS = 6
"""Different lengths that a message names."""

PADDING = {"fp8": 16}
DEFAULT_PADDING = 8
"""Trainers that use tensor cores pad widths to multiples of 8 elements: the 479 outputs of MLPerf's interaction are 480
in HugeCTR and in NVIDIA's DeepLearningExamples (recalled); fp8 needs multiples of 16 (cuBLAS, recalled). Widths that
stand in for a mean have no multiple either."""


@dataclass(frozen=True, slots=True)
class DensePart:
    """Layers in forward order.

    Attributes:
        dense_features: width of the dense input.
        cross: low-rank cross layers of dcnv2, two linear layers each; empty otherwise.
        interaction_inputs: width of all vectors that enter the interaction.
        interaction_outputs: width of what enters the top MLP.
        interaction_flops_per_sample: FLOP of the dot interaction's batched product; 0 for other interactions.
        hstu: the stack of layers over positions; None: there is none.
    """

    dense_features: int
    bottom: tuple[DenseLayer, ...]
    cross: tuple[DenseLayer, ...]
    top: tuple[DenseLayer, ...]
    interaction_inputs: int
    interaction_outputs: int
    interaction_flops_per_sample: int
    hstu: HstuPart | None = None

    @property
    def layers(self) -> tuple[DenseLayer, ...]:
        """All layers in forward order; learned vectors of a stack over positions count as layers."""
        stack = () if self.hstu is None else self.hstu.named_layers()
        return (*self.bottom, *self.cross, *stack, *self.top)

    @property
    def kept_outputs(self) -> int:
        """Elements per sample that PyTorch's autograd keeps: the tensors that operations save, each counted once.

        A layer saves its input, a ReLU its output, which is the next layer's input: one tensor a layer. The product of
        a cross layer saves both factors: the output of U and the vector before it. The interaction saves its inputs, as
        one tensor, and its output is the input of the top MLP; without a product (cat, and before cross layers) they
        are the same tensor.
        """
        products = sum(layer.outputs for layer in self.cross if layer.activation)
        outputs = 0 if self.interaction_outputs == self.interaction_inputs else self.interaction_outputs
        return sum(layer.outputs for layer in self.layers) + products + self.interaction_inputs + outputs

    @property
    def parameters(self) -> int:
        """Dense parameters."""
        return sum(layer.parameters for layer in self.layers)

    @property
    def bytes(self) -> int:
        """Size of the parameters, and of their gradients."""
        return self.parameters * GRADIENT_BYTES

    @property
    def flops_per_sample(self) -> int:
        """Forward FLOPs per sample, layers and interaction."""
        return sum(layer.flops_per_sample for layer in self.layers) + self.interaction_flops_per_sample


def dense_part(model: DlrmModel, tables: Tables) -> DensePart:
    """The dense part of a model with the given tables.

    Raises:
        InputError: a dot interaction of vectors of different lengths.
    """
    features, bottom_widths, top_widths = _widths(model)
    if model.hstu is not None:
        stack = hstu_part(model.hstu, tables)
        return DensePart(features, (), (), _mlp("top", stack.width, top_widths), 0, stack.width, 0, stack)
    bottom = _mlp("bottom", features, bottom_widths)
    beside = (features, *bottom_widths)[-1]
    inputs = beside + int(tables.pooled_dim.sum())
    outputs, flops = _interaction(model, tables, beside, inputs, top_input=features)
    return DensePart(
        dense_features=features,
        bottom=bottom,
        cross=_cross(model, inputs),
        top=_mlp("top", outputs, top_widths),
        interaction_inputs=inputs,
        interaction_outputs=outputs,
        interaction_flops_per_sample=flops,
    )


def padded_width(width: int, precision: Precision) -> int:
    """Width of a layer in the products of a precision; a width of 1 is not padded."""
    padding = PADDING.get(precision, DEFAULT_PADDING)
    return width if precision == "fp32" or width == 1 else -(-width // padding) * padding


def _widths(model: DlrmModel) -> tuple[int, tuple[int, ...], tuple[int, ...]]:
    """Dense features, widths of the bottom and of the top MLP."""
    if model.mlp is not None:
        return model.mlp.dense_features.value, model.mlp.bottom.value, model.mlp.top.value
    if model.uniform_mlp is None:
        raise InputError("the model has no MLP", key="mlp", expected="mlp or uniform_mlp")
    uniform = model.uniform_mlp
    width = uniform.width.value
    return width, (width,) * uniform.bottom_layers.value, (width,) * uniform.top_layers.value


def _mlp(name: str, inputs: int, widths: tuple[int, ...]) -> tuple[DenseLayer, ...]:
    return tuple(
        DenseLayer(f"{name}_{i}", before, width)
        for i, (before, width) in enumerate(zip((inputs, *widths), widths, strict=False))
    )


def _interaction(model: DlrmModel, tables: Tables, bottom: int, inputs: int, top_input: int) -> tuple[int, int]:
    """Width of the interaction's output and its FLOPs per sample.

    dot: all n x n products of n vectors of d elements are computed (2 n^2 d), the n (n - 1) / 2 below the diagonal are
    kept beside the bottom MLP's output (facebookresearch/dlrm dlrm_s_pytorch.py interact_features).
    pool: a window that runs over the end averages what there is, as padding "same" of a pooling layer does.
    """
    kind = model.interaction.value
    if kind == "dot":
        lengths = sorted({bottom, *tables.dim.tolist()})
        if len(lengths) > 1:
            raise InputError(
                f"the dot interaction of {model.name} needs vectors of one length",
                key="workload.model",
                given=", ".join(map(str, lengths[:MAX_LENGTHS])) + (", ..." if len(lengths) > MAX_LENGTHS else ""),
                expected=f"every dim equal to the last width of the bottom MLP, {bottom}",
            )
        vectors = tables.feature_count + 1
        return bottom + vectors * (vectors - 1) // 2, 2 * vectors * vectors * bottom
    if model.pool_stride is not None:
        return bottom + math.ceil((inputs - bottom) / model.pool_stride.value), 0
    return (top_input if kind == "reduce" else inputs), 0


def _cross(model: DlrmModel, width: int) -> tuple[DenseLayer, ...]:
    """Low-rank cross layers: V ``[rank, width]``, U ``[width, rank]``, then elementwise (DCNv2, arXiv 2008.13535)."""
    if model.cross is None:
        return ()
    rank = model.cross.rank.value
    layers: list[DenseLayer] = []
    for i in range(model.cross.layers.value):
        layers += [
            DenseLayer(f"cross_{i}_v", width, rank, activation=False, bias=False),
            DenseLayer(f"cross_{i}_u", rank, width),
        ]
    return tuple(layers)
