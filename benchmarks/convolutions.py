"""``python -m benchmarks convolutions``: predicted against measured times of convolutions.

``deepbench_convolutions.csv`` has the training convolutions of DeepBench on M40, P100 and V100
(baidu-research/DeepBench, results/train, Apache 2.0): shape, and time of each pass in ms; empty where the sheet has
none.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import mean, median
from typing import get_args

from benchmarks.rows import Row
from hardware_specs.loader import load_gpu
from simulator.compute.convolution import FRACTIONS, ConvolutionRates, Fractions, convolution_s
from simulator.compute.gpu import gemm_rates
from simulator.operators import Convolution, ConvolutionPass
from simulator.precisions import Precision

FILE = Path(__file__).with_name("deepbench_convolutions.csv")
PASSES: tuple[ConvolutionPass, ...] = get_args(ConvolutionPass)

FEWEST_CHANNELS = 4
"""Convolutions of images or spectrograms themselves are left out: they are one layer of a network."""

MEASURED: dict[tuple[str, Precision], tuple[str, bool]] = {
    ("m40_12", "fp32"): ("maxwell", False),
    ("p100_pcie_16", "fp32"): ("pascal", False),
    ("v100_sxm2_16", "fp32"): ("volta", False),
    ("v100_sxm2_16", "fp16"): ("volta", True),
}
"""GPU and precision of each sheet, and the generation whose fractions it gives."""


@dataclass(frozen=True, slots=True)
class PassTime:
    """Measured time of a pass."""

    gpu: str
    operator: Convolution
    seconds: float


def measurements() -> list[PassTime]:
    """All rows of the file, a measurement for each pass."""
    with FILE.open(encoding="utf-8") as file:
        return [found for row in csv.DictReader(file) for found in _passes(row)]


def _passes(row: dict[str, str]) -> Iterator[PassTime]:
    n = {key: int(value) for key, value in row.items() if value.isdigit()}
    height, width = (
        (n[side] + 2 * n[f"pad_{side}"] - n[f"kernel_{side}"]) // n["stride"] + 1 for side in ("height", "width")
    )
    precision = next(p for _, p in MEASURED if p == row["precision"])
    forward = Convolution(
        images=n["images"],
        inputs=(n["height"], n["width"], n["channels"]),
        outputs=(height, width, n["out_channels"]),
        kernel=(n["kernel_height"], n["kernel_width"]),
        stride=n["stride"],
        groups=1,
        precision=precision,
    )
    for direction in PASSES:
        if row[f"{direction}_ms"]:
            yield PassTime(row["gpu"], replace(forward, direction=direction), float(row[f"{direction}_ms"]) / 1e3)


def errors(
    rows: Sequence[PassTime], gpu: str, precision: Precision, fractions: Fractions, *passes: ConvolutionPass
) -> list[float]:
    """Logarithms of predicted over measured time of a GPU's rows with at least `FEWEST_CHANNELS`."""
    spec = load_gpu(gpu)
    stream = spec.memory_bytes_per_s.value * spec.achieved.stream_fraction.value
    start_s = spec.achieved.kernel_floor_s.value
    rates = ConvolutionRates(gemm_rates(spec, precision), fractions, stream, start_s)
    return [
        math.log(convolution_s(row.operator, rates) / row.seconds)
        for row in rows
        if (row.gpu, row.operator.precision) == (gpu, precision)
        and row.operator.direction in passes
        and row.operator.inputs[2] >= FEWEST_CHANNELS
    ]


def rows() -> Iterator[Row]:
    """Median absolute error and bias by GPU, precision and pass, per cent."""
    found = measurements()
    for (gpu, precision), generation in MEASURED.items():
        for direction in PASSES:
            logs = errors(found, gpu, precision, FRACTIONS[generation], direction)
            name = f"{gpu}_{precision}_{direction}"
            yield Row(f"{name}_median", 100.0 * math.expm1(median(map(abs, logs))), "%")
            yield Row(f"{name}_bias", 100.0 * math.expm1(mean(logs)), "%")
