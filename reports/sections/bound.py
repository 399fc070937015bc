"""Sections of the bound: gains of re-runs with each class 10 % better, and of settings that were tried."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any

from reports.findings import RunFindings
from reports.markup import PageSection, TableRow, number, options_marked, table
from reports.numbers import memory_named, percent, seconds
from scenarios.levers import Lever, Levers
from simulator.analysis.bound import JOINT_CLASSES, SINGLE_CLASSES, Gain

KINDS = {"free": "free", "numerics": "changes numerics", "hardware": "hardware"}
BASES = {
    "run": "a run with it",
    "plan kept": "with the plan of this run",
    "at most": "at most",
    "even loads": "if all ranks had equal loads",
}
"""Kinds and bases of levers in words."""


_OF_GPUS = ("NVLink", "PCIe/DDR")
"""Resources between GPUs and their hosts, which most ranks without a GPU lack."""


def bound_section(findings: RunFindings) -> PageSection:
    """The gains of joint and of single classes as bars, best first."""
    bound, joint = findings.bound, {name: of.improvement for name, of in JOINT_CLASSES.items()}
    rank_name = findings.job.rank_name
    finding = memory_named(bound.finding, rank_name)
    gains = [
        gain for gain in bound.gains if rank_name == "GPUs" or gain.resource_class not in _OF_GPUS or gain.gain > 0
    ]
    return PageSection(
        anchor="bound",
        title="What bounds it",
        short="Bound",
        lede=f"The run repeated with one class 10 % better at a time, all else equal. {finding}",
        body=_card("joint-chart", "By part of an iteration") + _card("gains-chart", "By resource"),
        payload={
            "joint": _named(_bars(bound.joint, joint, [bound.bounding]), rank_name),
            "bound": _named(_bars(gains, SINGLE_CLASSES, bound.spread or [bound.bounding]), rank_name),
        },
    )


def _named(bars: list[dict[str, Any]], rank_name: str) -> list[dict[str, Any]]:
    """The bars with the memory of ranks by its name."""
    return [bar | {key: memory_named(bar[key], rank_name) for key in ("name", "words")} for bar in bars]


def levers_section(levers: Levers) -> PageSection:
    """The settings that were tried, as bars and with their iteration times."""
    notes = [*(f"{note}." for note in levers.notes), *_infeasible(levers)]
    saving = [_lever_bar(lever) for lever in levers.tried if lever.gain > 0]
    return PageSection(
        anchor="levers",
        title="What a setting saves",
        short="Settings",
        lede=options_marked(f"The run repeated with one key of the scenario changed at a time. {levers.advice}"),
        body=(_card("levers-chart", "") if saving else "")
        + _table(levers.tried)
        + "".join(f"<p>{options_marked(note).html}</p>" for note in notes),
        payload={"levers": saving},
    )


def _infeasible(levers: Levers) -> list[str]:
    if not levers.infeasible:
        return []
    return [f"Does not fit into memory: {', '.join(f'--set {setting}' for setting in levers.infeasible)}."]


def _card(anchor: str, title: str) -> str:
    heading = f"<h3>{escape(title)}</h3>" if title else ""
    return f'<div class="card">{heading}<div class="plot" id="{anchor}"></div></div>'


def _bars(gains: Iterable[Gain], words: Mapping[str, str], strong: Sequence[Gain | None]) -> list[dict[str, Any]]:
    """Bars of gains; names in ``strong`` have another colour."""
    return [
        {
            "name": gain.resource_class,
            "gain": gain.gain,
            "iteration_ns": gain.iteration_time_s * 1e9,
            "words": words[gain.resource_class],
            "strong": gain in strong,
        }
        for gain in gains
    ]


def _lever_bar(lever: Lever) -> dict[str, Any]:
    return {
        "name": lever.setting,
        "gain": lever.gain,
        "iteration_ns": lever.iteration_time_s * 1e9,
        "words": f"{KINDS[lever.kind]}; {BASES[lever.basis]}",
        "strong": lever.kind == "free",
    }


def _table(levers: Iterable[Lever]) -> str:
    rows = (
        TableRow(
            (
                f"--set {lever.setting}",
                KINDS[lever.kind],
                number(seconds(lever.iteration_time_s), lever.iteration_time_s),
                number(percent(lever.gain), lever.gain),
                BASES[lever.basis],
            )
        )
        for lever in levers
    )
    return table(("setting", "kind", "iteration", "saved", "compared"), rows, numbers=(2, 3))
