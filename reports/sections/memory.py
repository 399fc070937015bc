"""Memory per tier and item against what a rank may use."""

from __future__ import annotations

from typing import Any

import numpy as np

from inputs.quantities import format_quantity
from reports.findings import MemoryTier, RunFindings
from reports.markup import Row, Section, number, table
from reports.numbers import percent

_TIERS = {"hbm": "GPU memory (HBM)", "ddr": "Host memory (DDR), share of a rank"}


def memory_section(findings: RunFindings) -> Section:
    """Per tier: a bar of the fullest and of the mean rank, and a table of the items."""
    ranks = findings.breakdown.ranks
    tiers = findings.memory
    return Section(
        anchor="memory",
        title="Memory",
        short="Memory",
        lede="What each rank holds, against the capacity it may use.",
        body="".join(_tier(index, tier, ranks) for index, tier in enumerate(tiers))
        or '<p class="none">No estimate.</p>',
        payload={"memory": [_payload(tier, ranks) for tier in tiers]},
    )


def _tier(index: int, tier: MemoryTier, ranks: Any) -> str:
    head = ("item", "mean", "largest", "on rank", "of the fullest rank")
    used = tier.used_bytes
    fullest = int(used.argmax())
    items = {**tier.items, "in all": used}
    rows = [_row(name, np.asarray(values), fullest, float(used[fullest]), ranks) for name, values in items.items()]
    title = _TIERS.get(tier.name, tier.name)
    return (
        f'<div class="card"><h3>{title}</h3><div class="plot" id="memory-{index}"></div></div>'
        f"<h3>{title}, item by item</h3>{table(head, rows, numbers=range(1, 5))}"
    )


def _row(name: str, values: Any, fullest: int, used_bytes: float, ranks: Any) -> Row:
    largest = int(values.argmax())
    share = float(values[fullest]) / max(used_bytes, 1.0)
    return Row(
        (
            name,
            number(_size(values.mean()), float(values.mean())),
            number(_size(values[largest]), float(values[largest])),
            number(str(ranks[largest]), int(ranks[largest])),
            number(percent(share), share, share=100 * share),
        ),
        style="total" if name == "in all" else "",
    )


def _size(value: float) -> str:
    return format_quantity(float(value), "bytes")


def _payload(tier: MemoryTier, ranks: Any) -> dict[str, Any]:
    used = tier.used_bytes
    fullest = int(used.argmax())
    return {
        "capacity_bytes": tier.capacity_bytes,
        "rows": [f"fullest: rank {ranks[fullest]}", "mean of all ranks"],
        "totals": [float(used[fullest]), float(used.mean())],
        "items": [
            {"name": name, "bytes": [float(np.asarray(v)[fullest]), float(np.mean(v))]}
            for name, v in tier.items.items()
        ],
    }
