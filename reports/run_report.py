"""The page of one run: a self-contained HTML file that opens offline."""

from __future__ import annotations

from html import escape

from reports.findings import RunFindings
from reports.markup import PageSection
from reports.page import assemble
from reports.sections.blocks import blocks_section
from reports.sections.bound import bound_section, levers_section
from reports.sections.breakdown import breakdown_section
from reports.sections.collectives import collectives_section
from reports.sections.critical_path import critical_path_section
from reports.sections.headline import facts, headline, sentences, tiles
from reports.sections.memory import memory_section
from reports.sections.memory_curve import memory_curve_section
from reports.sections.provenance import provenance_section, scenario_section, warnings_section
from reports.sections.sequences import sequences_section
from reports.sections.serving import serving_section
from reports.sections.timeline import timeline_section
from reports.sections.uncertainty import uncertainty_section

STYLES = ("page.css", "timeline.css")
SCRIPTS = (
    "payload.js", "format.js", "theme.js", "charts.js", "tables.js", "timeline_model.js", "timeline_view.js",
    "timeline.js", "serving.js", "memory_curve.js", "sequences.js", "run.js",
)  # fmt: skip


def render_run(findings: RunFindings) -> str:
    """The page of a run.

    Holds the tasks of the chosen ranks and of a sample of the others, and the breakdown of all ranks; the same
    findings give the same text.

    Raises:
        ValueError: a time is too long for a page (over 104 days).
    """
    job = findings.job
    return assemble(
        "page.html",
        styles=STYLES,
        scripts=SCRIPTS,
        sections=run_sections(findings),
        title=escape(job.name),
        version=escape(job.version),
        headline=headline(findings).html,
        findings="".join(f'<p class="finding">{sentence.html}</p>' for sentence in sentences(findings)),
        tiles=tiles(findings),
        facts=facts(findings),
        footer=_footer(findings),
    )


def run_sections(findings: RunFindings) -> tuple[PageSection, ...]:
    """The sections, in order."""
    return (
        *([] if findings.serving is None else [serving_section(findings.serving)]),
        timeline_section(findings),
        breakdown_section(findings),
        *(() if findings.sequences is None else (sequences_section(findings.sequences),)),
        *([blocks_section(findings.blocks)] if findings.blocks else ()),
        bound_section(findings),
        *_interval(findings),
        *(() if findings.levers is None else (levers_section(findings.levers),)),
        critical_path_section(findings),
        collectives_section(findings),
        *(() if findings.memory_curve is None else (memory_curve_section(findings.memory_curve),)),
        memory_section(findings),
        warnings_section(findings.warnings),
        provenance_section(findings),
        scenario_section(findings),
    )


def _interval(findings: RunFindings) -> tuple[PageSection, ...]:
    found = findings.interval
    if found is None:
        return ()
    return (uncertainty_section(findings.iteration.seconds, found.p10_s, found.p90_s, found.to_dict()),)


def _footer(findings: RunFindings) -> str:
    job = findings.job
    return (
        f"Simulated by dlrmsim {escape(job.version)}. Scenario {escape(job.name)}, sha256 {escape(job.scenario_hash)}."
    )
