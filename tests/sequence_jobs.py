"""Small jobs of sequences that tests share: three tables, two HSTU layers, on GPUs of one node."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from inputs.yaml_lines import Document
from scenarios.dlrm.plans import PlanningJob, plan_of
from scenarios.dlrm.typed import DlrmResolved, dlrm_of
from scenarios.resolve import resolve
from simulator.operators import Attention, Gemm
from simulator.program import Program
from tests.planning_jobs import made_up
from workloads.dlrm.family import DlrmWorkload

WIDTH, HEADS, QUERY, VALUE, LAYERS = 32, 2, 24, 16, 2
"""Widths that differ, so that none stands for another; multiples of 8, which no product pads."""
HIDDEN, ACTION, ITEM, TOP = 40, 8, 48, (64, 1)
BUCKETS, BATCH = 96, 6

HISTORY = [
    {"name": "item", "rows": 1000, "dim": 32, "sequence": "history"},
    {"name": "artist", "rows": 200, "dim": 16, "sequence": "history"},
]
USER = {"name": "user", "rows": 500, "dim": 32, "sequence": "context"}


def graded(**values: object) -> dict[str, object]:
    """Graded values by key."""
    return {key: made_up(value) for key, value in values.items()}


def history(lengths: Mapping[str, object], max_length: int = 64, targets: int = 1) -> dict[str, object]:
    """A sequence feature."""
    return graded(max_length=max_length, lengths=dict(lengths), targets=targets)


def model_data(
    lengths: Mapping[str, object] | None = None,
    *,
    max_length: int = 64,
    targets: int = 1,
    context: bool = True,
    tables: Sequence[Mapping[str, object]] | None = None,
    **stack: object,
) -> dict[str, Any]:
    """A model of sequences as data; ``stack`` replaces keys of its layers, None removes one."""
    sequences = {"history": history(lengths or {"distribution": "fixed"}, max_length, targets)}
    if context:
        sequences["context"] = graded(max_length=1, lengths={"distribution": "fixed"})
    hstu: dict[str, Any] = {"sequence": "history", **({"context": "context"} if context else {})}
    hstu |= graded(
        layers=LAYERS,
        width=WIDTH,
        heads=HEADS,
        qk_width=QUERY,
        value_width=VALUE,
        preprocessor_width=HIDDEN,
        action_width=ACTION,
        position_buckets=BUCKETS,
        item_width=ITEM,
        recompute=True,
    )
    hstu |= {key: value if value is None else made_up(value) for key, value in stack.items()}
    return {
        "name": "small_hstu",
        "title": "three tables, two layers",
        "tables": made_up([*(tables or HISTORY), *([USER] if context else [])]),
        "sequences": sequences,
        "mlp": graded(dense_features=0, bottom=[], top=list(TOP)),
        "interaction": made_up("hstu"),
        "hstu": {key: value for key, value in hstu.items() if value is not None},
        "index_reuse": made_up("uniform"),
        "local_batch_size": made_up(BATCH),
    }


def scenario_data(
    model: Mapping[str, object] | None = None,
    ranks: int = 4,
    precision: Mapping[str, str] | None = None,
    **workload: Any,
) -> dict[str, Any]:
    """A scenario as data; 4 bytes on the wire forward and 2 backward, so that no size stands for another.

    Args:
        ranks: ranks of one node.
        precision: number formats in place of the usual ones.
        workload: further keys of it.
    """
    return {
        "name": "small_hstu",
        "cluster": "dgx_b200",
        "world_size": ranks,
        "workload": {
            "model": model_data() if model is None else dict(model),
            "framework": "generative_recommenders",
            "pipeline": "sparse_dist",
            **workload,
        },
        "precision": {
            "dense": "bf16",
            "tables": "fp32",
            "forward_all_to_all": "fp32",
            "backward_all_to_all": "fp16",
            "all_reduce": "fp32",
            **(precision or {}),
        },
    }


def resolved_job(model: Mapping[str, object] | None = None, ranks: int = 4, **keys: Any) -> DlrmResolved:
    """The resolved scenario; ``keys`` as `scenario_data`."""
    document = Document(scenario_data(model, ranks, **keys), {}, Path("test.yaml"))
    return dlrm_of(resolve(document), "tests")


def placed(model: Mapping[str, object] | None = None, ranks: int = 4, **keys: Any) -> tuple[PlanningJob, DlrmWorkload]:
    """The job under its plan, of greedy if no other is given; ``keys`` as `scenario_data`."""
    job = PlanningJob.of(resolved_job(model, ranks, **keys))
    return job, job.workload(plan_of(job))


def works(program: Program) -> dict[str, Any]:
    """The work of each task by name."""
    return dict(zip(program.names, program.work, strict=True))


def flops(work: object, ranks: int) -> np.ndarray:
    """Operations of a product or of attention on each rank ``[P]``; 0 of other work."""
    if isinstance(work, Gemm):
        return np.broadcast_to(2.0 * work.m * work.n * work.k * work.count, ranks)
    return np.broadcast_to(work.flops if isinstance(work, Attention) else 0.0, ranks)
