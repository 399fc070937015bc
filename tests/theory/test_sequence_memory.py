"""Memory of jobs of sequences: weights by hand, vectors in flight in closed form, room that planners leave."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from scenarios.capacity import capacities_bytes
from scenarios.dlrm.plans import PlanningJob, plan_of
from scenarios.resolve import load_scenario
from tests.sequence_jobs import (
    BATCH,
    BUCKETS,
    HEADS,
    HIDDEN,
    ITEM,
    LAYERS,
    QUERY,
    VALUE,
    WIDTH,
    model_data,
    placed,
)
from workloads.dlrm.iteration.memory import bytes_beside_tables, stored_on_ranks
from workloads.dlrm.model.tables import expand_tables
from workloads.graph.memory import MemoryUse

MLPERF_ROWS = {
    "item": 9_390_624,
    "artist": 1_293_395,
    "album": 3_367_692,
    "uid": 1_000_001,
    "crosses": 100_000_000 + 40_000_000 + 24_000_000 + 40_000_000 + 32_000_000 + 2_000_000 + 40_000_000,
}
BF16, FP16, FP32 = 2, 2, 4
RESERVE = 2 * 2**30


def mlperf(*settings: str) -> PlanningJob:
    return PlanningJob.of(load_scenario("mlperf_dlrm_v4_hstu", settings))


def test_tables_of_mlperf_are_600_gb_and_75_gb_a_gpu():
    """293 million rows of 512 numbers, 4 bytes each; by rows they spread over eight GPUs to within a row a table."""
    weights = 512 * 4 * sum(MLPERF_ROWS.values())
    assert weights / 1e9 == pytest.approx(600.2, abs=0.05)
    job = mlperf("workload.sharding.planner=row_wise")
    assert expand_tables(job.resolved.model, "fp32").weight_bytes.sum() == weights
    stored = stored_on_ranks(job.make("row_wise"), job.settings)["hbm", "weights"]
    assert stored.sum() == weights
    assert stored / 1e9 == pytest.approx(np.full(8, 75.0), abs=0.05)
    assert stored.max() - stored.min() <= 11 * 8 * 512 * 4


@pytest.mark.parametrize("planner", ["greedy", "row_wise"])
def test_the_shipped_job_fits_its_gpus(planner: str):
    job = mlperf(f"workload.sharding.planner={planner}")
    report = job.report(plan_of(job))
    assert report.fits
    usable = capacities_bytes(job.resolved.cluster, 8)["hbm"]
    assert total(report.use).max() <= usable
    assert total(report.use).min() > 600.2e9 / 8


def total(use: MemoryUse) -> np.ndarray:
    """Device memory of each rank, bytes."""
    return sum(use.tiers["hbm"].values(), np.zeros(1))


def of_small(ranks: int = 4, **changes: Any) -> tuple[PlanningJob, dict[str, np.ndarray]]:
    """The items of a small job by rows on each rank, without wire or kernels of other lengths than full ones."""
    model = model_data({"distribution": "fixed"}, max_length=40, targets=3, **changes)
    job, workload = placed(model, ranks, sharding={"planner": "row_wise"}, pipeline="none")
    return job, {name: np.asarray(size) for name, size in workload.memory().tiers["hbm"].items()}


def dense_parameters() -> int:
    """Numbers of the layers of `tests.sequence_jobs`, by hand."""
    uvqk = HEADS * 2 * (QUERY + VALUE)
    layer = 2 * (WIDTH + HEADS * VALUE) + WIDTH * uvqk + uvqk + 3 * HEADS * VALUE * WIDTH
    mlps = sum(inputs * HIDDEN + HIDDEN + HIDDEN * WIDTH + WIDTH for inputs in (32, 16, 8))
    item = 48 * ITEM + ITEM + ITEM * WIDTH + WIDTH
    context, positions = 32 * WIDTH + WIDTH, BUCKETS * WIDTH
    top = WIDTH * 64 + 64 + 64 * 1 + 1
    return LAYERS * layer + mlps + item + context + positions + top


OWN, EVERY, CANDIDATES = BATCH * 43, BATCH * 44, BATCH * 3
"""Positions of a rank: 40 and 3 candidates a sample, with one contextual position 44."""
ELEMENTS = OWN * (32 + 16) + BATCH * 32
"""Elements of the vectors of its lookups."""


def test_parameters_and_gradients_by_hand():
    _, found = of_small()
    parameters = dense_parameters()
    tables = sum(-(-rows // 4) * dim * 4 for rows, dim in ((1000, 32), (200, 16), (500, 32)))
    assert found["gradients"].tolist() == [4 * parameters] * 4
    assert found["weights"].tolist() == [tables + 4 * parameters] * 4
    assert found["framework reserve"].tolist() == [RESERVE] * 4


@pytest.mark.parametrize("recompute", [False, True])
def test_activations_by_hand(recompute: bool):
    """The largest of three moments. With few rows the end of the forward pass: received vectors in fp32, all that
    autograd keeps in bf16, the last layer's normalised input and UVQK if they are computed again, casts of weights."""
    _, found = of_small(recompute=recompute)
    values, queries = HEADS * VALUE, HEADS * QUERY
    projected = 2 * (values + queries)
    layer = WIDTH + 2 * values + (0 if recompute else WIDTH + 2 * queries + values + 3 * values)
    mlps = 3 * (2 * HIDDEN + WIDTH)
    kept = OWN * mlps + EVERY * (LAYERS * layer + WIDTH) + CANDIDATES * (2 * ITEM + WIDTH + 2 * WIDTH)
    mask = EVERY * WIDTH
    common = BF16 * (ELEMENTS + kept) + mask
    forward = FP32 * ELEMENTS + common + (BF16 * EVERY * max(WIDTH + projected, 3 * values) if recompute else 0)
    backward = common + BF16 * EVERY * (2 * WIDTH + 2 * projected + values)
    casts = BF16 * dense_parameters()
    assert found["activations"] == pytest.approx(np.full(4, max(forward, backward) + casts), rel=1e-12)
    assert found["communication buffers"].tolist() == [0.0] * 4


