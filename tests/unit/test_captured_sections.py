"""Sections about captured jobs: blocks by module, the curve of memory, operators priced by bytes."""

from __future__ import annotations

from pathlib import Path

import msgspec
import numpy as np
import pytest

from reports.sections.memory_curve import memory_curve_section
from scenarios.captured.kernel_times import MOST_BLOCKS, PricedByBytes, block_of, blocks_of, kernel_times
from scenarios.captured.sections import MOST_SAMPLES, fullest, job_section, memory_curve
from scenarios.machine import machine_of
from simulator.compute import ComputeModel
from tests.captured_jobs import JobRecords, resolved_job, small_job, world
from workloads.captured.records import MemoryPeak, Moved, Product, RecordedJob
from workloads.captured.settings import CapturedSettings
from workloads.graph.framework import load_framework

PYTORCH = load_framework("pytorch")


@pytest.fixture(scope="module")
def compute(tmp_path_factory: pytest.TempPathFactory) -> ComputeModel:
    folder: Path = tmp_path_factory.mktemp("job") / "job"
    return machine_of(resolved_job(small_job(), folder)).compute


@pytest.mark.parametrize(
    ("module", "block"),
    [
        ("layers.3.self_attn.q_proj", "layers.3.self_attn"),
        ("layers.3.self_attn", "layers.3.self_attn"),
        ("layers.3", "layers.3"),
        ("model.layers.12.mlp.up", "model.layers.12"),
        ("tables", "tables"),
        ("", "outside modules"),
    ],
)
def test_a_block_has_two_named_levels_and_the_numbers_of_layers(module: str, block: str) -> None:
    assert block_of(module, "forward") == block
    assert block_of("", "optimizer") == "optimizer"


def test_blocks_are_means_over_ranks_and_add_up_to_all_kernels(compute: ComputeModel) -> None:
    records = JobRecords()
    records.add("aten.mm", Product(4096, 4096, 4096, "bf16"), "layers.0.mlp")
    one = records.program([0])
    records.add("aten.mm", Product(4096, 4096, 4096, "bf16"), "layers.0.mlp", "backward")
    records.add("aten.mm", Product(4096, 4096, 4096, "bf16"), "layers.0.mlp", "recompute")
    job = records.job([one, records.program([1, 2, 3])], world(4))
    times = kernel_times(CapturedSettings(job, PYTORCH), compute)
    (row,) = blocks_of(times)
    product_s = times[0].seconds[0]
    found = (row.forward_s, row.again_s, row.backward_s)
    assert found == pytest.approx((product_s / 4, 0.75 * product_s, 0.75 * product_s))


def test_many_blocks_share_a_row(compute: ComputeModel) -> None:
    records = JobRecords()
    for layer in range(MOST_BLOCKS + 20):
        records.add("aten.mm", Product(1024 + layer, 1024, 1024, "bf16"), f"layers.{layer}")
    job = records.job([records.program([0])], world(1))
    times = kernel_times(CapturedSettings(job, PYTORCH), compute)
    rows = list(blocks_of(times))
    assert len(rows) == MOST_BLOCKS + 1
    assert rows[-1].block == "20 other blocks"
    assert sum(row.all_s for row in rows) == pytest.approx(sum(times[0].seconds))


def test_operators_priced_by_bytes_are_named_by_their_time(compute: ComputeModel) -> None:
    records = JobRecords()
    for number in range(5):
        records.add(f"aten.op{number}", Moved(1e8 * (number + 1), 0.0, priced_by_bytes=True))
    records.add("aten.relu", Moved(15e8, 0.0, element_wise=True))
    job = records.job([records.program([0])], world(1))
    found = PricedByBytes.of(kernel_times(CapturedSettings(job, PYTORCH), compute))
    assert found.share == pytest.approx(0.5, rel=0.01)
    assert found.operators == ("aten.op4", "aten.op3", "aten.op2")
    none = PricedByBytes.of([])
    assert none.warning() is None


def with_memory(samples: int, peak_at: int) -> RecordedJob:
    """A job with a number of memory samples; its peak is between two samples."""
    records = JobRecords()
    for number in range(2 * samples):
        records.add("aten.op", Product(8, 8, 8, "fp32"), f"layers.{number}")
    program = records.program([0, 1])
    tasks = tuple(range(0, 2 * samples, 2))
    bytes_ = tuple(float(1e9 + 1e6 * (number % 7)) for number in range(samples))
    memory = MemoryPeak({"activations": 5e9}, peak_at, f"layers.{peak_at}", tasks, {"activations": bytes_})
    return records.job([msgspec.structs.replace(program, memory=memory)], world(2))


@pytest.mark.parametrize(("samples", "peak_at"), [(5000, 4321), (5000, 0), (5000, 9999), (20, 7), (1, 1), (0, 0)])
def test_a_curve_has_few_points_its_peak_and_the_fullest_samples(samples: int, peak_at: int) -> None:
    job = with_memory(max(samples, 1), peak_at) if samples else small_without_samples()
    curve = memory_curve(CapturedSettings(job, PYTORCH), 80e9)
    reserve = PYTORCH.reserve_bytes.value
    assert len(curve.tasks) <= MOST_SAMPLES + 1
    assert list(curve.tasks) == sorted(set(curve.tasks))
    assert curve.tasks[curve.peak] == peak_at
    assert curve.totals[curve.peak] == max(curve.totals) == 5e9 + reserve
    if samples >= MOST_SAMPLES:
        others = np.delete(np.array(curve.totals), curve.peak) - reserve
        assert np.all(others == 1e9 + 6e6), "each run of samples shows its fullest"
    section = memory_curve_section(curve)
    assert "peaks at <b>" in section.html()
    assert section.payload["memoryCurve"]["peak"] == curve.peak


def small_without_samples() -> RecordedJob:
    job = with_memory(1, 0)
    memory = msgspec.structs.replace(job.programs[0].memory, tasks=(), bytes={})
    return msgspec.structs.replace(job, programs=(msgspec.structs.replace(job.programs[0], memory=memory),))


def test_the_fullest_rank_is_that_with_the_largest_peak() -> None:
    records = JobRecords()
    programs = []
    for rank, peak in enumerate((2e9, 6e9, 4e9)):
        records.add("aten.op", Product(8, 8, 8, "fp32"))
        programs.append(records.program([rank], peak=peak))
    assert fullest(records.job(programs, world(3))).ranks == (1,)


@pytest.mark.parametrize("own_factor", [False, True])
@pytest.mark.parametrize("count", [1, 500])
def test_operations_of_small_batched_products_count(compute: ComputeModel, count: int, own_factor: bool) -> None:
    """Products of 27 x 27 in a batch are bound by memory and timed as such; their operations are operations."""
    records = JobRecords()
    records.add("aten.mm", Product(512, 256, 128, "bf16"), "top.0")
    small = Product(27, 27, 64, "bf16", count=count, own_factor=own_factor)
    records.add("aten.bmm", small, "interaction")
    settings = CapturedSettings(records.job([records.program([0])], world(1)), PYTORCH)
    found = job_section(settings, kernel_times(settings, compute))
    assert found["product_flops_per_rank"] == 2 * 512 * 256 * 128 + count * 2 * 27 * 27 * 64
