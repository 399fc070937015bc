"""Kernels of captured steps against closed forms and the DLRM generator: durations, amounts of lookups, fusion."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from inputs.yaml_lines import Document
from scenarios.dlrm.plans import PlanningJob, plan_of
from scenarios.resolve import resolve
from simulator.operators import Elementwise, EmbeddingLookup, EmbeddingUpdate, Gemm, Interaction
from simulator.program import Program
from tests.captured_jobs import (
    GEMM,
    ROWS,
    JobRecords,
    framework,
    graph_of,
    machine,
    settings_of,
    world,
)
from workloads.captured.kernels import operators_of
from workloads.captured.records import (
    AttentionWork,
    ConvolutionWork,
    CopyWork,
    DType,
    HostWait,
    Lookup,
    Moved,
    OptimizerWork,
    Product,
    RecordedWork,
    Table,
    Update,
)
from workloads.captured.settings import CapturedSettings
from workloads.catalogs import REUSE
from workloads.dlrm.iteration.groups import EmbeddingGroup
from workloads.dlrm.laws.index_laws import Indices, Law, make_law


def kernel(work: RecordedWork, **changes: object) -> object:
    """Operator of a work."""
    records = JobRecords()
    records.add("aten.op", work)
    job = records.job([records.program([0])], world(1))
    return operators_of(settings_of(job, **changes))[0]


# Operators


def test_a_large_product_takes_its_operations_over_the_reached_peak() -> None:
    model = machine(1).compute
    operator = kernel(GEMM)
    assert isinstance(operator, Gemm)
    reached = 2.0 * 8192**3 / model.flops_per_s("bf16")  # type: ignore[attr-defined]
    assert float(model.duration_s(operator)) == pytest.approx(reached, rel=0.15)
    assert model.duration_s(operator) == model.duration_s(Gemm(8192, 8192, 8192, "bf16"))


@pytest.mark.parametrize(
    ("dtype", "tf32", "precision"),
    [
        ("fp32", False, "fp32"),
        ("fp32", True, "tf32"),
        ("bf16", True, "bf16"),
        ("fp64", True, "fp64"),
        ("fp8", False, "fp8"),
        ("int8", False, "fp32"),
        ("int64", True, "fp32"),
        ("bool", False, "fp32"),
    ],
)
def test_products_compute_in_their_type_and_fp32_in_that_of_the_scenario(
    dtype: DType, tf32: bool, precision: str
) -> None:
    operator = kernel(Product(128, 64, 32, dtype, count=3, transposed=True), tf32=tf32)
    assert operator == Gemm(128, 64, 32, precision, 3, transposed=True)  # type: ignore[arg-type]


def test_batches_of_small_products_are_bound_by_memory_as_a_dot_interaction_is() -> None:
    """A batch of 27 x 128 matrices times themselves: read once, products written, 2 m n k operations each."""
    found = kernel(Product(27, 27, 128, "fp32", count=10, own_factor=True))
    assert found == Interaction(10 * 2.0 * 27 * 27 * 128, 10 * 4.0 * 27 * 128, 10 * 4.0 * 27 * 27, "fp32")
    both = kernel(Product(27, 27, 128, "fp32", count=10))
    assert isinstance(both, Interaction)
    assert both.read_bytes == 2 * found.read_bytes
    assert isinstance(kernel(Product(27, 27, 128, "fp32")), Gemm)


def test_each_kind_of_work_keeps_its_amounts() -> None:
    moved = kernel(Moved(3.0, 2.0, element_wise=True, next_read_bytes=1.0, next_only_bytes=0.5))
    assert moved == Elementwise(3.0, 2.0, next_read_bytes=1.0, next_only_bytes=0.5)
    attention = kernel(AttentionWork(1e12, 1e9, 128, 2048, "bf16", causal=True, backward=True))
    assert (attention.flops, attention.bytes, attention.causal, attention.backward) == (1e12, 1e9, True, True)  # type: ignore[attr-defined]
    convolution = kernel(ConvolutionWork(32, (56, 56, 64), (56, 56, 128), (3, 3), 1, 1, "fp16", "weights"))
    assert convolution.flops == 2.0 * 32 * 56 * 56 * 128 * 9 * 64  # type: ignore[attr-defined]
    assert kernel(OptimizerWork(10, 280.0)).traffic_bytes == 280.0  # type: ignore[attr-defined]
    assert kernel(CopyWork(64.0, "d2h")).direction == "d2h"  # type: ignore[attr-defined]


# Lookups


LAWS = {
    "uniform": "uniform",
    "zipf": {"distribution": "zipf", "exponent": 1.05},
    "reuse": next(iter(REUSE.names())),
}


def law_of(name: str) -> Law:
    """The law as a captured job takes it."""
    given = LAWS[name]
    return make_law(given if isinstance(given, str) else Indices.model_validate(given))


def dlrm_kernels(table: Table, law: str, optimizer: str) -> EmbeddingGroup:
    """The table in a DLRM on one rank, as the generator places it: its lookup and its update."""
    fp32 = ("dense", "tables", "forward_all_to_all", "backward_all_to_all", "all_reduce")
    model = {
        "name": "one",
        "title": "one table",
        "tables": [{"rows": table.rows, "dim": table.dim, "pooling_factor": table.lookups / table.bags}],
        "mlp": {"dense_features": 13, "bottom": [128], "top": [1]},
        "interaction": "cat",
        "index_reuse": "uniform",
        "local_batch_size": table.bags,
    }
    workload = {
        "model": model,
        "framework": "pytorch",
        "indices": LAWS[law],
        "optimizer": {"tables": optimizer},
        "sharding": {"planner": "table_wise"},
    }
    data = {"name": "one", "cluster": "dgx_h100", "world_size": 1, "workload": workload}
    data["precision"] = dict.fromkeys(fp32, "fp32")
    job = PlanningJob.of(resolve(Document(data, {}, Path("test.yaml"))))
    (group,) = job.workload(plan_of(job)).job.groups
    return group


def same_amounts(one: object, other: object) -> None:
    """Check that two kernels have equal amounts."""
    for name in type(one).__dataclass_fields__:  # type: ignore[attr-defined]
        mine, theirs = getattr(one, name), getattr(other, name)
        if name == "missed":
            assert np.array_equal(mine.bytes, theirs.bytes)
        else:
            assert mine == theirs, name


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("optimizer", ["sgd", "adagrad", "rowwise_adagrad", "adam"])
@pytest.mark.parametrize("pooling", [1, 20])
def test_lookups_are_those_of_the_dlrm_generator(law: str, optimizer: str, pooling: int) -> None:
    samples = 4096
    table = Table(1_000_000, 128, samples * pooling, samples)
    expected = dlrm_kernels(table, law, optimizer)
    records = JobRecords()
    records.add("lookup", Lookup((table,), "fp32"))
    records.add("update", Update((table,), "fp32", optimizer=optimizer))  # type: ignore[arg-type]
    job = records.job([records.program([0])], world(1), samples=samples)
    lookup, update = operators_of(CapturedSettings(job, framework("pytorch"), law_of(law)))
    same_amounts(lookup, expected.lookup)
    same_amounts(update, expected.update)


def test_tables_of_several_sizes_add_up_in_one_kernel() -> None:
    one, other = Table(ROWS, 64, 4096, 1024), Table(2 * ROWS, 32, 2048, 2048)
    both = kernel(Lookup((one, other), "fp16", output_dtype="fp16"))
    assert isinstance(both, EmbeddingLookup)
    assert both.lookups == 6144
    assert both.row_bytes == 2.0 * (4096 * 64 + 2048 * 32)
    assert both.output_bytes == 2.0 * (1024 * 64 + 2048 * 32)
    assert both.index_bytes == 8 * 6144 + framework().length_bytes.value * 3072
    assert both.tables == 2
    alone = [kernel(Lookup((table,), "fp16", output_dtype="fp16")) for table in (one, other)]
    assert np.allclose(both.missed.bytes, sum(each.missed.bytes for each in alone))  # type: ignore[union-attr,attr-defined]


def test_gradients_without_an_optimizer_are_of_all_rows_or_of_those_that_are_looked_up() -> None:
    table = Table(ROWS, 64, 4096, 4096)
    fused = kernel(Update((table,), "fp32", optimizer="sgd"))
    dense = kernel(Update((table,), "fp32", dense=True))
    sparse = kernel(Update((table,), "fp32"))
    assert isinstance(fused, EmbeddingUpdate)
    assert isinstance(dense, EmbeddingUpdate)
    assert isinstance(sparse, EmbeddingUpdate)
    assert fused.unique_rows == pytest.approx(ROWS * (1 - (1 - 1 / ROWS) ** 4096), rel=1e-3)
    assert dense.weight_bytes == 2.0 * ROWS * 64 * 4
    assert sparse.weight_bytes == sparse.unique_rows * 64 * 4 == fused.weight_bytes / 2
    assert (dense.state_bytes, sparse.state_bytes) == (0.0, 0.0)
    assert fused.gradient_bytes == dense.gradient_bytes == 4096 * 64 * 4
    half = kernel(Update((table,), "fp32", gradient_dtype="bf16"))
    assert half.gradient_bytes == fused.gradient_bytes / 2  # type: ignore[attr-defined]


# Fusion


def chain(*works: RecordedWork, **changes: object) -> Program:
    """The program of works on one stream, fused."""
    records = JobRecords()
    for number, work in enumerate(works):
        records.add(f"aten.op{number}", work, "block", **(changes if number == len(works) - 1 else {}))  # type: ignore[arg-type]
    return graph_of(records.job([records.program([0])], world(1)), fuse="elementwise").programs[0]


FIRST = Moved(3.0, 2.0, element_wise=True, next_read_bytes=2.0, next_only_bytes=2.0)
SECOND = Moved(4.0, 1.0, element_wise=True, next_read_bytes=1.0, next_only_bytes=0.5)
THIRD = Moved(1.0, 1.0, element_wise=True)


def test_a_chain_moves_no_tensor_that_it_passes() -> None:
    program = chain(FIRST, SECOND, THIRD)
    assert program.names == ("begin", "launch_block.op0_op1_op2", "block.op0_op1_op2")
    work = program.work[-1]
    assert isinstance(work, Elementwise)
    assert (work.read_bytes, work.write_bytes) == (3.0 + 4.0 + 1.0 - 2.0 - 1.0, 2.0 + 1.0 + 1.0 - 2.0 - 0.5)


@pytest.mark.parametrize(
    ("works", "changes"),
    [
        ((FIRST, Product(8, 8, 8, "fp32"), THIRD), {}),
        ((Moved(3.0, 2.0, next_read_bytes=2.0), THIRD), {}),
        ((Moved(3.0, 2.0, element_wise=True), THIRD), {}),
        ((FIRST, THIRD), {"section": "backward"}),
        ((FIRST, THIRD), {"after": [0]}),
        ((FIRST, THIRD), {"after_streams": [0]}),
        ((FIRST, HostWait(), THIRD), {}),
    ],
)
def test_other_neighbours_stay_apart(works: tuple[RecordedWork, ...], changes: dict[str, object]) -> None:
    program = chain(*works, **changes)
    assert sum(isinstance(work, Elementwise) for work in program.work) == sum(isinstance(w, Moved) for w in works)


def test_without_fusion_every_kernel_is_its_own() -> None:
    records = JobRecords()
    for work in (FIRST, SECOND, THIRD):
        records.add("aten.op", work)
    graph = graph_of(records.job([records.program([0])], world(1)))
    assert sum(isinstance(work, Elementwise) for work in graph.programs[0].work) == 3
