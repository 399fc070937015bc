"""Training steps of five small models that a core runs in milliseconds; captured and timed by `benchmarks.captures`."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import torch
from torch import Tensor, nn

Step = Callable[[], None]
NAMES = ("narrow_mlp", "wide_mlp", "two_towers", "cross_network", "small_dlrm")
"""Functions of this file, one for each model."""


def narrow_mlp(rank: int, world_size: int) -> Step:  # noqa: ARG001 - the signature of a captured function
    """Five layers of 256, 1,024 samples."""
    return _trained(_layers([64, 256, 256, 256, 256, 1]), torch.randn(1024, 64))


def wide_mlp(rank: int, world_size: int) -> Step:  # noqa: ARG001 - as above
    """Three layers of 2,048, 1,024 samples."""
    return _trained(_layers([64, 2048, 2048, 2048, 1]), torch.randn(1024, 64))


def two_towers(rank: int, world_size: int) -> Step:  # noqa: ARG001 - as above
    """Two towers whose outputs all meet in a product, 512 samples."""
    return _trained(_Towers(), torch.randn(512, 128))


def cross_network(rank: int, world_size: int) -> Step:  # noqa: ARG001 - as above
    """Three cross layers of full rank on 768 features, 1,024 samples."""
    return _trained(_Cross(768, 3), torch.randn(1024, 768))


def small_dlrm(rank: int, world_size: int) -> Step:  # noqa: ARG001 - as above
    """Eight tables of 20,000 rows, ten lookups each, dot interaction, 1,024 samples."""
    indices = [torch.randint(0, 20_000, (1024, 10)) for _ in range(8)]
    return _trained(_Dlrm(indices), torch.randn(1024, 13))


class _Towers(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.users, self.items = _layers([128, 512, 128]), _layers([128, 512, 128])

    def forward(self, inputs: Tensor) -> Tensor:
        """Products of each user with each item ``[samples, samples]``."""
        found: Tensor = self.users(inputs) @ self.items(inputs).T
        return found


class _Cross(nn.Module):
    def __init__(self, width: int, depth: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(width, width) for _ in range(depth)])
        self.top = _layers([width, 256, 1])

    def forward(self, inputs: Tensor) -> Tensor:
        """Clicks ``[samples, 1]``."""
        crossed = inputs
        for layer in self.layers:
            crossed = inputs * layer(crossed) + crossed
        found: Tensor = self.top(crossed)
        return found


class _Dlrm(nn.Module):
    def __init__(self, indices: list[Tensor]) -> None:
        super().__init__()
        self._indices = indices
        self.tables = nn.ModuleList([nn.EmbeddingBag(20_000, 32, mode="sum", sparse=True) for _ in indices])
        self.bottom, self.top = _layers([13, 128, 32]), _layers([32 + 81, 256, 1])

    def forward(self, dense: Tensor) -> Tensor:
        """Clicks ``[samples, 1]``."""
        bottom = self.bottom(dense)
        pooled = [table(own) for table, own in zip(self.tables, self._indices, strict=True)]
        vectors = torch.stack([bottom, *pooled], dim=1)
        products = torch.bmm(vectors, vectors.transpose(1, 2)).flatten(1)
        found: Tensor = self.top(torch.cat([bottom, products], dim=1))
        return found


def _layers(widths: list[int]) -> nn.Sequential:
    pairs = itertools.pairwise(widths)
    return nn.Sequential(*(layer for n, m in pairs for layer in (nn.Linear(n, m), nn.ReLU())))


def _trained(model: nn.Module, inputs: Tensor) -> Step:
    """A step of SGD on the mean square of the outputs."""
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)

    def step() -> None:
        optimizer.zero_grad()
        loss: Tensor = model(inputs).square().mean()
        loss.backward()
        optimizer.step()

    step.samples = inputs.shape[0]  # type: ignore[attr-defined]
    return step
