"""Transformer on a mesh of data x tensor parallelism: 8 ranks share each layer by DTensor, FSDP2 across."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
from torch.nn.functional import gelu, scaled_dot_product_attention

LAYERS, HIDDEN, HEADS, INNER, TOKENS = 4, 4096, 32, 16_384, 2048
TENSOR_PARALLEL = 8
BATCH = 2
"""Sequences of a step on each group of tensor-parallel ranks."""


class Attention(nn.Module):
    """Causal attention; each tensor-parallel rank has a part of the heads."""

    def __init__(self) -> None:
        """Make the projections."""
        super().__init__()
        self.query, self.key = nn.Linear(HIDDEN, HIDDEN), nn.Linear(HIDDEN, HIDDEN)
        self.value, self.out = nn.Linear(HIDDEN, HIDDEN), nn.Linear(HIDDEN, HIDDEN)

    def forward(self, x: Tensor) -> Tensor:
        """Mix tokens of ``[batch, tokens, hidden]``."""
        parts = (self.query(x), self.key(x), self.value(x))
        query, key, value = (part.unflatten(-1, (-1, HIDDEN // HEADS)).transpose(1, 2) for part in parts)
        mixed = scaled_dot_product_attention(query, key, value, is_causal=True)
        projected: Tensor = self.out(mixed.transpose(1, 2).flatten(2))
        return projected


class Layer(nn.Module):
    """Attention and an MLP, each behind a norm and beside a residual path."""

    def __init__(self) -> None:
        """Make both."""
        super().__init__()
        self.attention_norm, self.mlp_norm = nn.LayerNorm(HIDDEN), nn.LayerNorm(HIDDEN)
        self.attention = Attention()
        self.up, self.down = nn.Linear(HIDDEN, INNER), nn.Linear(INNER, HIDDEN)

    def forward(self, x: Tensor) -> Tensor:
        """Run the layer."""
        x = x + self.attention(self.attention_norm(x))
        return x + self.down(gelu(self.up(self.mlp_norm(x))))


PLAN = {
    "attention.query": ColwiseParallel(),
    "attention.key": ColwiseParallel(),
    "attention.value": ColwiseParallel(),
    "attention.out": RowwiseParallel(),
    "up": ColwiseParallel(),
    "down": RowwiseParallel(),
}
"""Division of a layer: columns of the first products, rows of the second ones, whose results all ranks sum."""


def training_step(rank: int, world_size: int) -> Callable[[], None]:  # noqa: ARG001 - all ranks do the same
    """A step of ranks that share layers in groups of 8."""
    shape = (world_size // TENSOR_PARALLEL, TENSOR_PARALLEL)
    mesh = init_device_mesh("cuda", shape, mesh_dim_names=("dp", "tp"))
    model = nn.Sequential(*(Layer() for _ in range(LAYERS))).to("cuda")
    policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    for layer in model:
        parallelize_module(layer, mesh["tp"], PLAN)
        fully_shard(layer, mesh=mesh["dp"], mp_policy=policy)
    fully_shard(model, mesh=mesh["dp"], mp_policy=policy)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)
    x = torch.randn(BATCH, TOKENS, HIDDEN, device="cuda")

    def step() -> None:
        optimizer.zero_grad()
        model(x).float().square().mean().backward()
        optimizer.step()

    step.samples = BATCH  # type: ignore[attr-defined]
    return step
