"""Memory use of each rank against its capacity, per memory tier."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from hardware_specs import Cluster
from inputs.quantities import format_quantity
from simulator.operators import FloatArray
from workloads.graph.memory import TIERS, MemoryUse, Tier


def capacities_bytes(cluster: Cluster, world_size: int) -> dict[Tier, float]:
    """Usable bytes of a rank in each tier: the usable part of its GPU's memory, its share of the node's DDR and SSDs.

    Where ranks compute on CPUs, both are the host's memory.
    """
    node = cluster.node
    if node.gpu is None:
        share = node.ddr_bytes.value / min(node.ranks, world_size)
        return {"hbm": share, "ddr": share, "ssd": 0.0}
    return {
        "hbm": node.accelerator.memory_bytes.value * node.accelerator.usable_memory_fraction.value,
        "ddr": node.ddr_bytes.value / node.ranks,
        "ssd": 0.0 if node.ssd is None else node.ssd.bytes.value / node.ranks,
    }


@dataclass(frozen=True, slots=True)
class MemoryReport:
    """Memory of every rank.

    Attributes:
        use: bytes per item and rank.
        capacity_bytes: usable bytes of a rank, by tier.
    """

    use: MemoryUse
    capacity_bytes: Mapping[Tier, float]

    def items(self, tier: Tier) -> Mapping[str, FloatArray]:
        """Bytes of each item of a tier ``[P]``."""
        return self.use.tiers[tier]

    def excess_bytes(self, tier: Tier) -> float:
        """Bytes by which the fullest rank exceeds its capacity; negative when everything fits."""
        return float(self.use.total(tier).max()) - self.capacity_bytes[tier]

    @property
    def worst_excess_bytes(self) -> float:
        """The largest excess over tiers; negative or zero when everything fits."""
        return max(self.excess_bytes(tier) for tier in TIERS)

    def largest_factor(self, items: Collection[str]) -> float:
        """Largest factor on some items with which every rank fits; negative where the other items alone are too much.

        Args:
            items: names of items; an item counts in every tier that has it.
        """
        found = np.inf
        for tier in TIERS:
            none = np.zeros(self.use.ranks)
            held = sum((size for name, size in self.items(tier).items() if name in items), none)
            left = self.capacity_bytes[tier] - (self.use.total(tier) - held)
            factor = np.divide(left, held, out=np.copysign(np.inf, left), where=held > 0.0)
            found = min(found, float(factor.min()))
        return found

    @property
    def most_bytes(self) -> float:
        """Device memory of the fullest rank."""
        return float(self.use.total("hbm").max())

    def fullest_items(self) -> dict[str, float]:
        """Device memory of the fullest rank by item, without empty items."""
        fullest = int(self.use.total("hbm").argmax())
        return {name: float(held[fullest]) for name, held in self.items("hbm").items() if held[fullest]}

    @property
    def fits(self) -> bool:
        """Whether every rank stays within its capacity in every tier."""
        return self.worst_excess_bytes <= 0

    def to_dict(self) -> dict[str, Any]:
        """The ``memory`` of ``summary.json``: per tier the fullest rank and the items."""
        return {tier: self._tier(tier) for tier in TIERS}

    def _tier(self, tier: Tier) -> dict[str, Any]:
        total = self.use.total(tier)
        items = {
            name: {"mean_bytes": float(values.mean()), "max_bytes": float(values.max())}
            for name, values in self.items(tier).items()
        }
        return {
            "capacity_bytes": float(self.capacity_bytes[tier]),
            "max_bytes": float(total.max()),
            "max_rank": int(total.argmax()),
            "mean_bytes": float(total.mean()),
            "items": items,
        }

    def in_words(self) -> str:
        """A line per tier that the nodes have: the fullest rank, its items, its capacity."""
        return "\n".join(f"  {self._tier_in_words(tier)}" for tier in TIERS if self.capacity_bytes[tier] > 0)

    def fullest(self) -> str:
        """Bytes of the fullest rank in each tier that holds tables: ``hbm 76.9 GB of 80.0 GB``."""
        used = [tier for tier in TIERS if tier == "hbm" or np.any(self.items(tier).get("weights", 0.0))]
        return ", ".join(
            f"{tier} {in_bytes(self.use.total(tier).max())} of {in_bytes(self.capacity_bytes[tier])}" for tier in used
        )

    def _tier_in_words(self, tier: Tier) -> str:
        total = self.use.total(tier)
        rank = int(total.argmax())
        items = ", ".join(f"{name} {in_bytes(held[rank])}" for name, held in self.items(tier).items() if held[rank] > 0)
        over = f", {in_bytes(self.excess_bytes(tier))} too much" if self.excess_bytes(tier) > 0 else ""
        return (
            f"{tier}: rank {rank} needs {in_bytes(total[rank])} of {in_bytes(self.capacity_bytes[tier])} usable{over}"
            + (f" ({items})" if items else "")
        )


def in_bytes(value: float) -> str:
    """Bytes with their unit: ``76.9 GB``."""
    return format_quantity(float(value), "bytes")
