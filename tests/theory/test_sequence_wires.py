"""Vectors of sequences on a narrow wire: 8 bits there and nowhere else, in kernels as in memory."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from scenarios.dlrm.plans import PlanningJob
from scenarios.engine_run import iteration_s
from simulator.collective_calls import CollectiveCall
from simulator.equality import same
from simulator.precisions import WIRE_BYTES
from tests.sequence_jobs import BATCH, model_data, placed, works
from workloads.dlrm.family import DlrmWorkload
from workloads.dlrm.iteration.memory import bytes_beside_tables

LENGTH, TARGETS = 40, 3
ELEMENTS = BATCH * (LENGTH + TARGETS) * (32 + 16) + BATCH * 32
"""Elements of the vectors of a rank's lookups: item and artist, and a user."""
NARROW = ("fp8", "int8")
FP32, BF16 = 4.0, 2.0


def job_of(wire: str, planner: str, **keys: Any) -> tuple[PlanningJob, DlrmWorkload]:
    """A small job with a number format on the wire, both ways."""
    precision = {"forward_all_to_all": wire, "backward_all_to_all": wire}
    model = model_data({"distribution": "fixed"}, max_length=LENGTH, targets=TARGETS)
    return placed(model, 4, precision=precision, sharding={"planner": planner}, **keys)


def tasks_of(wire: str, planner: str) -> dict[str, Any]:
    return works(job_of(wire, planner)[1].graph().programs[0])


@pytest.mark.parametrize("wire", NARROW)
def test_kernels_behind_the_exchange_read_decoded_vectors(wire: str) -> None:
    """The kernel that orders received vectors decodes them to fp32; all others move fp32, and the cast is there."""
    graph = tasks_of(wire, "row_wise")
    narrow = WIRE_BYTES[wire] * ELEMENTS
    expected = {
        "vectors_permute": (narrow, FP32 * ELEMENTS),
        "candidates_concat": (FP32 * ELEMENTS, FP32 * ELEMENTS),
        "vectors_cast": (FP32 * ELEMENTS, BF16 * ELEMENTS),
        "vectors_cast_backward": (BF16 * ELEMENTS, FP32 * ELEMENTS),
        "candidates_concat_backward": (FP32 * ELEMENTS, FP32 * ELEMENTS),
        "vectors_permute_backward": (FP32 * ELEMENTS, narrow),
    }
    for name, moved in expected.items():
        assert (graph[name].read_bytes, graph[name].write_bytes) == pytest.approx(moved), name


@pytest.mark.parametrize("wire", NARROW)
@pytest.mark.parametrize("planner", ["row_wise", "table_wise", "column_wise"])
def test_a_narrow_wire_changes_the_exchange_and_its_ends_alone(planner: str, wire: str) -> None:
    """Calls carry fewer bytes; what encodes and decodes is new; lookups, layers and updates are the same."""
    wide, narrow = (tasks_of(format_, planner) for format_ in ("fp32", wire))
    assert set(wide) <= set(narrow)
    assert all(name.endswith(("_quantise", "_dequantise")) for name in set(narrow) - set(wide))
    changed = {name for name in wide if not same(wide[name], narrow[name])}
    calls = {name for name in changed if isinstance(wide[name], CollectiveCall)}
    assert changed - calls == {"vectors_permute", "vectors_permute_backward"}
    assert calls
    for name in calls:
        assert np.all(narrow[name].bytes == np.asarray(wide[name].bytes) * (WIRE_BYTES[wire] / FP32)), name


@pytest.mark.parametrize("wire", NARROW)
def test_copied_tables_never_have_the_size_of_the_wire(wire: str) -> None:
    """Nothing of theirs travels: graph, memory and time are those of fp32."""
    (wide_job, wide), (narrow_job, narrow) = (job_of(format_, "data_parallel") for format_ in ("fp32", wire))
    assert same(wide.graph().programs[0].work, narrow.graph().programs[0].work)
    times = [iteration_s(job.resolved, made, job.machine) for job, made in ((wide_job, wide), (narrow_job, narrow))]
    assert times[0] == times[1]
    for item, size in wide.memory().tiers["hbm"].items():
        assert np.array_equal(size, narrow.memory().tiers["hbm"][item]), item


@pytest.mark.parametrize("wire", NARROW)
@pytest.mark.parametrize("pipeline", ["none", "sparse_dist", "semi_sync"])
@pytest.mark.parametrize("mode", ["train", "eval"])
def test_memory_holds_decoded_vectors(mode: str, pipeline: str, wire: str) -> None:
    """Activations, with batches looked up ahead, and the room that planners leave for them."""
    wide, narrow = (job_of(format_, "row_wise", pipeline=pipeline, mode=mode) for format_ in ("fp32", wire))
    one, other = (made.memory().tiers["hbm"] for _, made in (wide, narrow))
    assert np.array_equal(other["activations"], one["activations"])
    assert one["activations"].min() > FP32 * ELEMENTS
    left = [bytes_beside_tables(job.resolved.model, job.tables, job.settings) for job, _ in (wide, narrow)]
    assert left[1] == left[0]


@pytest.mark.parametrize("wire", NARROW)
def test_buffers_of_a_narrow_exchange_by_hand(wire: str) -> None:
    """Tables so wide that gradients peak: fp32 ones, the encoded ones that go to the owners, and what an owner gets."""
    tables = [{"name": "item", "rows": 4000, "dim": 1024, "sequence": "history"}]
    model = model_data({"distribution": "fixed"}, max_length=LENGTH, targets=TARGETS, tables=tables)
    precision = {"forward_all_to_all": wire, "backward_all_to_all": wire}
    _, workload = placed(model, 4, precision=precision, sharding={"planner": "row_wise"}, pipeline="none")
    found, elements = workload.memory().tiers["hbm"], BATCH * (LENGTH + TARGETS) * 1024 + BATCH * 32
    assert found["communication buffers"] == pytest.approx(np.full(4, (WIRE_BYTES[wire] + FP32) * elements))
    casts = found["activations"] - FP32 * elements
    assert np.all((casts > 0) & (casts < 1e6))
