"""Memory use of each rank against its capacity, per memory tier, and remedies."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from hardware_specs import Cluster
from inputs.errors import InfeasibleError
from inputs.quantities import format_quantity
from scenarios.remedies import Fits, remedies
from scenarios.resolve import ResolvedScenario
from simulator.operators import FloatArray
from workloads.dlrm.model.tables import Tables
from workloads.dlrm.sharding.interfaces import PlanningContext
from workloads.graph.memory import TIERS, MemoryUse, Tier

COPIES = "data_parallel"
"""The planner that copies tables instead of spreading them."""


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

    def _tier_in_words(self, tier: Tier) -> str:
        total = self.use.total(tier)
        rank = int(total.argmax())
        items = ", ".join(f"{name} {_bytes(held[rank])}" for name, held in self.items(tier).items() if held[rank] > 0)
        over = f", {_bytes(self.excess_bytes(tier))} too much" if self.excess_bytes(tier) > 0 else ""
        return (
            f"{tier}: rank {rank} needs {_bytes(total[rank])} of {_bytes(self.capacity_bytes[tier])} usable{over}"
            + (f" ({items})" if items else "")
        )


def infeasible(
    resolved: ResolvedScenario,
    why: str,
    *,
    tables: Tables,
    context: PlanningContext,
    report: MemoryReport | None = None,
    fits: Fits | None = None,
) -> InfeasibleError:
    """The error for a job that does not fit: the numbers of each tier, and remedies.

    Args:
        why: reason of the failure.
        tables: all tables, not shrunk.
        context: the planner's inputs.
        report: memory of the plan, when there is one.
        fits: tries a changed scenario; None: nothing is tried.
    """
    tiers = report.in_words() if report else _tiers(resolved, tables, context)
    advice = [] if fits is None else _advice(resolved, tables, context, fits)
    lines = [f"{resolved.name} does not fit: {why}", tiers, *(f"  would fit: {what}" for what in advice)]
    return InfeasibleError("\n".join(lines))


def _tiers(resolved: ResolvedScenario, tables: Tables, context: PlanningContext) -> str:
    """A line per tier when no plan exists."""
    capacity = capacities_bytes(resolved.cluster, resolved.world_size)
    beside = capacity["hbm"] - context.memory_bytes
    needed = _stored_bytes(tables, context) / context.world_size
    usable, needs = _bytes(capacity["hbm"]), f"all tables there need {_bytes(needed)} on the average rank"
    lines = [f"  hbm: a rank has {usable} usable, {_bytes(beside)} of it for everything but tables; {needs}"]
    lines += [f"  {tier}: a rank's share is {_bytes(capacity[tier])}" for tier in TIERS[1:] if capacity[tier] > 0]
    return "\n".join(lines)


def _advice(resolved: ResolvedScenario, tables: Tables, context: PlanningContext, fits: Fits) -> list[str]:
    """Remedies that make the tables fit: settings that were tried, and fewer rows."""
    if context.memory_bytes <= 0:
        return ["a smaller batch: memory beside tables fills a rank already"]
    if resolved.scenario.workload.sharding.planner == COPIES:
        share = context.memory_bytes / max(float(context.copied_bytes(tables).sum()), 1.0)
    else:
        share = context.memory_bytes * context.world_size / max(_stored_bytes(tables, context), 1.0)
    everywhere = context.choice is None and resolved.scenario.workload.sharding.planner != COPIES
    least_nodes = math.ceil(resolved.nodes / share) if everywhere else 1
    return [*remedies(resolved, fits, least_nodes), _fewer_rows(share)]


def _fewer_rows(share: float) -> str:
    return f"--set workload.rows_scaling=fit (at most {100 * min(share, 1.0):.1f} % of the rows)"


def _stored_bytes(tables: Tables, context: PlanningContext) -> float:
    """Weights and optimizer state of all tables in device memory, once."""
    in_hbm = replace(context, storage=None)
    return float(in_hbm.stored_bytes(tables.rows, tables.dim, tables.element_bytes).sum())


def _bytes(value: float) -> str:
    return format_quantity(float(value), "bytes")
