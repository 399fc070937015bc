"""Effects of a sharding plan on every rank and table: memory, time, bytes, shards; and plans compared."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from functools import cache, partial
from typing import Any, TypeAlias

import numpy as np

from inputs.errors import InfeasibleError
from scenarios.dlrm.placed import sharding_of
from scenarios.dlrm.plans import PlanningJob, plan_of
from scenarios.dlrm.typed import DlrmResolved
from scenarios.located import located
from scenarios.mapping import Keep, keep_nothing
from scenarios.progress import Progress
from scenarios.resolved import ResolvedScenario
from scenarios.summary_keys import job_of
from simulator.operators import FloatArray
from simulator.program import IntArray
from workloads.dlrm.sharding import (
    PHASES,
    PLANNERS,
    SHARDING_TYPES,
    EngineCosts,
    ShardingType,
    rank_loads_s,
    table_costs_s,
)
from workloads.dlrm.sharding.conforming import ContradictionError
from workloads.dlrm.sharding.plan import Plan
from workloads.dlrm.sharding.plan_exchange import plan_to_dict
from workloads.graph.memory import TIERS, Tier

OWN_PLAN = "the scenario's"
"""Name of the scenario's own plan in a comparison of planners."""


@dataclass(frozen=True, slots=True)
class RankStatistics:
    """A plan rank by rank.

    Attributes:
        hbm_bytes: everything in device memory ``[P]``.
        ddr_bytes: everything in host memory ``[P]``.
        phases_s: seconds per iteration of tables in each of `workloads.dlrm.sharding.interfaces.PHASES` ``[P, K]``, as
            planners estimate them.
        input_bytes: indices and bag lengths that the rank receives for its shards per iteration ``[P]``.
        output_bytes: vectors that it gives into the collectives of output_dist per iteration ``[P]``.
        shards: number of shards of each sharding type ``[P]``.
    """

    hbm_bytes: FloatArray
    ddr_bytes: FloatArray
    phases_s: FloatArray
    input_bytes: FloatArray
    output_bytes: FloatArray
    shards: Mapping[ShardingType, IntArray]

    @property
    def perf_s(self) -> FloatArray:
        """Seconds of all phases ``[P]``."""
        return np.asarray(self.phases_s.sum(axis=1))

    def measured(self) -> dict[str, FloatArray]:
        """Quantities whose imbalance is reported, by name ``[P]``."""
        return {
            "hbm": self.hbm_bytes,
            "ddr": self.ddr_bytes,
            "perf": self.perf_s,
            "input": self.input_bytes,
            "output": self.output_bytes,
        }

    def to_dict(self) -> dict[str, Any]:
        """The content of ``statistics`` in JSON: lists over ranks, and imbalances."""
        return {
            "hbm_bytes": self.hbm_bytes.tolist(),
            "ddr_bytes": self.ddr_bytes.tolist(),
            "perf_s": {phase: self.phases_s[:, k].tolist() for k, phase in enumerate(PHASES)},
            "input_bytes": self.input_bytes.tolist(),
            "output_bytes": self.output_bytes.tolist(),
            "shards": {kind: count.tolist() for kind, count in self.shards.items()},
            "imbalance": {name: imbalance(values) for name, values in self.measured().items()},
        }


@dataclass(frozen=True, slots=True)
class TableStatistics:
    """A plan table by table.

    Attributes:
        pieces: number of column ranges of each table ``[N]``.
        ranks: ranks with a part of each table, ascending ``[N]``.
        stored_bytes: weights, optimizer state and caches of each table over all its ranks, by memory tier ``[N]``;
            with the gradient of a copied one.
        phases_s: seconds per iteration over all its ranks in each of `workloads.dlrm.sharding.interfaces.PHASES`
            ``[N, K]``, as planners balance them.
    """

    pieces: IntArray
    ranks: tuple[IntArray, ...]
    stored_bytes: Mapping[Tier, FloatArray]
    phases_s: FloatArray

    @property
    def perf_s(self) -> FloatArray:
        """Seconds of all phases ``[N]``."""
        return np.asarray(self.phases_s.sum(axis=1))

    def to_dicts(self, plan: Plan) -> list[dict[str, Any]]:
        """An entry for each table, in JSON."""
        tables, kinds, kernels = plan.tables, plan.sharding_types, plan.compute_kernels
        lookups = tables.lookups_per_sample
        return [
            {
                "table": tables.names[i],
                "rows": int(tables.rows[i]),
                "dim": int(tables.dim[i]),
                "lookups_per_sample": float(lookups[i]),
                "sharding_type": kinds[i],
                "pieces": int(self.pieces[i]),
                "compute_kernel": kernels[i],
                "ranks": self.ranks[i].tolist(),
                "stored_bytes": {tier: float(held[i]) for tier, held in self.stored_bytes.items()},
                "perf_s": {phase: float(self.phases_s[i, k]) for k, phase in enumerate(PHASES)},
            }
            for i in range(len(tables))
        ]


