"""Batches of lookups whose bags differ in length, for captured steps and for real ones."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from workloads.dlrm.laws.pooling import PoolingSpread, lengths


def jagged_indices(
    rows: int,
    bags: int,
    mean: float,
    distribution: str = "poisson",
    *,
    deviation: float | None = None,
    seed: int = 0,
    device: torch.device | str | None = None,
) -> tuple[Tensor, Tensor]:
    """Indices of all bags in turn ``[lookups]``, and the first index of each bag ``[bags]``.

    Lengths are drawn from a law, so that their sum is realistic for a batch; rows are uniform. A capture counts
    lookups; which rows they are follows from the scenario's key ``workload.indices``.

    Args:
        mean: lookups of a bag on average.
        distribution: fixed, poisson, geometric or lognormal.
        deviation: standard deviation over mean of a lognormal law.

    Raises:
        ValidationError: there is no such distribution, or a key of another one.
    """
    spread = PoolingSpread.model_validate({"distribution": distribution, "deviation": deviation})
    drawn = lengths(spread.probabilities(mean), np.random.default_rng(seed).random(bags))
    starts = np.concatenate([[0], np.cumsum(drawn)[:-1]])
    offsets = torch.tensor(starts.tolist(), dtype=torch.int64, device=device)
    return torch.randint(0, rows, (int(drawn.sum()),), device=device), offsets
