"""Section of the bound: gains of re-runs with each resource class 10 % better."""

from __future__ import annotations

from reports.findings import RunFindings
from reports.markup import Section
from simulator.analysis.bound import IN_WORDS


def bound_section(findings: RunFindings) -> Section:
    """The gains as bars, best first."""
    gains = [
        {
            "name": gain.resource_class,
            "gain": gain.gain,
            "iteration_ns": gain.iteration_time_s * 1e9,
            "words": IN_WORDS[gain.resource_class][1],
        }
        for gain in findings.bound.gains
    ]
    return Section(
        anchor="bound",
        title="What bounds it",
        short="Bound",
        lede="The run repeated with one resource class 10 % better at a time, all else equal. "
        + findings.bound.finding,
        body='<div class="card"><div class="plot" id="gains-chart"></div></div>',
        payload={"bound": gains},
    )
