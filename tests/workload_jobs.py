"""Jobs that workload tests share: shipped models with made-up but plausible rates for planning."""

from __future__ import annotations

from functools import cache

from hardware_specs import load_cluster
from simulator.compute.gpu import GpuModel
from simulator.program import TaskGraph
from workloads.dlrm.iteration.generate import generate
from workloads.dlrm.iteration.job import Job, make_job
from workloads.dlrm.laws.index_laws import make_law
from workloads.dlrm.model.choices import Optimizer, PrecisionChoice
from workloads.dlrm.model.model import load_model
from workloads.dlrm.model.settings import DlrmSettings, Pipeline
from workloads.dlrm.model.tables import Tables, expand_tables
from workloads.dlrm.sharding import EngineCosts, MachineTimes, PlanningContext, make_sharding_plan
from workloads.dlrm.sharding.plan import Plan
from workloads.graph.framework import load_framework
from workloads.graph.optimizers import TableOptimizerKind

LINK_BYTES_PER_S = {"world": 7e9, "node": 150e9, "cross_node": 7e9}
"""The published effective rate of ZionEX at 128 GPUs between nodes; that inside a node is made up."""


def machine_times() -> MachineTimes:
    """Kernels of ZionEX's GPU, and collectives at a fixed rate."""
    node = load_cluster("zionex").node
    kernels = GpuModel(node.accelerator, node, 0.0).without_starts()
    return MachineTimes(kernels.duration_s, lambda _, ranks, size: size / LINK_BYTES_PER_S[ranks])


def settings_for(
    model: str,
    world_size: int,
    *,
    local_batch_size: int = 512,
    table_optimizer: TableOptimizerKind = "rowwise_adagrad",
    pipeline: Pipeline = "sparse_dist",
    framework: str = "neo",
    local_world_size: int = 8,
) -> DlrmSettings:
    """The published precisions of ZionEX on a shipped model."""
    return DlrmSettings(
        world_size=world_size,
        local_world_size=min(local_world_size, world_size),
        global_batch_size=local_batch_size * world_size,
        framework=load_framework(framework),
        precision=PrecisionChoice(),
        optimizer=Optimizer(tables=table_optimizer),
        pipeline=pipeline,
        indices=make_law(load_model(model).index_reuse.value),
    )


def context_for(tables: Tables, settings: DlrmSettings, memory_bytes: float = 30e9) -> PlanningContext:
    """What a planner is told of a ZionEX-like machine."""
    costs = EngineCosts(tables, settings, machine_times())
    return PlanningContext(
        settings.world_size, settings.local_world_size, memory_bytes, costs, settings.optimizer.tables
    )


@cache
def plan_of(
    model: str, world_size: int, planner: str = "greedy", table_optimizer: TableOptimizerKind = "rowwise_adagrad"
) -> Plan:
    """A plan of a shipped model."""
    settings = settings_for(model, world_size, table_optimizer=table_optimizer)
    tables = expand_tables(load_model(model), "fp16")
    return make_sharding_plan(planner, tables, context_for(tables, settings))


def job_of(
    model: str, world_size: int, planner: str = "greedy", table_optimizer: TableOptimizerKind = "rowwise_adagrad"
) -> Job:
    """A job of a shipped model."""
    settings = settings_for(model, world_size, table_optimizer=table_optimizer)
    return make_job(load_model(model), plan_of(model, world_size, planner, table_optimizer), settings)


def graph_of(model: str, world_size: int, planner: str = "greedy", pipeline: Pipeline = "sparse_dist") -> TaskGraph:
    """The task graph of a shipped model."""
    settings = settings_for(model, world_size, pipeline=pipeline)
    return generate(load_model(model), plan_of(model, world_size, planner), settings)