@dataclass(frozen=True, slots=True)
class PlannedBy:
    """Result of a planner, None where it found no plan that fits.

    Attributes:
        planner: its name.
        iteration_time_s: iteration time of a run of the scenario with its plan.
        max_hbm_bytes: device memory of the fullest rank.
        imbalance: largest over mean of each quantity of `RankStatistics.measured`.
        tables_by_type: number of tables of each sharding type.
        message: why there is no plan.
    """

    planner: str
    iteration_time_s: float | None = None
    max_hbm_bytes: float | None = None
    imbalance: Mapping[str, float] | None = None
    tables_by_type: Mapping[str, int] | None = None
    message: str = ""


@dataclass(frozen=True, slots=True)
class DlrmPlanStudy:
    """The plan of a scenario or, in a comparison of planners, the fastest plan.

    Attributes:
        tables: the same table by table.
        iteration_time_s: iteration time of a run with it.
        capacity_bytes: usable bytes of a rank in each memory tier.
        compared: results of all planners, fastest first; empty when not asked for.
    """

    resolved: DlrmResolved
    plan: Plan
    statistics: RankStatistics
    tables: TableStatistics
    iteration_time_s: float
    capacity_bytes: Mapping[str, float]
    compared: tuple[PlannedBy, ...] = ()

    def plan_file(self) -> dict[str, Any]:
        """The plan in TorchRec's form, as ``workload.sharding.plan`` takes it."""
        return plan_to_dict(self.plan)

    def to_dict(self) -> dict[str, Any]:
        """Everything but the plan itself as JSON: no wall-clock time, host or path."""
        return {
            **job_of(self.resolved),
            "scenario_hash": self.resolved.hash,
            "sharding": sharding_of(self.plan),
            "iteration_time_s": self.iteration_time_s,
            "capacity_bytes": dict(self.capacity_bytes),
            "statistics": self.statistics.to_dict(),
            "tables": self.tables.to_dicts(self.plan),
            "compared": [asdict(found) for found in self.compared],
        }


def imbalance(values: FloatArray) -> dict[str, float]:
    """Measures of how unevenly ranks share a quantity ``[P]``.

    ``max_over_mean`` is 1 when all have the same. The others compare the ranks' shares p with 1/P, as
    TorchRec's planner does: total variation ``sum |p - 1/P| / 2`` and Kullback-Leibler divergence ``sum p ln(P p)``,
    0 when all are equal.
    """
    total = float(values.sum())
    if total <= 0:
        return {"max_over_mean": 1.0, "total_variation": 0.0, "kl_divergence": 0.0}
    share = values / total
    positive = share[share > 0]
    return {
        "max_over_mean": float(values.max() / values.mean()),
        "total_variation": float(np.abs(share - 1.0 / len(share)).sum() / 2.0),
        "kl_divergence": max(0.0, float((positive * np.log(positive * len(share))).sum())),
    }


def study_plan(
    resolved: ResolvedScenario, progress: Progress, *, compare: bool = False, keep: Keep = keep_nothing
) -> DlrmPlanStudy:
    """Make or read the plan of a scenario, simulate it, and count the data of every rank and table.

    With ``compare`` it is the fastest of the plans of all planners and the scenario's own plan.

    Args:
        compare: whether to plan with all planners.
        keep: keeps what each of them found.

    Raises:
        InputError: the scenario, the plan or the planner's name is wrong.
        InfeasibleError: it does not fit; with the numbers of each tier.
    """
    progress.stage("planning the sharding")
    job = PlanningJob.of(resolved)
    with located(resolved.document):
        makers = _makers(job)
        compared = _compared(job, makers, progress, keep) if compare else ()
        fastest = compared[0].planner if compared and compared[0].iteration_time_s is not None else None
        plan = plan_of(job) if fastest is None else makers[fastest]()
        capacity = {str(tier): float(size) for tier, size in job.report(plan).capacity_bytes.items()}
        statistics, by_table = statistics_of(job, plan), tables_of(job, plan)
        return DlrmPlanStudy(job.resolved, plan, statistics, by_table, job.simulate_s(plan), capacity, compared)


