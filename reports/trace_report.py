"""The page of a measured trace: the sections of a simulated run, and those of a trace only."""

from __future__ import annotations

from html import escape

from reports.findings import mean_shares
from reports.markup import Markup, Section, strong, terms, tile
from reports.numbers import percent, seconds
from reports.page import assemble
from reports.run_report import SCRIPTS, STYLES
from reports.sections.breakdown import breakdown_section
from reports.sections.collectives import collectives_section
from reports.sections.critical_path import critical_path_section
from reports.sections.headline import longest_wait, where_it_goes
from reports.sections.timeline import timeline_section
from reports.sections.trace import gaps_section, operators_section, steps_section, stragglers_section
from reports.trace_findings import TraceFindings


def render_trace(findings: TraceFindings) -> str:
    """The page of a measured trace; the same findings give the same text.

    Raises:
        ValueError: a time is too long for a page (over 104 days).
    """
    sentences = (where_it_goes(findings.breakdown), longest_wait(findings.critical_path))
    return assemble(
        "page.html",
        styles=STYLES,
        scripts=SCRIPTS,
        sections=_sections(findings),
        title=escape(findings.name),
        version=escape(findings.version),
        headline=_headline(findings).html,
        findings="".join(f'<p class="finding">{sentence.html}</p>' for sentence in sentences),
        tiles=_tiles(findings),
        facts=_facts(findings),
        footer=f"Measured; imported by dlrmsim {escape(findings.version)} from {escape(findings.format)}.",
    )


def _sections(findings: TraceFindings) -> tuple[Section, ...]:
    return (
        timeline_section(findings),
        breakdown_section(findings),
        steps_section(findings),
        stragglers_section(findings),
        critical_path_section(findings),
        collectives_section(findings),
        operators_section(findings),
        gaps_section(findings),
    )


def _headline(findings: TraceFindings) -> Markup:
    ranks = len(findings.result.ranks)
    traced = f"{ranks:,} of {findings.world_size:,} ranks traced" if ranks < findings.world_size else f"{ranks:,} ranks"
    return strong("{}: {} per step, measured, {}.", findings.name, seconds(findings.iteration_time_s), traced)


def _tiles(findings: TraceFindings) -> str:
    shares = mean_shares(findings.breakdown)
    value, unit = seconds(findings.iteration_time_s).split(" ")
    notes = {"compute": "Computation", "exposed_comm": "Exposed communication", "idle": "Idle"}
    means = "of the traced time, mean over ranks"
    others = (tile(title, f"{100 * shares[part]:.3g}", "%", means) for part, title in notes.items())
    return tile("Step", value, unit, "mean over steps and ranks") + "".join(others) + _idle_tile(findings)


def _idle_tile(findings: TraceFindings) -> str:
    """The largest cause of idling."""
    sums = {
        "host": sum(row.idle_host_s for row in findings.steps),
        "kernel wait": sum(row.idle_kernel_wait_s for row in findings.steps),
        "other streams": sum(row.idle_dependency_s for row in findings.steps),
    }
    whole = sum(sums.values())
    if not whole:
        return ""
    cause = max(sums, key=lambda name: sums[name])
    return tile("Idle for", cause, "", f"{percent(sums[cause] / whole)} of the idle time of all steps")


def _facts(findings: TraceFindings) -> str:
    counts = ", ".join(f"{count:,} {what}" for what, count in findings.found.items())
    return terms([("Format", findings.format), ("GPU", findings.device or "not said"), ("Read", counts)])