def test_wide_vectors_peak_when_their_gradients_are_exchanged():
    """Tables so wide that the third moment is the largest: gradients, their copy in the order of the owners, and those
    that an owner receives; all in fp16 but for what the forward exchange has larger (fp32)."""
    tables = [{"name": "item", "rows": 4000, "dim": 1024, "sequence": "history"}]
    model = model_data({"distribution": "fixed"}, max_length=40, targets=3, tables=tables)
    precision = {"forward_all_to_all": "fp16", "backward_all_to_all": "fp32"}
    _, workload = placed(model, 4, precision=precision, sharding={"planner": "row_wise"}, pipeline="none")
    found = workload.memory().tiers["hbm"]
    elements = OWN * 1024 + BATCH * 32
    assert found["communication buffers"] == pytest.approx(np.full(4, 2 * FP32 * elements), rel=1e-12)
    casts = found["activations"] - FP32 * elements
    assert np.all((casts > 0) & (casts < 1e6))


def test_batches_ahead_hold_vectors_on_the_device():
    """A pipeline that looks up a batch ahead holds its received vectors in the number format of the wire."""
    model = model_data({"distribution": "fixed"}, max_length=40, targets=3)
    one, ahead = (
        placed(model, 4, sharding={"planner": "row_wise"}, pipeline=pipeline)[1].memory().tiers["hbm"]
        for pipeline in ("sparse_dist", "semi_sync")
    )
    assert np.asarray(ahead["activations"] - one["activations"]) == pytest.approx(np.full(4, FP32 * ELEMENTS))


def test_an_evaluation_keeps_neither_gradients_nor_activations():
    model = model_data({"distribution": "fixed"}, max_length=40, targets=3)
    trained, evaluated = (
        placed(model, 4, sharding={"planner": "row_wise"}, mode=mode)[1].memory().tiers["hbm"]
        for mode in ("train", "eval")
    )
    assert np.all(np.asarray(evaluated["gradients"]) == 0.0)
    assert np.all(evaluated["activations"] < trained["activations"])
    assert np.array_equal(evaluated["weights"], trained["weights"])


