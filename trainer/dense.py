"""The dense part: bottom MLP, interaction, top MLP, with the layers that `workloads.dlrm.model.dense` counts.

Initial weights are normal, of variance ``2 / (inputs + outputs)``, biases of variance ``1 / outputs``, as
facebookresearch/dlrm has them (``create_mlp``). All parameters lie in one buffer, so that the optimizer is one kernel.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise

import torch
from torch import Tensor
from torch.nn import Parameter
from torch.nn.functional import avg_pool1d, linear

from trainer.draws import Purpose, normals
from trainer.job import TrainingJob
from workloads.dlrm.model.layers import DenseLayer


@dataclass(frozen=True, slots=True)
class LinearLayer:
    """A linear layer; ``weight`` is ``[outputs, inputs]``."""

    layer: DenseLayer
    weight: Parameter
    bias: Parameter | None

    @property
    def parameters(self) -> tuple[Parameter, ...]:
        """Parameters in the order in which they lie in memory."""
        return (self.weight,) if self.bias is None else (self.weight, self.bias)

    def __call__(self, x: Tensor) -> Tensor:
        """``x W^T + b``."""
        return linear(x, self.weight, self.bias)


class DenseModule:
    """Layers and interaction.

    Attributes:
        flat: all parameters, the last layer of forward first, which is the order in which backward makes gradients.
        layers: layers in that order.
    """

    def __init__(self, job: TrainingJob, device: torch.device) -> None:
        """Draw the first weights."""
        part = job.job.dense
        self._kind, self._outputs = job.job.interaction, part.interaction_outputs
        self._stride = job.model.pool_stride.value if job.model.pool_stride else 0
        self.flat = torch.empty(part.parameters, dtype=torch.float32, device=device)
        made: dict[str, LinearLayer] = {}
        first = 0
        for number, layer in reversed(list(enumerate(part.layers))):
            of_layer = self.flat[first : first + layer.parameters]
            of_layer.copy_(_first_weights(job.seed, number, layer))
            made[layer.name] = _layer(layer, of_layer)
            first += layer.parameters
        self.layers = tuple(made.values())
        self._bottom = [made[layer.name] for layer in part.bottom]
        self._cross = [(made[v.name], made[u.name]) for v, u in zip(part.cross[::2], part.cross[1::2], strict=True)]
        self._top = [made[layer.name] for layer in part.top]
        vectors = job.plan.tables.feature_count + 1
        pairs = [i * vectors + j for i in range(vectors) for j in range(i)] if self._kind == "dot" else []
        self._pairs = torch.tensor(pairs, dtype=torch.int64, device=device)

    def bottom(self, dense: Tensor) -> Tensor:
        """The bottom MLP on dense features ``[B, F]``."""
        return _mlp(self._bottom, dense)

    def interact(self, bottom: Tensor, pooled: Tensor) -> Tensor:
        """Input of the top MLP, from the bottom MLP's output ``[B, D]`` and all pooled vectors ``[B, W]``."""
        joined = torch.cat([bottom, pooled], 1)
        if self._kind == "dot":
            vectors = joined.view(len(bottom), -1, bottom.shape[1])
            products = torch.bmm(vectors, vectors.transpose(1, 2)).flatten(1)
            kept: Tensor = Columns.apply(products, self._pairs)  # type: ignore[no-untyped-call]
            return torch.cat([bottom, kept], 1)
        if self._stride:
            return torch.cat([bottom, avg_pool1d(pooled[:, None], self._stride, ceil_mode=True)[:, 0]], 1)
        if self._kind == "reduce":
            return _folded(joined, self._outputs)
        x = joined
        for v, u in self._cross:
            x = torch.addcmul(x, joined, u(v(x)))
        return x

    def top(self, x: Tensor) -> Tensor:
        """The top MLP; its last activation, a sigmoid, belongs to the loss."""
        return self._top[-1](_mlp(self._top[:-1], x))


class Columns(torch.autograd.Function):
    """Distinct columns of a matrix; PyTorch's own gradient of this adds them one by one."""

    @staticmethod
    def forward(ctx: torch.autograd.function.FunctionCtx, matrix: Tensor, columns: Tensor) -> Tensor:
        """``matrix[:, columns]``."""
        ctx.save_for_backward(columns)
        ctx.width = matrix.shape[1]  # type: ignore[attr-defined]
        return matrix.index_select(1, columns)

    @staticmethod
    def backward(ctx: torch.autograd.function.FunctionCtx, *gradients: Tensor) -> tuple[Tensor, None]:
        """The gradient in those columns, 0 in the others."""
        (columns,) = ctx.saved_tensors  # type: ignore[attr-defined]
        (gradient,) = gradients
        whole = gradient.new_zeros(len(gradient), ctx.width)  # type: ignore[attr-defined]
        return whole.index_copy_(1, columns, gradient), None


def _mlp(layers: list[LinearLayer], x: Tensor) -> Tensor:
    for layer in layers:
        x = torch.relu(layer(x))
    return x


def _folded(joined: Tensor, width: int) -> Tensor:
    """The sum of consecutive pieces of ``width`` columns: every vector is read once, one as wide is written.

    Models whose sources give no further detail use this (interaction ``reduce``).
    """
    edges = [*range(0, joined.shape[1], width), joined.shape[1]]
    folded = joined.new_zeros(len(joined), width)
    for low, high in pairwise(edges):
        folded = folded + torch.nn.functional.pad(joined[:, low:high], (0, width - (high - low)))
    return folded


def _first_weights(seed: int, number: int, layer: DenseLayer) -> Tensor:
    drawn = torch.from_numpy(normals(seed, Purpose.LAYER_WEIGHTS, number, layer.parameters))
    weights = layer.inputs * layer.outputs
    drawn[:weights] *= math.sqrt(2.0 / (layer.inputs + layer.outputs))
    drawn[weights:] *= math.sqrt(1.0 / layer.outputs)
    return drawn


def _layer(layer: DenseLayer, memory: Tensor) -> LinearLayer:
    weights = layer.inputs * layer.outputs
    weight = Parameter(memory[:weights].view(layer.outputs, layer.inputs))
    return LinearLayer(layer, weight, Parameter(memory[weights:]) if layer.bias else None)
