"""Iterations of a small job with durations that tests choose, part by part."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np

from simulator.engine import RunOptions, run
from simulator.lowered import ConstantDurations, LoweredGroup, LoweredProgram
from simulator.program import Program
from tests.workload_jobs import context_for, settings_for
from workloads.dlrm.iteration.generate import generate
from workloads.dlrm.laws.index_laws import UNIFORM_LAW
from workloads.dlrm.model.choices import USUAL_OVERLAP, Ingestion, Overlap
from workloads.dlrm.model.model import load_model
from workloads.dlrm.model.settings import DlrmSettings
from workloads.dlrm.model.storage import CACHED, LOAD_FACTOR, Storage
from workloads.dlrm.model.tables import expand_tables
from workloads.dlrm.sharding import make_sharding_plan
from workloads.dlrm.sharding.plan import Plan
from workloads.graded import Graded
from workloads.graph.framework import load_framework

MODEL = "criteo_small"

PARTS = {
    "read": "read_batch",
    "receive": "receive_batch",
    "copy": "input_copy",
    "dist": "column_input_dist_values",
    "fill": "column_cache_fill",
    "lookup": "column_lookup",
    "exchange": "column_output_dist_forward",
    "bottom": "bottom_0_forward",
    "top": "top_0_forward",
    "top_back": "top_0_input_gradient",
    "top_weights": "top_0_weight_gradient",
    "exchange_back": "column_output_dist_backward",
    "bottom_back": "bottom_0_weight_gradient",
    "update": "column_update",
    "reduce": "gradient_all_reduce_0",
    "optimizer": "dense_optimizer",
    "launch": "launch_column_lookup",
}
"""Part -> the task that takes its time; all other tasks take none."""


def small_settings(world_size: int = 2, **changes: object) -> DlrmSettings:
    """Settings of the small job: input_dist with a process group of its own, one gradient bucket."""
    framework = load_framework("neo")
    bucket = Graded(value=2.0**30, source="one bucket", grade="assumed")
    framework = framework.model_copy(update={"first_bucket_bytes": bucket, "bucket_bytes": bucket})
    chosen = {"framework": framework, "indices": UNIFORM_LAW} | changes
    return replace(settings_for(MODEL, world_size), **chosen)  # type: ignore[arg-type]


@cache
def small_plan(world_size: int = 2, planner: str = "table_wise", *, cached: bool = False) -> Plan:
    """Where its tables are: on the device, or in host memory behind caches."""
    tables = expand_tables(load_model(MODEL), "fp16")
    settings = small_settings(world_size)
    plan = make_sharding_plan(planner, tables, context_for(tables, settings))
    storage = Storage(np.full(len(tables), CACHED), np.full(len(tables), LOAD_FACTOR))
    return replace(plan, storage=storage) if cached else plan


def small_program(settings: DlrmSettings, planner: str = "table_wise", *, cached: bool = False) -> Program:
    """Its program."""
    plan = small_plan(settings.world_size, planner, cached=cached)
    return generate(load_model(MODEL), plan, settings).programs[0]


def timed(program: Program, parts: dict[str, int]) -> LoweredProgram:
    """The program with the durations of `PARTS`, ps, in every pass; collectives are private."""
    durations = np.zeros((program.task_count, 1), dtype=np.int64)
    for part, duration in parts.items():
        tasks = [task for task, name in enumerate(program.names) if name.split("_pass_")[0] == PARTS[part]]
        assert tasks, part
        durations[tasks] = duration
    none = np.zeros(0, dtype=np.int64)
    instances = np.zeros((0, program.rank_count), dtype=np.int64)
    group = LoweredGroup.of(program, ConstantDurations(durations), none, instances)
    return LoweredProgram((group,), (), 0)


def period(settings: DlrmSettings, planner: str = "table_wise", *, cached: bool = False, **parts: int) -> float:
    """Mean length of an iteration in ps, long after the start."""
    lowered = timed(small_program(settings, planner, cached=cached), parts)
    ends = run(lowered, RunOptions(max_iterations=60, keep_last=1)).iteration_end_ps
    return float(ends[-1] - ends[-25]) / 24


def read_at(bytes_per_s: float, queue_batches: int) -> Ingestion:
    """One reader host of one core."""
    decoder = {"reader_hosts": 1, "cores_per_host": 1, "decode_bytes_per_s": "1 kB/s"}
    made = Ingestion.model_validate({**decoder, "queue_batches": queue_batches})
    return made.model_copy(update={"decode_bytes_per_s": bytes_per_s})  # slower than any: the time unit is a byte


def overlap(**changes: bool) -> Overlap:
    """The usual overlap with some of it changed."""
    return USUAL_OVERLAP.model_copy(update=changes)
