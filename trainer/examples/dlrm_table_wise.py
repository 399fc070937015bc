"""DLRM of MLPerf: whole tables on ranks, pooled vectors by all_to_all, dense layers in DistributedDataParallel."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits
from torch.nn.parallel import DistributedDataParallel

from dlrmsim import TableBatch

DENSE, TABLES, ROWS, DIM = 13, 26, 40_000_000, 128
BOTTOM, TOP = (512, 256, DIM), (1024, 1024, 512, 256, 1)
BATCH = 2048
"""Samples of a step on each rank."""


def layers(sizes: Sequence[int], *, last_relu: bool) -> nn.Sequential:
    """Linear layers with ReLU between them."""
    found: list[nn.Module] = []
    for wide, narrow in pairwise(sizes):
        found += [nn.Linear(wide, narrow), nn.ReLU()]
    return nn.Sequential(*(found if last_relu else found[:-1]))


class AllToAll(torch.autograd.Function):
    """Exchange of pooled vectors, whose gradients travel the same way back."""

    @staticmethod
    def forward(ctx: Any, vectors: Tensor, sent: list[int], received: list[int]) -> Tensor:
        """Send ``sent[r]`` elements to each rank r."""
        ctx.sent, ctx.received = sent, received
        result = vectors.new_empty(sum(received))
        dist.all_to_all_single(result, vectors, received, sent)
        return result

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, None]:
        """Send gradients back."""
        result = gradients[0].new_empty(sum(ctx.sent))
        dist.all_to_all_single(result, gradients[0].contiguous(), ctx.sent, ctx.received)
        return result, None, None


class DenseArch(nn.Module):
    """Bottom layers, dot products of all pairs of vectors, top layers."""

    def __init__(self) -> None:
        """Make the layers."""
        super().__init__()
        self.bottom = layers((DENSE, *BOTTOM), last_relu=True)
        pairs = torch.tril_indices(TABLES + 1, TABLES + 1, offset=-1)
        self.register_buffer("left", pairs[0], persistent=False)
        self.register_buffer("right", pairs[1], persistent=False)
        self.top = layers((DIM + pairs.shape[1], *TOP), last_relu=False)

    def forward(self, dense: Tensor, pooled: Tensor) -> Tensor:
        """Logits ``[batch, 1]`` of features ``[batch, 13]`` and vectors ``[batch, 26, 128]``."""
        bottom = self.bottom(dense)
        vectors = torch.cat([bottom[:, None], pooled], dim=1)
        products = torch.bmm(vectors, vectors.transpose(1, 2))
        logits: Tensor = self.top(torch.cat([bottom, products[:, self.left, self.right]], dim=1))
        return logits


def training_step(rank: int, world_size: int) -> Callable[[], None]:
    """A step of a rank that holds every ``world_size``-th table."""
    held = [len(range(r, TABLES, world_size)) for r in range(world_size)]
    own = held[rank]
    tables = TableBatch([ROWS] * own, DIM, optimizer="sgd", device="cuda") if own else None
    model = DistributedDataParallel(DenseArch().to("cuda"), broadcast_buffers=False)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    dense = torch.randn(BATCH, DENSE, device="cuda")
    clicks = torch.rand(BATCH, 1, device="cuda")
    rows = [torch.randint(0, ROWS, (BATCH * world_size, 1), device="cuda") for _ in range(own)]
    nothing = torch.empty(BATCH * world_size, 0, device="cuda", requires_grad=True)
    sent = [BATCH * own * DIM] * world_size
    received = [BATCH * count * DIM for count in held]

    def step() -> None:
        optimizer.zero_grad()
        pooled = tables(rows) if tables is not None else nothing
        parts = AllToAll.apply(pooled.reshape(-1), sent, received).split(received)  # type: ignore[no-untyped-call]
        vectors = torch.cat([part.view(BATCH, -1, DIM) for part in parts if part.numel()], dim=1)
        binary_cross_entropy_with_logits(model(dense, vectors), clicks).backward()
        optimizer.step()

    step.samples = BATCH  # type: ignore[attr-defined]
    return step
