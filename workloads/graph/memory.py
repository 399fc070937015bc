"""Memory of every rank by tier and item."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias, get_args

import numpy as np

from simulator.operators import FloatArray

Tier: TypeAlias = Literal["hbm", "ddr", "ssd"]
TIERS: tuple[Tier, ...] = get_args(Tier)


@dataclass(frozen=True, slots=True)
class MemoryUse:
    """Bytes per rank.

    Attributes:
        tiers: tier -> item -> bytes ``[P]``: device memory, host memory, SSDs; a tier may have no item.
    """

    tiers: Mapping[Tier, Mapping[str, FloatArray]]

    def total(self, tier: Tier) -> FloatArray:
        """Sum of the items of a tier ``[P]``; zeros where it has none."""
        items = list(self.tiers[tier].values()) or [np.zeros(self.ranks)]
        return np.asarray(np.sum(items, axis=0), dtype=np.float64)

    @property
    def ranks(self) -> int:
        """Number of ranks; 0 where no tier has an item."""
        return next((len(held) for items in self.tiers.values() for held in items.values()), 0)
