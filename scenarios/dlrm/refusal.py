"""The message for a job that does not fit: the numbers of each memory tier, and remedies that were tried."""

from __future__ import annotations

import math

from inputs.errors import InfeasibleError
from scenarios.capacity import MemoryReport, capacities_bytes, in_bytes
from scenarios.dlrm.remedies import Attempt, Remedies, Remedy
from scenarios.dlrm.typed import DlrmResolved
from workloads.dlrm.model.tables import Tables
from workloads.dlrm.sharding.interfaces import PlanningContext
from workloads.graph.memory import TIERS


def infeasible(
    resolved: DlrmResolved,
    why: str,
    *,
    tables: Tables,
    context: PlanningContext,
    report: MemoryReport | None = None,
    attempt: Attempt | None = None,
) -> InfeasibleError:
    """The error for a job that does not fit: the numbers of each tier, and remedies.

    Args:
        why: reason of the failure.
        tables: all tables, not shrunk.
        context: the planner's inputs.
        report: memory of the plan, when there is one.
        attempt: plans a changed scenario; None: nothing is tried.
    """
    tiers = report.in_words() if report else _tiers(resolved, tables, context)
    advice = [] if attempt is None else _advice(resolved, tables, context, report, attempt)
    words = (f"  would fit: {remedy.in_words()}" for remedy in advice)
    lines = [f"{resolved.name} does not fit: {why}", tiers, *words]
    return InfeasibleError("\n".join(lines), remedies=[remedy.settings for remedy in advice])


def _tiers(resolved: DlrmResolved, tables: Tables, context: PlanningContext) -> str:
    """A line per tier when no plan exists."""
    capacity = capacities_bytes(resolved.cluster, resolved.world_size)
    beside = capacity["hbm"] - context.memory_bytes
    needed = context.least_bytes(tables) / context.world_size
    needs = f"everything but tables needs {in_bytes(beside)}, all tables {in_bytes(needed)} on the average rank"
    lines = [f"  hbm: a rank has {in_bytes(capacity['hbm'])} usable; {needs}"]
    lines += [f"  {tier}: a rank's share is {in_bytes(capacity[tier])}" for tier in TIERS[1:] if capacity[tier] > 0]
    return "\n".join(lines)


def _advice(
    resolved: DlrmResolved, tables: Tables, context: PlanningContext, report: MemoryReport | None, attempt: Attempt
) -> list[Remedy]:
    """Remedies that were tried."""
    if context.memory_bytes <= 0:
        return Remedies(resolved, attempt, resolved.world_size, len(tables)).beside_tables()
    spread = context.choice is None  # else tables may leave device memory
    least = math.ceil(context.least_bytes(tables) / context.memory_bytes) if spread else 1
    return Remedies(resolved, attempt, least, len(tables)).all(report)
