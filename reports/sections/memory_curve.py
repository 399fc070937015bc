"""Section of the memory of a rank over the tasks of a step."""

from __future__ import annotations

from typing import Any

from inputs.quantities import format_quantity
from reports.markup import Markup, PageSection, strong
from reports.numbers import percent
from scenarios.memory_curve import MemoryCurve

MOST_LETTERS = 36
"""Letters of a module's path that the chart shows; the end of a longer path."""


def memory_curve_section(curve: MemoryCurve) -> PageSection:
    """An area for each category of tensors, the peak with its module, and the capacity."""
    return PageSection(
        anchor="memory-curve",
        title="Memory over the step",
        short="Memory over the step",
        lede=_lede(curve),
        body='<div class="card"><div class="plot" id="memory-curve-chart"></div></div>',
        payload={"memoryCurve": _payload(curve)},
    )


def _lede(curve: MemoryCurve) -> Markup:
    """The peak in words."""
    peak, capacity = curve.totals[curve.peak], curve.capacity_bytes
    alike = f" (and {curve.ranks - 1:,} others alike)" if curve.ranks > 1 else ""
    return strong(
        "Tensors of the fullest rank by category, over the tasks of a step in the order in which the host issues them: "
        f"rank {curve.rank}{alike} peaks at {{}}, {{}} of its usable memory, {{}}.",
        format_quantity(peak, "bytes"),
        percent(peak / capacity) if capacity else "all",
        f"in {curve.module}" if curve.module else "outside all modules",
    )


def _payload(curve: MemoryCurve) -> dict[str, Any]:
    used = {name: values for name, values in curve.bytes.items() if any(values)}
    return {
        "tasks": list(curve.tasks),
        "names": list(curve.names),
        "items": [{"name": name, "bytes": list(values)} for name, values in used.items()],
        "totals": curve.totals,
        "peak": curve.peak,
        "module": _short(curve.module),
        "capacity_bytes": curve.capacity_bytes,
    }


def _short(module: str) -> str:
    return module if len(module) <= MOST_LETTERS else f"…{module[1 - MOST_LETTERS :]}"
