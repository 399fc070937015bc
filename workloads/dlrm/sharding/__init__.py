"""Sharding: plans, the planners that make them, and the planners' inputs."""

from typing import get_args

from workloads.dlrm.sharding import (
    dealing_planner,
    greedy_planner,
    hot_planner,
    memory_planner,
    partition_planners,
    search_planner,
    uniform_planners,
)
from workloads.dlrm.sharding.costs import EngineCosts, MachineTimes, plan_cost_s, rank_loads_s, table_costs_s
from workloads.dlrm.sharding.fitting import fit_rows, make_fitting, make_sharding_plan
from workloads.dlrm.sharding.interfaces import PHASES, PLANNERS, PlanningContext
from workloads.dlrm.sharding.plan_exchange import plan_from_dict, plan_to_dict
from workloads.dlrm.sharding.plan_file import PlanFile, ShardingType

SHARDING_TYPES: tuple[ShardingType, ...] = get_args(ShardingType)
SHIPPED = (
    dealing_planner,
    greedy_planner,
    hot_planner,
    memory_planner,
    partition_planners,
    search_planner,
    uniform_planners,
)
"""Modules that register planners."""

__all__ = [
    "PHASES",
    "PLANNERS",
    "SHARDING_TYPES",
    "EngineCosts",
    "MachineTimes",
    "PlanFile",
    "PlanningContext",
    "ShardingType",
    "fit_rows",
    "make_fitting",
    "make_sharding_plan",
    "plan_cost_s",
    "plan_from_dict",
    "plan_to_dict",
    "rank_loads_s",
    "table_costs_s",
]