def tables_of(job: PlanningJob, plan: Plan) -> TableStatistics:
    """A plan table by table."""
    tables, shards, count = plan.tables, plan.shards(), len(plan.tables)
    pieces = np.bincount(plan.columns.table, minlength=count) + np.bincount(plan.nodes.table, minlength=count)
    order = np.argsort(shards.table, kind="stable")
    ranks = np.split(shards.rank[order], np.cumsum(np.bincount(shards.table, minlength=count))[:-1])
    context = replace(job.context, storage=plan.storage)
    kept, element = np.ones(count), tables.element_bytes[shards.table]
    kept[plan.data_parallel] = 0.0
    stored: dict[Tier, FloatArray] = {}
    for tier in TIERS:
        held = context.stored_bytes(shards.rows, shards.dim, element, shards.table, tier)
        stored[tier] = kept * np.bincount(shards.table, weights=held, minlength=count)
    stored["hbm"] += (1.0 - kept) * plan.world_size * context.copied_bytes(tables)
    return TableStatistics(
        np.maximum(pieces, 1),
        tuple(np.unique(of) for of in ranks),
        stored,
        table_costs_s(plan, _costs_of(job, plan)),
    )


def _costs_of(job: PlanningJob, plan: Plan) -> EngineCosts:
    """Costs of the plan's shards, with its rows and kernels."""
    return job.context.costs.of(plan.tables).stored(plan.storage)


def statistics_of(job: PlanningJob, plan: Plan) -> RankStatistics:
    """A plan rank by rank; amounts are those that the task graph is made of."""
    use, count = job.report(plan).use, plan.world_size
    sharded = [group for group in job.workload(plan).job.groups if group.forward]
    received = sum((np.asarray(group.lookup.index_bytes) for group in sharded), np.zeros(count))
    sent = sum((np.asarray(call.bytes) for group in sharded for call in group.forward), np.zeros(count))
    shards, kinds = plan.shards(), np.array(plan.sharding_types)
    return RankStatistics(
        hbm_bytes=use.total("hbm"),
        ddr_bytes=use.total("ddr"),
        phases_s=rank_loads_s(plan, _costs_of(job, plan)),
        input_bytes=np.asarray(received, dtype=np.float64),
        output_bytes=np.asarray(sent, dtype=np.float64),
        shards={
            kind: np.bincount(shards.rank[kinds[shards.table] == kind], minlength=count)
            for kind in SHARDING_TYPES
            if kind in kinds
        },
    )


Maker: TypeAlias = Callable[[], Plan]
"""Makes a plan, or raises `InfeasibleError`."""


def _makers(job: PlanningJob) -> dict[str, Maker]:
    """All planners, and the scenario's own plan where it has one, by name; each makes its plan once."""
    makers: dict[str, Maker] = {name: cache(partial(job.make, name)) for name in PLANNERS.names()}
    if job.resolved.scenario.workload.sharding.plan is not None:
        makers = {OWN_PLAN: cache(partial(plan_of, job, advise=False)), **makers}
    return makers


def _compared(job: PlanningJob, makers: Mapping[str, Maker], progress: Progress, keep: Keep) -> tuple[PlannedBy, ...]:
    """Results of all makers of plans, fastest first."""
    found: list[PlannedBy] = []
    for number, (name, make) in enumerate(makers.items(), start=1):
        progress.stage(f"planning with {name}", number, len(makers))
        question = f"planning with {name}\n{job.resolved.hash}"
        found.append(PlannedBy(**keep(question, partial(_found_by, name, make, job))))
    return tuple(sorted(found, key=lambda row: np.inf if row.iteration_time_s is None else row.iteration_time_s))


def _found_by(planner: str, make: Maker, job: PlanningJob) -> dict[str, Any]:
    """Attributes of `PlannedBy` for a planner."""
    try:
        plan = make()
    except (InfeasibleError, ContradictionError) as error:
        why = error.message if isinstance(error, ContradictionError) else str(error).splitlines()[0]
        return asdict(PlannedBy(planner, message=why))
    found = statistics_of(job, plan)
    worst = {name: imbalance(values)["max_over_mean"] for name, values in found.measured().items()}
    types = sharding_of(plan)["tables_by_type"]
    return asdict(PlannedBy(planner, job.simulate_s(plan), float(found.hbm_bytes.max()), worst, types))
