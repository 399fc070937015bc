"""Times of convolutions against DeepBench's on M40, P100 and V100.

``python -m benchmarks convolutions`` prints the errors.
"""

from __future__ import annotations

import math
from dataclasses import replace
from statistics import mean, median

import pytest

from benchmarks.convolutions import MEASURED, PASSES, errors, measurements
from hardware_specs import load_cluster, load_gpu
from simulator.compute.convolution import FRACTIONS, Fractions
from simulator.compute.gpu import GpuModel
from simulator.operators import Convolution

ROWS = measurements()


def test_every_row_of_the_four_sheets_is_here() -> None:
    assert len(ROWS) > 4 * 94 * 2.8
    assert {(row.gpu, row.operator.precision) for row in ROWS} == set(MEASURED)


@pytest.mark.parametrize("kind", MEASURED)
@pytest.mark.parametrize("passes", [("forward", "inputs"), ("weights",)])
def test_fractions_are_the_best_of_their_generation(kind, passes) -> None:
    def badness(fraction: float) -> float:
        return mean(map(abs, errors(ROWS, *kind, Fractions(fraction, fraction), *passes)))

    ours = FRACTIONS[MEASURED[kind]]
    chosen = ours.weights if passes == ("weights",) else ours.data
    assert badness(chosen) < min(badness(0.02 * step) for step in range(10, 60)) + 0.003


@pytest.mark.parametrize("kind", MEASURED)
def test_median_errors_and_bias(kind) -> None:
    found = errors(ROWS, *kind, FRACTIONS[MEASURED[kind]], *PASSES)
    assert math.expm1(median(map(abs, found))) < (0.45 if kind[1] == "fp16" else 0.30)
    assert abs(mean(found)) < 0.15


def test_winograd_makes_windows_of_3_by_3_much_faster() -> None:
    """Without it large networks of such windows would need more than the peak of a P100 (VGG-16's published rates)."""
    p100 = GpuModel(load_gpu("p100_pcie_16"), load_cluster("piz_daint").node, launch_s=0.0)
    square = Convolution(64, (56, 56, 256), (56, 56, 256), (3, 3), 1, 1, "fp32")
    line = replace(square, kernel=(1, 9))
    assert line.flops == square.flops
    assert p100.duration_s(line) > 2.5 * p100.duration_s(square)
    assert square.flops / p100.duration_s(square) > p100.gpu.peak_flops_per_s("fp32")
