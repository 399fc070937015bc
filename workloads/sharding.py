"""Sharding: plans, the planners that make them, and what they are told."""

from workloads.plan import SHARDING_TYPES, ColumnShards, Plan, Shards, make_plan, plan_from_dict
from workloads.plan_file import PlanFile, ShardingType
from workloads.planners import greedy
from workloads.planning import PLANNERS, Planner, PlanningContext, ShardCosts, fit_rows, make_sharding_plan
from workloads.traffic import BandwidthCosts

__all__ = [
    "PLANNERS",
    "SHARDING_TYPES",
    "BandwidthCosts",
    "ColumnShards",
    "Plan",
    "PlanFile",
    "Planner",
    "PlanningContext",
    "ShardCosts",
    "ShardingType",
    "Shards",
    "fit_rows",
    "greedy",
    "make_plan",
    "make_sharding_plan",
    "plan_from_dict",
]
