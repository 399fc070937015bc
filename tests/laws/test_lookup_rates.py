"""Lookups are no faster than the L2 of any shipped GPU, nor than its memory where nobody measured the L2."""

from __future__ import annotations

import numpy as np
import pytest

from hardware_specs import load_cluster, load_gpu
from hardware_specs.catalogs import CATALOGS
from simulator.compute.gpu import GpuModel
from simulator.operators import EmbeddingLookup, Misses

GPUS = sorted(CATALOGS["gpu"].names())
UNMEASURED = {"a30_24", "a40_48", "b200_sxm_180", "gb200_186", "k80_12", "m40_12", "rtx_3080_10"}
UNMEASURED |= {"b300_sxm_288", "gb300_288", "mi300x_192", "mi325x_256", "mi350x_288", "mi355x_288"}
"""GPUs of which no measured L2 rate is public."""
ROWS = 1e12
"""Bytes of rows that are looked up: a second or so, beside which no kernel start counts."""


def rate(name: str, missed: float) -> float:
    """Bytes of rows per second of a lookup of which a share is not in the L2."""
    model = GpuModel(load_gpu(name), load_cluster("zionex").node, launch_s=0.0)
    curve = Misses(np.array([0.0, 1.0]), np.array([ROWS, missed * ROWS]))
    return ROWS / float(model.duration_s(EmbeddingLookup(1.0, ROWS, 0.0, 0.0, 1, missed=curve)))


@pytest.mark.parametrize("name", GPUS)
@pytest.mark.parametrize("missed", [0.0, 0.1, 0.5, 0.9, 1.0])
def test_lookups_are_no_faster_than_the_l2_or_without_one_than_the_memory(name, missed):
    gpu = load_gpu(name)
    known = gpu.l2_bytes_per_s
    allowed = gpu.memory_bytes_per_s.value if known is None else known.value

    assert (known is None) == (name in UNMEASURED)
    assert rate(name, missed) <= 1.000001 * allowed
    assert rate(name, missed) >= 0.999999 * gpu.embedding_bytes_per_s, "the L2 never slows a lookup down"
    assert missed < 1.0 or rate(name, missed) == pytest.approx(gpu.embedding_bytes_per_s)


@pytest.mark.parametrize("name", GPUS)
def test_a_measured_l2_is_faster_than_its_memory(name):
    """2.0 times on H200 to 6.0 times on L40: a rate outside is one of another unit or another GPU."""
    gpu = load_gpu(name)
    if gpu.l2_bytes_per_s is not None:
        assert 1.5 < gpu.l2_bytes_per_s.value / gpu.memory_bytes_per_s.value < 7.0
