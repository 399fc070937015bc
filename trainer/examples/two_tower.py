"""Two-tower retrieval: in-batch sampled softmax over the items of all ranks, tables with sparse gradients."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.nn.functional import all_gather
from torch.nn.functional import cross_entropy, normalize
from torch.nn.parallel import DistributedDataParallel

USERS, ITEMS, HISTORY, DIM = 2_000_000, 500_000, 50, 64
LAYERS = (512, 256, 128)
TEMPERATURE = 0.05
BATCH = 1024
"""Samples of a step on each rank."""


class Tower(nn.Module):
    """Layers from the vectors of features to a vector of length 1."""

    def __init__(self, width: int) -> None:
        """Make the layers for inputs ``[batch, width]``."""
        super().__init__()
        sizes = (width, *LAYERS)
        pairs = pairwise(sizes)
        self.layers = nn.Sequential(*(m for i, o in pairs for m in (nn.Linear(i, o), nn.ReLU())))
        self.out = nn.Linear(LAYERS[-1], LAYERS[-1])

    def forward(self, vectors: Tensor) -> Tensor:
        """Vectors ``[batch, 128]`` of length 1."""
        return normalize(self.out(self.layers(vectors)))


class TwoTower(nn.Module):
    """Towers of users and items."""

    def __init__(self) -> None:
        """Users have a vector of their own and the items that they bought before."""
        super().__init__()
        self.user, self.item = Tower(2 * DIM), Tower(DIM)

    def forward(self, users: Tensor, items: Tensor) -> tuple[Tensor, Tensor]:
        """Vectors of both towers."""
        return self.user(users), self.item(items)


def share_rows(table: nn.EmbeddingBag, world_size: int) -> None:
    """Give all ranks the gradients of all looked-up rows; DistributedDataParallel cannot sum sparse ones with NCCL."""
    gradient = table.weight.grad
    if gradient is None:
        return
    rows, vectors = gradient._indices()[0], gradient._values() / world_size  # noqa: SLF001 - not summed yet
    all_rows = rows.new_empty(world_size * len(rows))
    all_vectors = vectors.new_empty(world_size * len(rows), vectors.shape[1])
    dist.all_gather_into_tensor(all_rows, rows)
    dist.all_gather_into_tensor(all_vectors, vectors)
    table.weight.grad = torch.sparse_coo_tensor(all_rows[None], all_vectors, gradient.shape)


def training_step(rank: int, world_size: int) -> Callable[[], None]:
    """A step with small tables on every rank."""
    tables = [nn.EmbeddingBag(rows, DIM, mode="sum", sparse=True, device="cuda") for rows in (USERS, ITEMS)]
    user_table, item_table = tables
    model = DistributedDataParallel(TwoTower().to("cuda"))
    dense_optimizer = torch.optim.Adam(model.parameters())
    sparse_optimizer = torch.optim.Adagrad([table.weight for table in tables], lr=0.05)
    users = torch.randint(0, USERS, (BATCH, 1), device="cuda")
    history = torch.randint(0, ITEMS, (BATCH, HISTORY), device="cuda")
    items = torch.randint(0, ITEMS, (BATCH, 1), device="cuda")
    labels = torch.arange(BATCH, device="cuda") + rank * BATCH

    def step() -> None:
        dense_optimizer.zero_grad()
        sparse_optimizer.zero_grad()
        profile = torch.cat([user_table(users), item_table(history)], dim=1)
        user, item = model(profile, item_table(items))
        every_item = torch.cat(all_gather(item))
        cross_entropy(user @ every_item.T / TEMPERATURE, labels).backward()
        for table in tables:
            share_rows(table, world_size)
        dense_optimizer.step()
        sparse_optimizer.step()

    step.samples = BATCH  # type: ignore[attr-defined]
    return step
