"""Memory per tier and item against the capacity of a rank."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from inputs.quantities import format_quantity
from reports.findings import MemoryTier, RunFindings
from reports.markup import PageSection, TableRow, number, table
from reports.numbers import percent, singular

Bytes: TypeAlias = NDArray[np.float64]

_TIERS = {"hbm": "GPU memory (HBM)", "ddr": "Host memory (DDR), share of a rank", "ssd": "SSDs, share of a rank"}
_NONE = '<p class="none">No estimate.</p>'


def memory_section(findings: RunFindings) -> PageSection:
    """A bar of the fullest and of the mean rank, and a table of the items, for each tier that holds anything."""
    tiers = [tier for tier in findings.memory if tier.name == "hbm" or tier.used_bytes.any()]
    return PageSection(
        anchor="memory",
        title="Memory",
        short="Memory",
        lede="Memory use of each rank against its usable capacity.",
        body="".join(_tier(index, tier, findings.job.rank_name) for index, tier in enumerate(tiers)) or _NONE,
        payload={"memory": [_payload(tier) for tier in tiers]},
    )


def _tier(index: int, tier: MemoryTier, rank_name: str) -> str:
    head = ("item", "mean", "largest", "on rank", "of the fullest rank")
    items = {**tier.items, "in all": tier.used_bytes}
    rows = [_row(name, values, tier.used_bytes) for name, values in items.items()]
    title = _title(tier.name, rank_name)
    return (
        f'<div class="card"><h3>{title}</h3><div class="plot" id="memory-{index}"></div></div>'
        f"<h3>{title}, item by item</h3>{table(head, rows, numbers=range(1, 5))}"
    )


def _title(tier: str, rank_name: str) -> str:
    """Heading of a tier; the first is a GPU's own memory, or the part of a host's that tensors of a rank may take."""
    if tier == "hbm" and rank_name != "GPUs":
        return f"Memory of a {singular(rank_name)}"
    return _TIERS.get(tier, tier)


def _row(name: str, values: Bytes, used_bytes: Bytes) -> TableRow:
    """The row of an item; both arrays ``[W]``."""
    largest, fullest = int(values.argmax()), int(used_bytes.argmax())
    share = float(values[fullest]) / max(float(used_bytes[fullest]), 1.0)
    alike = values.min() == values.max()
    return TableRow(
        (
            name,
            number(_size(values.mean()), float(values.mean())),
            number(_size(values[largest]), float(values[largest])),
            number("any" if alike else str(largest), largest),
            number(percent(share), share, share=100 * share),
        ),
        style="total" if name == "in all" else "",
    )


def _size(value: float) -> str:
    return format_quantity(float(value), "bytes")


def _payload(tier: MemoryTier) -> dict[str, Any]:
    used = tier.used_bytes
    fullest = int(used.argmax())
    return {
        "capacity_bytes": tier.capacity_bytes,
        "rows": [f"fullest: rank {fullest}", "mean of all ranks"],
        "totals": [float(used[fullest]), float(used.mean())],
        "items": [{"name": n, "bytes": [float(v[fullest]), float(v.mean())]} for n, v in tier.items.items()],
    }