@pytest.mark.parametrize("wire", ["fp32", "fp16", "fp8"])
@pytest.mark.parametrize("dim", [16, 1024])
def test_an_evaluation_needs_the_largest_of_its_three_moments(dim: int, wire: str):
    """Of a layer with its input, of candidates joined to histories, of the exchange; narrow tables and wide ones.

    A layer: received vectors at rest and cast, x, UVQK, and the attention or x normalised. Joined: both copies, as many
    bytes as an owner gives and receives.
    """
    tables = [{"name": "item", "rows": 1000, "dim": dim, "sequence": "history"}]
    model = model_data({"distribution": "fixed"}, max_length=40, targets=3, tables=tables)
    keys = {"mode": "eval", "pipeline": "none", "sharding": {"planner": "row_wise"}}
    _, workload = placed(model, 4, precision={"forward_all_to_all": wire}, **keys)
    found = workload.memory().tiers["hbm"]
    elements, rest = OWN * dim + BATCH * 32, FP16 if wire == "fp16" else FP32
    layer = EVERY * (WIDTH + 2 * HEADS * (VALUE + QUERY) + max(HEADS * VALUE, WIDTH))
    moments = (elements * (rest + BF16) + BF16 * layer, 2 * elements * rest)
    size = found["activations"] + found["communication buffers"]
    casts = BF16 * workload.job.dense.bytes / FP32
    assert size == pytest.approx(np.full(4, max(moments) + casts), rel=1e-12)


LAYOUTS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "full": ({"distribution": "fixed"}, {}),
    "drawn": ({"distribution": "lognormal", "mean": 60.0, "deviation": 1.0}, {}),
    "padded": ({"distribution": "lognormal", "mean": 60.0, "deviation": 1.0}, {"sequence_layout": "padded"}),
    "ahead": ({"distribution": "geometric", "mean": 60.0}, {"pipeline": "semi_sync"}),
    "once": ({"distribution": "geometric", "mean": 60.0}, {"sharding": {"planner": "row_wise", "index_dedup": True}}),
    "evaluated": ({"distribution": "geometric", "mean": 60.0}, {"mode": "eval"}),
    "narrow": (
        {"distribution": "geometric", "mean": 60.0},
        {"precision": {"forward_all_to_all": "fp8", "backward_all_to_all": "int8"}},
    ),
    "uneven": ({"distribution": "geometric", "mean": 60.0}, {"global_batch_size": 4 * 512 + 3}),
}
OF_LENGTHS = 1e-3
"""Lengths of all samples, which every rank has of tables cut by rows, are too few bytes to be counted before a plan."""
WIDE = {"width": 256, "heads": 4, "qk_width": 64, "value_width": 64, "preprocessor_width": 128}


def beside(job: PlanningJob, use: MemoryUse, plan: Any) -> Iterator[float]:
    """Device memory that is not for sharded tables on each rank."""
    stored = stored_on_ranks(plan, job.settings)
    tables = sum(size for (tier, _), size in stored.items() if tier == "hbm")
    yield from (total(use) - tables).tolist()


@pytest.mark.parametrize("layout", LAYOUTS)
def test_planners_leave_the_room_that_a_job_needs(layout: str):
    """On even plans: never less than memory counts beside tables, and at most a fifth more, the reserve left out."""
    lengths, workload = LAYOUTS[layout]
    tables = [{"name": "item", "rows": 8000, "dim": 256, "sequence": "history"}]
    model = model_data(lengths, max_length=512, tables=tables, **WIDE)
    sharding = {"sharding": {"planner": "row_wise"}, "global_batch_size": 2048}
    job, made = placed(model, 4, **(sharding | workload))
    left = bytes_beside_tables(job.resolved.model, job.tables, job.settings) - RESERVE
    needed = max(beside(job, made.memory(), made.plan)) - RESERVE
    assert needed > 0.1e9
    assert needed <= left * (1 + OF_LENGTHS)
    assert left <= 1.2 * needed


def test_planners_leave_the_room_of_the_shipped_job():
    job = mlperf("workload.sharding.planner=row_wise")
    made = job.workload(job.make("row_wise"))
    left = bytes_beside_tables(job.resolved.model, job.tables, job.settings)
    needed = max(beside(job, made.memory(), made.plan))
    assert needed * (1 - OF_LENGTHS) <= left <= 1.2 * needed
