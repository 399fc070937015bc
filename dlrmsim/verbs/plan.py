"""``plan``: find the placement of a scenario's job on its ranks, and write it with its statistics."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from dlrmsim import __version__
from dlrmsim.output.folders import RUNS_FOLDER, folder_written_whole, replaceable
from dlrmsim.output.json_file import write_json
from dlrmsim.output.kept import kept_results
from dlrmsim.output.record import write_record
from dlrmsim.verbs.what import Job, Name, scenario_of
from reports.plans import plan_page
from scenarios.family import FAMILIES, KIND_KEY, Planning, PlanStudy, StrategyPlanning, family_of
from scenarios.progress import Progress
from scenarios.resolved import ResolvedScenario
from scenarios.strategies import require_search

PLAN_FILE, STATISTICS_FILE, PAGE_FILE = "plan.json", "statistics.json", "plan.html"


@dataclass(frozen=True, slots=True)
class PlanResult:
    """A plan.

    Attributes:
        folder: output folder; None: nothing is written.
        study: the plan, its statistics, and others that it was compared with.
        taken_over: number of planners whose result an interrupted run had found.
    """

    folder: Path | None
    study: PlanStudy
    taken_over: int = 0

    def to_dict(self) -> Mapping[str, object]:
        """Statistics and plan, as ``plan --json`` prints them."""
        return {**self.study.to_dict(), "plan": dict(self.study.plan_file())}


def plan(
    what: Job,
    *,
    planner: str | None = None,
    search: str | None = None,
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
        search: ``strategies``: the fastest strategies of the layers within a node and between nodes; None: the fastest
            plan under the scenario's own strategies.
        compare: whether to compare more plans (those of all planners) and take the fastest.
        settings: ``KEY=VALUE`` each.
        out: folder for ``plan.json``, ``statistics.json`` and ``plan.html``; None: nothing is written.
        fresh: whether to run planners again whose result an interrupted run had found.

    Raises:
        InputError: the scenario has no plan or no strategies, the scenario, a name or the plan is wrong, or the folder
            holds something else.
        InfeasibleError: the job does not fit; with the numbers of each tier.
    """
    if search is not None:
        require_search(search)
    folder = None if out is None else replaceable(out)
    resolved = scenario_of(what, settings)
    planning = _planning(resolved)
    find = planning.study if search is None else _strategies(resolved, planning)
    if planner is not None:
        resolved = scenario_of(what, [*settings, *planning.settings(planner)])
    output = RUNS_FOLDER / f"plan-{resolved.name}-{resolved.hash[:8]}" if folder is None else folder
    with kept_results(output, fresh=fresh) as kept:
        study = find(resolved, kept.shown(progress), compare=compare, keep=kept)
        if folder is not None:
            with folder_written_whole(folder) as partial:
                write_json(partial / PLAN_FILE, dict(study.plan_file()))
                write_json(partial / STATISTICS_FILE, study.to_dict())
                (partial / PAGE_FILE).write_text(plan_page(study, __version__), encoding="utf-8")
                write_record(partial, {"scenario_hash": study.resolved.hash, "taken_over": kept.taken_over})
    return PlanResult(folder, study, kept.taken_over)


def _planning(resolved: ResolvedScenario) -> Planning:
    """Plans of the scenario's kind of workload.

    Raises:
        InputError: the kind has no plans.
    """
    planning = family_of(resolved).planning
    if planning is None:
        kinds = [kind for kind, family in FAMILIES.items() if family.planning is not None]
        raise resolved.document.error(
            KIND_KEY,
            f"{resolved.kind} workloads have no plan: `dlrmsim run` places them",
            given=resolved.kind,
            expected=f"one of {', '.join(kinds)}",
        )
    return planning


def _strategies(resolved: ResolvedScenario, planning: Planning) -> Callable[..., PlanStudy]:
    """The search for strategies of the scenario's kind of workload.

    Raises:
        InputError: the kind has no such search.
    """
    if isinstance(planning, StrategyPlanning):
        return planning.strategies
    kinds = [kind for kind, family in FAMILIES.items() if isinstance(family.planning, StrategyPlanning)]
    raise resolved.document.error(
        KIND_KEY,
        f"layers of {resolved.kind} workloads have no strategies to search",
        given=resolved.kind,
        expected=f"one of {', '.join(kinds)}",
    )
