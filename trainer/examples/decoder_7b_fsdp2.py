"""Decoder of 7 billion parameters (the shapes of Llama 2 7B) with FSDP2, bf16 and fused AdamW."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.nn.functional import cross_entropy, scaled_dot_product_attention, silu

LAYERS, HIDDEN, HEADS, INNER, WORDS = 32, 4096, 32, 11_008, 32_000
TOKENS = 4096
BATCH = 1
"""Sequences of a step on each rank."""


class Attention(nn.Module):
    """Causal attention with rotary positions."""

    def __init__(self) -> None:
        """Make the projections."""
        super().__init__()
        self.qkv = nn.Linear(HIDDEN, 3 * HIDDEN, bias=False)
        self.out = nn.Linear(HIDDEN, HIDDEN, bias=False)

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        """Mix tokens of ``[batch, tokens, hidden]``."""
        parts = self.qkv(x).chunk(3, dim=-1)
        query, key, value = (part.unflatten(-1, (HEADS, -1)).transpose(1, 2) for part in parts)
        query, key = rotated(query, cos, sin), rotated(key, cos, sin)
        mixed = scaled_dot_product_attention(query, key, value, is_causal=True)
        projected: Tensor = self.out(mixed.transpose(1, 2).flatten(2))
        return projected


def rotated(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Vectors turned by the angles of their positions."""
    left, right = x.chunk(2, dim=-1)
    return x * cos + torch.cat([-right, left], dim=-1) * sin


class Layer(nn.Module):
    """Attention and a gated MLP, each behind a norm and beside a residual path."""

    def __init__(self) -> None:
        """Make both."""
        super().__init__()
        self.attention_norm, self.mlp_norm = nn.RMSNorm(HIDDEN), nn.RMSNorm(HIDDEN)
        self.attention = Attention()
        self.gate, self.up = nn.Linear(HIDDEN, INNER, bias=False), nn.Linear(HIDDEN, INNER, bias=False)
        self.down = nn.Linear(INNER, HIDDEN, bias=False)

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        """Run the layer."""
        x = x + self.attention(self.attention_norm(x), cos, sin)
        y = self.mlp_norm(x)
        result: Tensor = x + self.down(silu(self.gate(y)) * self.up(y))
        return result


class Decoder(nn.Module):
    """Embedding, layers and the logits of the next words."""

    def __init__(self, layers: int) -> None:
        """Make a number of layers."""
        super().__init__()
        self.embedding = nn.Embedding(WORDS, HIDDEN)
        self.layers = nn.ModuleList([Layer() for _ in range(layers)])
        self.norm, self.head = nn.RMSNorm(HIDDEN), nn.Linear(HIDDEN, WORDS, bias=False)

    def forward(self, words: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        """Logits ``[batch, tokens, words]``."""
        x = self.embedding(words)
        for layer in self.layers:
            x = layer(x, cos, sin)
        logits: Tensor = self.head(self.norm(x))
        return logits


def training_step(rank: int, world_size: int, layers: int = LAYERS) -> Callable[[], None]:  # noqa: ARG001
    """A step with parameters, gradients and optimizer state divided over all ranks."""
    mesh = init_device_mesh("cuda", (world_size,))
    model = Decoder(layers).to("cuda")
    policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    for part in (*model.layers, model):
        fully_shard(part, mesh=mesh, mp_policy=policy)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4, fused=True)
    words = torch.randint(0, WORDS, (BATCH, TOKENS), device="cuda")
    angles = torch.randn(TOKENS, HIDDEN // HEADS, device="cuda")
    cos, sin = angles.cos().bfloat16(), angles.sin().bfloat16()

    def step() -> None:
        optimizer.zero_grad()
        logits = model(words, cos, sin)
        cross_entropy(logits.flatten(0, 1).float(), words.flatten()).backward()
        optimizer.step()

    step.samples = BATCH  # type: ignore[attr-defined]
    return step
