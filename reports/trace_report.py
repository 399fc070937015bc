"""The page of a trace or of its replay: sections of a simulated run, and sections on traces."""

from __future__ import annotations

from html import escape

from reports.findings import mean_shares
from reports.markup import Markup, PageSection, strong, terms, tile
from reports.numbers import percent, seconds
from reports.page import assemble
from reports.replay_words import change_in_words
from reports.run_report import SCRIPTS, STYLES
from reports.sections.breakdown import breakdown_section
from reports.sections.collectives import collectives_section
from reports.sections.critical_path import critical_path_section
from reports.sections.headline import longest_wait, where_it_goes
from reports.sections.replay import replay_section
from reports.sections.timeline import timeline_section
from reports.sections.trace import gaps_section, operators_section, steps_section, stragglers_section
from reports.trace_findings import TraceFindings


def render_trace(findings: TraceFindings) -> str:
    """The page of a trace or of its replay; the same findings give the same text.

    Raises:
        ValueError: a time is too long for a page (over 104 days).
    """
    replay = findings.replay
    sentences = [where_it_goes(findings.breakdown), longest_wait(findings.critical_path)]
    if replay is not None and replay.bound is not None:
        subject, _, rest = replay.bound.finding.partition(":")
        sentences.insert(0, Markup(f"{strong('{}', subject).html}:{escape(rest)}"))
    return assemble(
        "page.html",
        styles=STYLES,
        scripts=SCRIPTS,
        sections=_sections(findings),
        title=escape(_title(findings)),
        version=escape(findings.version),
        headline=_headline(findings).html,
        findings="".join(f'<p class="finding">{sentence.html}</p>' for sentence in sentences),
        tiles=_tiles(findings),
        facts=_facts(findings),
        footer=escape(_footer(findings)),
    )


def _title(findings: TraceFindings) -> str:
    return findings.name if findings.replay is None else f"{findings.name}, {findings.replay.title}"


def _footer(findings: TraceFindings) -> str:
    if findings.replay is None:
        return f"{_origin(findings).capitalize()}; imported by dlrmsim {findings.version} from {findings.format}."
    return f"Predicted by dlrmsim {findings.version} from traces ({findings.format}): {findings.replay.title}."


def _origin(findings: TraceFindings) -> str:
    """Whether times were measured; files of dlrmsim may contain a simulated run."""
    return "recorded" if findings.format.startswith("dlrmsim") else "measured"


def _sections(findings: TraceFindings) -> tuple[PageSection, ...]:
    return (
        *(() if findings.replay is None else (replay_section(findings.replay),)),
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
    replay, length = findings.replay, seconds(findings.iteration_time_s)
    if replay is None:
        return strong(f"{{}}: {{}} per step, {_origin(findings)}, {{}}.", findings.name, length, traced)
    where, _, measured_on = replay.title.partition("; ")
    now = f"{strong('{}: {} per step', findings.name, length).html} {escape(where)}"
    if replay.step.measured_s is None:
        return Markup(f"{now}, {escape(traced)}.")
    was, change = seconds(replay.step.measured_s), change_in_words(replay.step.change)
    return Markup(f"{now}; {strong('{}', was).html} {escape(f'{measured_on} ({change}), {traced}.')}")


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
    replay = findings.replay
    gpu = [("GPU", findings.device or "not said")]
    if replay is not None:
        gpu = [("Replayed on", replay.replayed_on or "the same machine"), ("Measured on", replay.measured_on)]
    return terms([("Format", findings.format), *gpu, ("Read", counts)])
