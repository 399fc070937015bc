"""DCN V2 with low-rank cross layers: one replicated table of hashed features, DistributedDataParallel, Adam."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits
from torch.nn.parallel import DistributedDataParallel

DENSE, FEATURES, ROWS, DIM = 13, 26, 100_000, 16
CROSS_LAYERS, RANK = 3, 128
DEEP = (1024, 1024, 512)
WIDTH = DENSE + FEATURES * DIM
BATCH = 4096
"""Samples of a step on each rank."""


class Cross(nn.Module):
    """A cross layer ``x0 * (U V x + b) + x``; U and V have few columns."""

    def __init__(self) -> None:
        """Make both factors."""
        super().__init__()
        self.down = nn.Linear(WIDTH, RANK, bias=False)
        self.up = nn.Linear(RANK, WIDTH)

    def forward(self, first: Tensor, vectors: Tensor) -> Tensor:
        """Cross vectors with the inputs of the first layer."""
        crossed: Tensor = first * self.up(self.down(vectors)) + vectors
        return crossed


class DCN(nn.Module):
    """Embeddings, cross layers and deep layers side by side, one logit."""

    def __init__(self) -> None:
        """Make all layers."""
        super().__init__()
        self.table = nn.Embedding(FEATURES * ROWS, DIM)
        self.register_buffer("offsets", torch.arange(FEATURES) * ROWS)
        self.cross = nn.ModuleList([Cross() for _ in range(CROSS_LAYERS)])
        sizes = (WIDTH, *DEEP)
        pairs = pairwise(sizes)
        self.deep = nn.Sequential(*(m for i, o in pairs for m in (nn.Linear(i, o), nn.ReLU())))
        self.logit = nn.Linear(WIDTH + DEEP[-1], 1)

    def forward(self, dense: Tensor, features: Tensor) -> Tensor:
        """Logits ``[batch, 1]`` of numbers ``[batch, 13]`` and hashed features ``[batch, 26]``."""
        first = torch.cat([dense, self.table(features + self.offsets).flatten(1)], dim=1)
        crossed = first
        for layer in self.cross:
            crossed = layer(first, crossed)
        logits: Tensor = self.logit(torch.cat([crossed, self.deep(first)], dim=1))
        return logits


def training_step(rank: int, world_size: int) -> Callable[[], None]:  # noqa: ARG001 - all ranks do the same
    """A step of data-parallel training."""
    model = DistributedDataParallel(DCN().to("cuda"), gradient_as_bucket_view=True)
    optimizer = torch.optim.Adam(model.parameters())
    dense = torch.randn(BATCH, DENSE)
    features = torch.randint(0, ROWS, (BATCH, FEATURES))
    clicks = torch.rand(BATCH, 1)

    def step() -> None:
        batch = [values.to("cuda", non_blocking=True) for values in (dense, features, clicks)]
        optimizer.zero_grad()
        binary_cross_entropy_with_logits(model(*batch[:2]), batch[2]).backward()
        optimizer.step()

    step.samples = BATCH  # type: ignore[attr-defined]
    return step
