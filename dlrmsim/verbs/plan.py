"""``plan``: make or read the sharding plan of a scenario, and write it with statistics of every rank and table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from dlrmsim import __version__
from dlrmsim.output.folders import RUNS_FOLDER, folder_written_whole, replaceable
from dlrmsim.output.json_file import write_json
from dlrmsim.output.kept import kept_results
from dlrmsim.output.record import write_record
from dlrmsim.verbs.what import Job, Name, scenario_of
from reports.plan_report import render_plan
from scenarios.plan_study import PlanStudy, study_plan
from scenarios.progress import Progress
from workloads.dlrm.sharding import plan_to_dict

PLAN_FILE, STATISTICS_FILE, PAGE_FILE = "plan.json", "statistics.json", "plan.html"


@dataclass(frozen=True, slots=True)
class PlanResult:
    """A plan.

    Attributes:
        folder: output folder; None: nothing is written.
        study: the plan, statistics of every rank and table, and other planners.
        taken_over: number of planners whose result an interrupted run had found.
    """

    folder: Path | None
    study: PlanStudy
    taken_over: int = 0

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
    fresh: bool = False,
    progress: Progress | None = None,
) -> PlanResult:
    """Plan, simulate, and write the output folder if one is asked for, whole or not at all.

    Results of planners that are compared are kept until then (`dlrmsim.output.kept`): an interrupted comparison goes on
    with them.

    Args:
        planner: takes the place of the scenario's planner or plan.
        compare: whether to plan with all planners and take the fastest plan.
        settings: ``KEY=VALUE`` each.
        out: folder for ``plan.json``, ``statistics.json`` and ``plan.html``; None: nothing is written.
        fresh: whether to run planners again whose result an interrupted run had found.

    Raises:
        InputError: the scenario, the planner's name or the plan is wrong, or the folder holds something else.
        InfeasibleError: the tables do not fit; with the numbers of each tier.
    """
    folder = None if out is None else replaceable(out)
    chosen = [] if planner is None else [f"workload.sharding.planner={planner}"]
    resolved = scenario_of(what, [*settings, *chosen])
    output = RUNS_FOLDER / f"plan-{resolved.name}-{resolved.hash[:8]}" if folder is None else folder
    with kept_results(output, fresh=fresh) as kept:
        study = study_plan(resolved, kept.shown(progress), compare=compare, keep=kept)
        if folder is not None:
            with folder_written_whole(folder) as partial:
                write_json(partial / PLAN_FILE, plan_to_dict(study.plan))
                write_json(partial / STATISTICS_FILE, study.to_dict())
                (partial / PAGE_FILE).write_text(render_plan(study, __version__), encoding="utf-8")
                write_record(partial, {"scenario_hash": study.resolved.hash, "taken_over": kept.taken_over})
    return PlanResult(folder, study, kept.taken_over)
