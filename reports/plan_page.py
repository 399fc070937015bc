"""The page of any plan: its job, headline, findings and tiles around sections that the kind of plan has."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import Any

from reports.markup import Content, Markup, PageSection, terms, text, tile
from reports.numbers import seconds
from reports.page import assemble
from scenarios.resolved import ResolvedScenario


def page_of_plan(
    resolved: ResolvedScenario[Any, Any],
    version: str,
    *,
    title: str,
    headline: Markup,
    findings: Sequence[Content],
    tiles: Sequence[str],
    facts: Sequence[tuple[str, str]],
    script: str,
    sections: Sequence[PageSection],
) -> str:
    """The page, self-contained and offline.

    Args:
        version: version of this tool.
        title: kind of plan, behind the scenario's name.
        facts: names and values beside the facts of the job.
        script: asset that draws the charts.
    """
    return assemble(
        "page.html",
        styles=("page.css",),
        scripts=("payload.js", "format.js", "theme.js", "charts.js", "tables.js", script),
        sections=sections,
        title=escape(f"{resolved.name}, {title}"),
        version=escape(version),
        headline=headline.html,
        findings="".join(f'<p class="finding">{text(finding)}</p>' for finding in findings),
        tiles="".join(tiles),
        facts=terms([("Model", resolved.model.name), ("Cluster", resolved.cluster.name), *facts]),
        footer=f"Planned by dlrmsim {escape(version)}.",
    )


def gpus(resolved: ResolvedScenario[Any, Any]) -> tuple[str, str]:
    """The fact on the number of GPUs."""
    return "GPUs", f"{resolved.world_size:,}, {resolved.cluster.node.ranks} per node"


def quantity_tile(label: str, quantity: str, note: str) -> str:
    """The tile of a quantity, such as ``53.9 ms``."""
    value, _, unit = quantity.partition(" ")
    return tile(label, value, unit, note)


def iteration_tile(time_s: float | None, note: str) -> str:
    """The tile of the iteration time."""
    return quantity_tile("Iteration", seconds(time_s or 0.0), note)


def chart_card(anchor: str) -> str:
    """The card of a chart."""
    return f'<div class="card"><div class="plot" id="{anchor}-chart"></div></div>'


def sentence(words: str) -> str:
    """Words as a sentence: a capital first, and a full stop."""
    return f"{words[0].upper()}{words[1:]}."
