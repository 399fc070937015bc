"""``plan``: make or read the sharding plan of a scenario, and write it with what it does to every rank."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dlrmsim import __version__
from dlrmsim.output.environment import environment
from dlrmsim.output.folders import RECORD_FILE, TOOL, folder_written_whole, require_replaceable
from dlrmsim.output.results import write_json
from reports.plan_report import render_plan
from scenarios.plan_study import PlanStudy, study_plan
from scenarios.progress import Progress, Silent
from scenarios.resolve import ResolvedScenario, load_scenario
from workloads.dlrm.sharding import plan_to_dict

PLAN_FILE, STATISTICS_FILE, PAGE_FILE = "plan.json", "statistics.json", "plan.html"


@dataclass(frozen=True, slots=True)
class PlanRequest:
    """What is asked for.

    Attributes:
        scenario: name or path.
        settings: ``KEY=VALUE`` each.
        planner: takes the place of the scenario's planner or plan.
        compare: plan with all planners, too.
        out: folder to write; None: nothing is written.
    """

    scenario: str
    settings: Sequence[str] = ()
    planner: str | None = None
    compare: bool = False
    out: Path | None = None


def resolve_request(request: PlanRequest) -> ResolvedScenario:
    """The scenario with the planner that is asked for.

    Raises:
        InputError: the scenario or a setting is wrong.
    """
    chosen = [] if request.planner is None else [f"workload.sharding.planner={request.planner}"]
    return load_scenario(request.scenario, [*request.settings, *chosen])


def plan(request: PlanRequest, progress: Progress | None = None) -> PlanStudy:
    """Plan, simulate, and write the output folder if one is asked for, whole or not at all.

    Raises:
        InputError: the scenario, the planner's name or the plan is wrong, or the folder holds something else.
        InfeasibleError: the tables do not fit; with the numbers of each tier.
    """
    if request.out is not None:
        require_replaceable(request.out)
    study = study_plan(resolve_request(request), progress or Silent(), compare=request.compare)
    if request.out is not None:
        _write(study, request.out)
    return study


def as_json(study: PlanStudy) -> dict[str, Any]:
    """Statistics and plan."""
    return {**study.to_dict(), "plan": plan_to_dict(study.plan)}


def _write(study: PlanStudy, folder: Path) -> None:
    with folder_written_whole(folder) as partial:
        write_json(partial / PLAN_FILE, plan_to_dict(study.plan))
        write_json(partial / STATISTICS_FILE, study.to_dict())
        (partial / PAGE_FILE).write_text(render_plan(study, __version__), encoding="utf-8")
        files = sorted([RECORD_FILE, PLAN_FILE, STATISTICS_FILE, PAGE_FILE])
        record = {"tool": TOOL, "files": files, "scenario_hash": study.resolved.hash}
        write_json(partial / RECORD_FILE, record | environment())
