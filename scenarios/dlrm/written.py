"""DLRM scenarios with their sharding plan written out, as the reference trainer reads them."""

from __future__ import annotations

from dataclasses import replace

from scenarios.dlrm.plans import PlanningJob, plan_of
from scenarios.dlrm.typed import DlrmResolved, dlrm_of
from scenarios.located import located
from scenarios.progress import Progress
from scenarios.resolved import ResolvedScenario
from workloads.dlrm.sharding.plan_exchange import plan_to_dict
from workloads.dlrm.sharding.plan_file import read_plan


def with_plan(resolved: ResolvedScenario, progress: Progress) -> DlrmResolved:
    """The scenario with the plan of its run written out.

    Raises:
        InputError: the scenario trains no DLRM, or the plan or the planner's name is wrong.
        InfeasibleError: the job does not fit into the memory of the GPUs; with the numbers of each tier.
    """
    found = dlrm_of(resolved, "the reference trainer")
    progress.stage("planning the sharding")
    job = PlanningJob.of(found)
    with located(found.document):
        plan = read_plan(plan_to_dict(plan_of(job))).model_dump(mode="json")
    sharding = found.scenario.workload.sharding.model_copy(update={"planner": None, "plan": plan})
    section = found.scenario.workload.model_copy(update={"sharding": sharding})
    return replace(found, scenario=found.scenario.model_copy(update={"workload": section}))
