"""Gradient buckets: which gradients one all_reduce sums, as PyTorch's DistributedDataParallel groups them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from workloads.graph.levels import WORLD

GRADIENT_BYTES = 4
"""Dense parameters, gradients and optimizer state are fp32 (PyTorch default and with automatic mixed precision)."""


@dataclass(frozen=True, slots=True)
class Bucket:
    """Gradients that one all_reduce sums: ready when the gradient named ``ready_after`` is.

    Attributes:
        communicator: ranks that sum them.
    """

    parameters: int
    ready_after: str
    communicator: str = WORLD

    @property
    def bytes(self) -> int:
        """Size of the buffer."""
        return self.parameters * GRADIENT_BYTES


def gradient_buckets(
    gradients: Sequence[tuple[str, int]], first_bytes: float, cap_bytes: float, communicator: str = WORLD
) -> tuple[Bucket, ...]:
    """DDP's buckets.

    Gradients are added in the order in which backward makes them; a bucket is closed as soon as its size reaches the
    limit (pytorch c10d/reducer.cpp compute_bucket_assignment_by_size), the first one at a smaller limit.

    Args:
        gradients: (what they belong to, number of parameters), in backward order.
        first_bytes: limit of the first bucket.
        cap_bytes: limit of the others.
    """
    buckets: list[Bucket] = []
    filled, limit = 0, first_bytes
    for name, parameters in gradients:
        filled += parameters
        if filled * GRADIENT_BYTES >= limit:
            buckets.append(Bucket(filled, name, communicator))
            filled, limit = 0, cap_bytes
    if filled:
        buckets.append(Bucket(filled, gradients[-1][0], communicator))
    return tuple(buckets)
