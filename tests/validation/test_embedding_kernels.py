"""Embedding kernels that others timed: errors as the docs state them."""

from __future__ import annotations

import pytest

from hardware_specs import load_cluster, load_gpu
from simulator.compute import GpuModel
from validation.suites.embedding_rows import EmbeddingRow, embedding_rows


@pytest.mark.parametrize("row", embedding_rows(), ids=lambda row: f"{row.gpu}-{row.kind}-{row.time_s * 1e6:.0f}")
def test_timed_kernels_are_met_within_five_percent(row: EmbeddingRow) -> None:
    """Two constants for four H100 rows, none for V100: the largest error is 3.9 %."""
    model = GpuModel(load_gpu(row.gpu), load_cluster("zionex").node, launch_s=0.0)
    assert float(model.duration_s(row.operator)) == pytest.approx(row.time_s, rel=0.05)


def test_skew_makes_lookups_faster_and_uniform_indices_do_not() -> None:
    """The H100 rows repeat two thirds of their rows within tables whose distinct rows fit into the L2."""
    row = next(row for row in embedding_rows() if row.gpu == "h100_sxm5_80" and row.kind == "lookup")
    missed = row.operator.missed
    assert missed is not None
    l2_bytes = load_gpu(row.gpu).l2_bytes.value
    assert missed.at(l2_bytes) == pytest.approx(10 * 35_028 * 512, rel=0.01)
    assert missed.at(0.0) == pytest.approx(10 * 104_857 * 512, rel=1e-9)
