"""Captured DLRMs against the generator's task graphs: operations, bytes, and time of an iteration on the same cluster.

Both have the same model, batch, tables on ranks, cluster and host times. They differ in kernels that the generator
leaves out (gradients of biases, parts of the loss, the scaling of each gradient by DDP, a copy of the pooled vectors'
gradients), and in host time: the generator counts an operator for every kernel, a capture one for every node of the
backward pass, which may launch several.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import dlrmsim
from benchmarks.captured_dlrm import SAMPLES
from benchmarks.rows import Row
from scenarios.prepare import prepare
from scenarios.progress import Silent
from scenarios.resolve import load_scenario
from scenarios.runner import simulation_of
from simulator.collective_calls import CollectiveCall
from simulator.operators import Gemm, Interaction
from simulator.program import TaskGraph
from workloads.dlrm.model.model import load_model
from workloads.dlrm.model.tables import expand_tables

FILE = Path(__file__).with_name("captured_dlrm.py")
CLUSTER, RANKS = "dgx_h100", 8
FRAMEWORK = "pytorch_eager"
BOUND = 0.05
"""Largest difference of iteration times."""


@dataclass(frozen=True, slots=True)
class Amounts:
    """Amounts of a task graph.

    Attributes:
        flops: operations of all products on the rank with most.
        bytes: sizes of the calls of each kind of collective, added up over all ranks.
        time_s: seconds of an iteration.
    """

    flops: float
    bytes: Mapping[str, float]
    time_s: float


def compared(name: str) -> tuple[Amounts, Amounts]:
    """Amounts of the generator's job and of the captured one."""
    with tempfile.TemporaryDirectory() as folder:
        plan = Path(folder) / "plan.json"
        plan.write_text(json.dumps(_plan(name)), encoding="utf-8")
        generated = [
            f"cluster={CLUSTER}", "nodes=1", f"workload.global_batch_size={SAMPLES[name] * RANKS}",
            "workload.pipeline=none", f"workload.sharding={{plan: {plan}}}", f"workload.framework={FRAMEWORK}",
            "workload.optimizer={dense: sgd, tables: rowwise_adagrad}",
            *(f"precision.{key}=fp32" for key in ("dense", "tables", "forward_all_to_all", "backward_all_to_all",
                                                  "all_reduce")),
        ]  # fmt: skip
        job = Path(folder) / "job"
        dlrmsim.capture(f"{FILE}:{name}", world_size=RANKS, cluster=CLUSTER, out=job, indices=_law(name))
        captured = [f"workload.framework={FRAMEWORK}", "precision.dense=fp32"]
        return _amounts(name, generated), _amounts(str(job), captured)


def rows() -> Iterator[Row]:
    """Differences of each model's amounts from the generator's."""
    for name in SAMPLES:
        generated, captured = compared(name)
        yield Row(f"{name} operations", captured.flops / generated.flops - 1.0, "of generator", "<= 0")
        for op, size in generated.bytes.items():
            yield Row(f"{name} {op}", captured.bytes.get(op, 0.0) / size - 1.0, "of generator", "<= 0")
        yield Row(f"{name} time generated", 1e3 * generated.time_s, "ms")
        yield Row(f"{name} time captured", 1e3 * captured.time_s, "ms")
        difference = abs(captured.time_s / generated.time_s - 1.0)
        yield Row(f"{name} time apart", difference, "of generator", f"<= {BOUND}")


def _law(name: str) -> str:
    """Law of lookups of a model."""
    found = load_model(name).index_reuse.value
    return found if isinstance(found, str) else json.dumps(found)


def _plan(name: str) -> dict[str, Any]:
    """Tables dealt out to the ranks in turn, as TorchRec writes a plan."""
    tables = expand_tables(load_model(name), "fp32")
    dealt = {
        table: {"sharding_type": "table_wise", "compute_kernel": "fused", "ranks": [number % RANKS]}
        for number, table in enumerate(tables.names)
    }
    return {"world_size": RANKS, "local_world_size": RANKS, "plan": {"embeddings": dealt}}


def _amounts(scenario: str, settings: list[str]) -> Amounts:
    resolved = load_scenario(scenario, settings)
    graph = prepare(resolved, Silent()).job.workload.graph()
    analysis = simulation_of(resolved, Silent()).analysis
    return Amounts(_flops(graph), _bytes(graph), analysis.iteration.seconds)


def _flops(graph: TaskGraph) -> float:
    """Operations of products and interactions of the first rank."""
    found = 0.0
    for work in graph.programs[0].work:
        if isinstance(work, Gemm):
            found += float(np.max(2.0 * np.asarray(work.m) * work.n * work.k * work.count))
        elif isinstance(work, Interaction):
            found += float(np.max(work.flops))
    return found


def _bytes(graph: TaskGraph) -> dict[str, float]:
    """Bytes of each kind of collective, over all ranks."""
    found: dict[str, float] = {}
    for program in graph.programs:
        for work in program.work:
            if isinstance(work, CollectiveCall):
                size = np.broadcast_to(work.bytes, program.rank_count).sum()
                found[work.op] = found.get(work.op, 0.0) + float(size)
    return found
