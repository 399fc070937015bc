"""Small DLRM jobs with strategies of their dense layers, on two nodes of four ranks."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

from inputs.yaml_lines import Document
from scenarios.dlrm.plans import PlanningJob, plan_of
from scenarios.dlrm.typed import DlrmResolved, dlrm_of
from scenarios.resolve import resolve
from simulator.collective_calls import CollectiveCall
from simulator.program import Program
from workloads.dlrm.family import DlrmWorkload

NODE_RANKS, NODES, BATCH = 4, 2, 32
BOTTOM, TOP, TABLE_DIM = (16, 64, 32), (80, 64, 8, 1), 16
"""Widths of the MLPs, inputs first: three tables of 16 columns are concatenated with the bottom's 32 outputs."""


def made_up(value: object) -> dict[str, object]:
    return {"value": value, "source": "tests", "grade": "assumed"}


MODEL: dict[str, Any] = {
    "name": "three_tables",
    "title": "three tables",
    "tables": made_up([{"name": f"t{n}", "rows": 1000 * n, "dim": TABLE_DIM, "pooling_factor": 2} for n in (1, 2, 3)]),
    "mlp": {
        "dense_features": made_up(BOTTOM[0]),
        "bottom": made_up(list(BOTTOM[1:])),
        "top": made_up(list(TOP[1:])),
    },
    "interaction": made_up("cat"),
    "index_reuse": made_up("uniform"),
    "local_batch_size": made_up(BATCH),
}


def levels(node: str, between: str) -> dict[str, str]:
    return {"node": node, "between": between}


def job_data(nodes: int = NODES, **workload: Any) -> dict[str, Any]:
    return {
        "name": "three_tables",
        "cluster": "polaris",
        "nodes": nodes,
        "workload": {"model": MODEL, "pipeline": "none", "framework": "pytorch", **workload},
        "precision": {"dense": "fp32", "tables": "fp32", "forward_all_to_all": "fp32", "backward_all_to_all": "fp32"},
    }


def resolved_job(nodes: int = NODES, **workload: Any) -> DlrmResolved:
    return dlrm_of(resolve(Document(job_data(nodes, **workload), {}, Path("test.yaml"))), "tests")


@cache
def placed(bottom: tuple[str, str], top: tuple[str, str], passes: int = 1) -> tuple[PlanningJob, DlrmWorkload]:
    """The job with strategies (within a node, between nodes) of both classes, under greedy's plan."""
    dense = {"bottom": levels(*bottom), "top": levels(*top)}
    batch = passes * BATCH * NODE_RANKS * NODES
    job = PlanningJob.of(resolved_job(dense=dense, gradient_accumulation=passes, global_batch_size=batch))
    return job, job.workload(plan_of(job))


def calls(program: Program, op: str, part: str) -> list[CollectiveCall]:
    """Calls of an operation whose names have a part."""
    return [
        work
        for name, work in zip(program.names, program.work, strict=True)
        if isinstance(work, CollectiveCall) and work.op == op and part in name
    ]
