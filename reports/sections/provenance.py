"""Origin of every number, warnings, and the scenario itself."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from html import escape

from reports.findings import Origin, RunFindings
from reports.markup import Cell, Markup, PageSection, TableRow, table

GRADES = {
    "read": "read in the source named",
    "secondary": "from a source that cites another",
    "memory": "recalled, not checked",
    "derived": "computed from read values",
    "given": "written by the user, without a source",
    "assumed": "a choice without a source",
}
"""Grades in order of trust, with their meaning."""


def warnings_section(warnings: Sequence[str]) -> PageSection:
    """List of warnings."""
    items = "".join(f"<li>{escape(warning)}</li>" for warning in warnings)
    body = f'<ul class="warnings">{items}</ul>' if items else '<p class="none">None.</p>'
    lede = "Limits of the trust in these results."
    return PageSection("warnings", "Warnings", "Warnings", lede, body)


def provenance_section(findings: RunFindings) -> PageSection:
    """A filterable table of every quantity with its grade and source."""
    origins = findings.origins
    counts = Counter(origin.grade for origin in origins)
    summary = ", ".join(f"{counts[g]} {g} ({GRADES[g]})" for g in GRADES if counts[g])
    filter_box = (
        '<div class="controls"><label>Filter <input type="search" data-filters="provenance-table" '
        'placeholder="assumed, NIC, all_to_all…"></label></div>'
    )
    head = ("of", "quantity", "value", "grade", "source")
    rows = table(head, (_row(origin) for origin in origins), numbers=(2,), anchor="provenance-table")
    lede = (
        f"Every quantity of the model and constant of the machine this run used: {summary}."
        if summary
        else "Nothing recorded."
    )
    return PageSection("provenance", "Where the numbers come from", "Provenance", lede, filter_box + rows)


def _row(origin: Origin) -> TableRow:
    note = f'<br><span class="none">{escape(origin.note)}</span>' if origin.note else ""
    grade = Markup(f'<span class="grade {escape(origin.grade)}">{escape(origin.grade)}</span>')
    order = list(GRADES).index(origin.grade) if origin.grade in GRADES else len(GRADES)
    return TableRow(
        (
            origin.group,
            Cell(origin.quantity, style="name"),
            Cell(origin.value, style="value"),
            Cell(grade, order),
            Cell(Markup(escape(origin.source) + note), style="wide"),
        )
    )


def scenario_section(findings: RunFindings) -> PageSection:
    """The resolved scenario, folded."""
    lines = findings.job.scenario_yaml.count("\n")
    body = (
        f"<details><summary>Show the resolved scenario ({lines:,} lines of YAML)</summary>"
        f'<pre class="source">{escape(findings.job.scenario_yaml)}</pre></details>'
    )
    lede = "Defaults filled, cluster, model and plan written out: this file alone reproduces the run."
    return PageSection("scenario", "Scenario", "Scenario", lede, body)
