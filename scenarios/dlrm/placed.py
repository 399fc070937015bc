"""A DLRM under its sharding plan, and what results say of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from scenarios.candidates import Candidate
from scenarios.capacity import MemoryReport, capacities_bytes
from scenarios.dlrm.levers import candidates
from scenarios.dlrm.plans import PlanningJob, plan_of
from scenarios.dlrm.sequence_sections import assumed_lengths, sequence_loads, sequences_of
from scenarios.dlrm.settings import settings_of
from scenarios.dlrm.target_section import time_to_target_of
from scenarios.dlrm.typed import DlrmResolved
from scenarios.sequence_loads import SequenceLoads
from scenarios.summary_keys import MODE_KEY, SEQUENCES_KEY
from scenarios.uncertainty.constant import Constant
from simulator.analysis import Bound
from simulator.equality import same
from simulator.lowering import Machine
from workloads.dlrm.family import DlrmWorkload
from workloads.dlrm.iteration.volumes import volumes_of
from workloads.dlrm.model.settings import DlrmSettings
from workloads.dlrm.model.tables import expand_tables
from workloads.dlrm.rows.cache import hit_rates
from workloads.dlrm.sharding.plan import Plan
from workloads.graph.schedule import SCHEDULES

NEARLY_FULL = 0.95
"""Fraction of a rank's memory from which the lengths of a batch decide whether a job fits: PyTorch's allocator keeps a
few percent in fragments."""


@dataclass(frozen=True, slots=True)
class PlacedDlrm:
    """A DLRM on its ranks; see `scenarios.family.PlacedJob`.

    Attributes:
        machine: machine that the job is on.
        simulated: whether the planner simulated iterations.
        own: whether the plan was made for this scenario; False: another scenario's plan is kept.
    """

    resolved: DlrmResolved
    workload: DlrmWorkload
    machine: Machine
    simulated: bool = False
    own: bool = True

    @property
    def varies(self) -> bool:
        """Whether bags have different lengths in each iteration."""
        return bool(self.workload.plan.tables.pooling)

    def estimate_sections(self) -> dict[str, Any]:
        """Sharding and caches."""
        return {"sharding": sharding_of(self.workload.plan), "caches": caches_of(self.workload)}

    def summary_sections(self) -> dict[str, Any]:
        """Sharding, caches, pipeline, volumes of communication, the mode unless it is training, and sequences."""
        workload = self.workload
        sizes = volumes_of(workload.job)
        sequences = sequences_of(workload)
        return {
            **self.estimate_sections(),
            "pipeline": pipeline_of(workload.settings),
            **sizes._asdict(),
            **({MODE_KEY: "eval"} if workload.settings.evaluates else {}),
            **({} if sequences is None else {SEQUENCES_KEY: sequences}),
        }

    def sequence_loads(self) -> SequenceLoads | None:
        """See `scenarios.sequence_loads.SequenceJob`."""
        return sequence_loads(self.workload)

    def timed_sections(self, iteration_s: float, low: float, high: float) -> Mapping[str, Any]:
        """The time to a target; see `scenarios.family.TimedJob`."""
        return time_to_target_of(self.resolved, self.workload, self.machine, iteration_s, low, high)

    def uncertain_inputs(self) -> list[tuple[float, Constant]]:
        """Lengths of sequences that the model assumes; see `scenarios.uncertainty.inputs_of_jobs`."""
        return assumed_lengths(self.workload)

    def warnings(self) -> list[str]:
        """Tables that were shrunk, and memory that the lengths of another batch may exceed."""
        scale = self.workload.plan.rows_scale
        scaled = [f"the rows of all tables were scaled by {scale:.4f} to fit (rows_scaling)"] if scale < 1 else []
        return [*scaled, *self._nearly_full()]

    def _nearly_full(self) -> list[str]:
        """Note on a rank whose memory is nearly full with the histories of one batch."""
        if not self.workload.plan.tables.sequences:
            return []
        capacity = capacities_bytes(self.resolved.cluster, self.resolved.world_size)["hbm"]
        used = MemoryReport(self.workload.memory(), {"hbm": capacity}).most_bytes / capacity
        if used < NEARLY_FULL:
            return []
        return [f"the fullest rank needs {100 * used:.0f} % of its memory: longer histories in a batch may not fit"]

    def device_waits_s(self) -> Mapping[str, float]:
        """Waits by feature that a rank looks up, and by feature of the model."""
        framework, tables = self.resolved.framework, self.workload.plan.tables
        return {
            "table_s": framework.seconds("table_s") * len(tables) / self.resolved.world_size,
            "feature_s": framework.seconds("feature_s") * tables.feature_count,
        }

    def candidates(self, bound: Bound) -> Iterator[Candidate]:
        """See `scenarios.dlrm.levers`."""
        return candidates(self.resolved, self.workload, bound)

    def changed(self, resolved: DlrmResolved, machine: Machine, *, place_again: bool = False) -> PlacedDlrm:
        """The job of a changed scenario under this plan, or under a plan of its own.

        The plan of its own is this plan if nothing changes that the planner takes into account.
        """
        settings, plan = settings_of(resolved), self.workload.plan
        asked = machine is self.machine and same(self._asked(resolved), self._asked(self.resolved))
        known = self.own and asked and same(settings, self.workload.settings)
        if place_again and not known:
            return _placed(PlanningJob(resolved, settings, machine), advise=False)
        if settings.precision.tables != self.workload.settings.precision.tables:
            element_bytes = expand_tables(resolved.model, settings.precision.tables).element_bytes
            plan = replace(plan, tables=replace(plan.tables, element_bytes=element_bytes))
        return PlacedDlrm(resolved, DlrmWorkload(resolved.model, plan, settings), machine, self.simulated, known)

    def keeps_plan(self, resolved: DlrmResolved) -> bool:
        """Whether it has the same model and nodes, and the same keys of the plan."""
        one, other = self.resolved, resolved
        local, asked = self.workload.settings.local_world_size, one.scenario.workload
        return (
            (one.model, one.world_size, local) == (other.model, other.world_size, settings_of(other).local_world_size)
            and asked.sharding == other.scenario.workload.sharding
            and asked.rows_scaling == other.scenario.workload.rows_scaling
        )

    def _asked(self, resolved: DlrmResolved) -> tuple[object, ...]:
        """Parts of a scenario that the plan depends on, beside the machine and the settings of generators."""
        scenario, workload = resolved.scenario, resolved.scenario.workload
        run = (scenario.variation, scenario.run) if self.simulated else ()
        return (resolved.model, resolved.cluster, workload.sharding, workload.rows_scaling, scenario.transform, *run)


def place(resolved: DlrmResolved, machine: Machine) -> PlacedDlrm:
    """The job of a scenario under its plan; raises as `scenarios.dlrm.plans.plan_of`."""
    return _placed(PlanningJob(resolved, settings_of(resolved), machine), advise=True)


def _placed(job: PlanningJob, *, advise: bool) -> PlacedDlrm:
    workload = job.workload(plan_of(job, advise=advise))
    return PlacedDlrm(job.resolved, workload, job.machine, job.simulated)


def caches_of(workload: DlrmWorkload) -> dict[str, float] | None:
    """Share of a batch's distinct rows and lookups that caches find; None without caches."""
    plan = workload.plan
    sharded = np.setdiff1d(np.arange(len(plan.tables)), plan.data_parallel)
    found = hit_rates(plan.tables, workload.settings, plan.storage, sharded)
    return None if found is None else {"distinct_rows_found": found.distinct_rows, "lookups_found": found.lookups}


def pipeline_of(settings: DlrmSettings) -> dict[str, Any]:
    """Overlap between iterations, and the age of the rows that lookups see."""
    return {
        "name": settings.pipeline,
        "staleness_iterations": SCHEDULES[settings.pipeline].staleness,
        "gradient_accumulation": settings.gradient_accumulation,
        "cuda_graph": settings.cuda_graph,
    }


def sharding_of(plan: Plan) -> dict[str, Any]:
    """The planner, and the number of tables by kind of sharding."""
    return {
        "planner": plan.planner,
        "tables": len(plan.tables),
        "parameters": plan.tables.parameters,
        "rows_scale": plan.rows_scale,
        "tables_by_type": dict(sorted(Counter(plan.sharding_types).items())),
        "tables_by_kernel": dict(sorted(Counter(plan.compute_kernels).items())),
    }
