"""Exchanges in 8 bits: fewer bytes on the wire, and a pass over fp32 on either side."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from scenarios.dlrm.plans import PlanningJob
from scenarios.resolve import load_scenario
from simulator.collective_calls import CollectiveCall
from simulator.operators import Elementwise
from workloads.dlrm.iteration.generate import generate
from workloads.dlrm.sharding import plan_from_dict

RANKS, BATCH = 16, 16 * 1024
PLACES: dict[str, dict[str, Any]] = {
    "table_wise": {},
    "row_wise": {"ranks": list(range(RANKS))},
    "table_row_wise": {"ranks": list(range(8))},
}


def works(wire: str, kind: str) -> dict[str, Any]:
    """Work of each task by name, one sharding type for all tables."""
    precision = [f"precision.{direction}_all_to_all={wire}" for direction in ("forward", "backward")]
    sets = [
        "workload.framework=neo",
        "cluster=dgx_a100_80",
        f"world_size={RANKS}",
        f"workload.global_batch_size={BATCH}",
    ]
    job = PlanningJob.of(load_scenario("mlperf_dlrm_v1", [*sets, *precision]))
    entries = {
        name: {"sharding_type": kind, "compute_kernel": "fused", **(PLACES[kind] or {"ranks": [number % RANKS]})}
        for number, name in enumerate(job.tables.names)
    }
    layout = {"world_size": RANKS, "local_world_size": 8, "plan": {"": entries}}
    plan = plan_from_dict(layout, job.tables, RANKS, 8)
    graph = generate(job.resolved.model, plan, job.settings)
    return {
        name: work
        for program in graph.programs
        for name, work in zip(program.names, program.work, strict=True)
        if isinstance(work, CollectiveCall | Elementwise)
    }


@pytest.mark.parametrize(("wire", "element"), [("fp8", 1.0), ("int8", 1.25)])
@pytest.mark.parametrize("kind", ["table_wise", "table_row_wise"])
def test_all_to_all_in_8_bits(kind: str, wire: str, element: float) -> None:
    """A value less than a third of fp32; quantised from fp32 before it is sent, brought back when it is received."""
    whole, narrow = works("fp32", kind), works(wire, kind)
    calls = [name for name, work in whole.items() if isinstance(work, CollectiveCall) and "output_dist" in name]
    exchanged = [name for name in calls if whole[name].op == "all_to_all"]
    assert len(exchanged) == 2
    for name in exchanged:
        assert np.allclose(narrow[name].bytes, np.asarray(whole[name].bytes) * element / 4)
        assert narrow[name].dtype == wire
    forward, backward = exchanged
    quantise, back = narrow[f"{forward}_quantise"], narrow[f"{backward}_dequantise"]
    assert np.allclose(quantise.read_bytes, whole[forward].bytes)
    assert np.allclose(quantise.write_bytes, narrow[forward].bytes)
    assert np.sum(back.read_bytes) == pytest.approx(np.sum(quantise.write_bytes), rel=1e-9)
    assert np.sum(back.write_bytes) == pytest.approx(np.sum(quantise.read_bytes), rel=1e-9)


@pytest.mark.parametrize("kind", ["row_wise", "table_row_wise"])
def test_sums_fall_back_to_16_bits(kind: str) -> None:
    """reduce_scatter adds fp16, all_gather brings bf16, as with TorchRec; nothing is quantised for them."""
    whole, narrow = works("fp32", kind), works("fp8", kind)
    for name, work in whole.items():
        if isinstance(work, CollectiveCall) and work.op in ("reduce_scatter", "all_gather") and "output_dist" in name:
            assert narrow[name].dtype == {"reduce_scatter": "fp16", "all_gather": "bf16"}[work.op]
            assert np.allclose(narrow[name].bytes, np.asarray(work.bytes) / 2)
            assert f"{name}_quantise" not in narrow


@pytest.mark.parametrize("wire", ["fp32", "fp16", "bf16"])
def test_other_types_are_not_quantised(wire: str) -> None:
    assert not [name for name in works(wire, "table_wise") if "quantise" in name]
