"""``plan``: make or read the sharding plan of a scenario, and write it with statistics of every rank and table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from dlrmsim import __version__
from dlrmsim.output.folders import folder_written_whole, replaceable
from dlrmsim.output.json_file import write_json
from dlrmsim.output.record import write_record
from dlrmsim.verbs.what import Job, Name, scenario_of
from reports.plan_report import render_plan
from scenarios.plan_study import PlanStudy, study_plan
from scenarios.progress import Progress, Silent
from workloads.dlrm.sharding import plan_to_dict

PLAN_FILE, STATISTICS_FILE, PAGE_FILE = "plan.json", "statistics.json", "plan.html"


@dataclass(frozen=True, slots=True)
class PlanResult:
    """A plan.

    Attributes:
        folder: output folder; None: nothing is written.
        study: the plan, statistics of every rank and table, and other planners.
    """

    folder: Path | None
    study: PlanStudy

    def to_dict(self) -> Mapping[str, object]:
        """Statistics and plan, as ``plan --json`` prints them."""
        return {**self.study.to_dict(), "plan": plan_to_dict(self.study.plan)}


def plan(
    what: Job,
    *,
    planner: str | None = None,
    compare: bool = False,
    settings: Sequence[str] = (),
    out: Name | None = None,
    progress: Progress | None = None,
) -> PlanResult:
    """Plan, simulate, and write the output folder if one is asked for, whole or not at all.

    Args:
        planner: takes the place of the scenario's planner or plan.
        compare: whether to plan with all planners and take the fastest plan.
        settings: ``KEY=VALUE`` each.
        out: folder for ``plan.json``, ``statistics.json`` and ``plan.html``; None: nothing is written.

    Raises:
        InputError: the scenario, the planner's name or the plan is wrong, or the folder holds something else.
        InfeasibleError: the tables do not fit; with the numbers of each tier.
    """
    folder = None if out is None else replaceable(out)
    chosen = [] if planner is None else [f"workload.sharding.planner={planner}"]
    study = study_plan(scenario_of(what, [*settings, *chosen]), progress or Silent(), compare=compare)
    if folder is not None:
        with folder_written_whole(folder) as partial:
            write_json(partial / PLAN_FILE, plan_to_dict(study.plan))
            write_json(partial / STATISTICS_FILE, study.to_dict())
            (partial / PAGE_FILE).write_text(render_plan(study, __version__), encoding="utf-8")
            write_record(partial, {"scenario_hash": study.resolved.hash})
    return PlanResult(folder, study)
