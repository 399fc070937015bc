"""``python -m benchmarks attention``: rates of attention kernels on H100, fitted, and the error at each point.

Points come from the figures of forward and backward speeds of FlashAttention-3 (arXiv:2407.08608, figures
5 and 6; numbers above their bars), 16,384 tokens, heads of 2,048 in all. A rate is r s / (s + h) of the peak on
sequences of s tokens; `simulator.compute.attention.RATES` has r and h.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benchmarks.rows import Row
from hardware_specs import load_gpu
from simulator.compute.attention import AttentionRate
from simulator.operators import FloatArray

LENGTHS = (512, 1024, 2048, 4096, 8192, 16384)
"""Tokens of a sequence, a column each."""

START = (0.4, 200.0)


@dataclass(frozen=True, slots=True)
class TimedAttention:
    """A kernel in the figures.

    Attributes:
        kernel: name, width of a head, whether there is a mask, whether it is the backward pass.
        tflops: rate at each of `LENGTHS`, TFLOP/s.
    """

    kernel: tuple[str, int, bool, bool]
    tflops: FloatArray

    @property
    def fitted(self) -> AttentionRate:
        """Rate that fits the points best (least squares of logarithms)."""
        from scipy.optimize import least_squares

        lengths, shares = np.array(LENGTHS), self.tflops * 1e12 / load_gpu("h100_sxm5_80").peak_flops_per_s("fp16")

        def errors(x: FloatArray) -> FloatArray:
            off: FloatArray = np.log(x[0] * lengths / (lengths + x[1]) / shares)
            return off

        found = least_squares(errors, START)
        return AttentionRate(*found.x.tolist())

    def error_pct(self, rate: AttentionRate) -> FloatArray:
        """100 (rate / measured - 1) at each of `LENGTHS`."""
        peak = load_gpu("h100_sxm5_80").peak_flops_per_s("fp16")
        return 100.0 * (np.array([rate.at(length) for length in LENGTHS]) * peak / (self.tflops * 1e12) - 1.0)


def timed() -> Iterator[TimedAttention]:
    """The kernels of the figures."""
    with (Path(__file__).parent / "attention.csv").open(encoding="utf-8") as file:
        for row in csv.DictReader(file):
            kernel = (row["kernel"], int(row["head_dim"]), row["causal"] == "1", row["backward"] == "1")
            yield TimedAttention(kernel, np.array([float(row[f"s{length}"]) for length in LENGTHS]))


def rows() -> Iterator[Row]:
    """Constants, and the error at each point."""
    for kernel in timed():
        name, width, causal, backward = kernel.kernel
        words = f"{name}_{width}{'_causal' if causal else ''}{'_backward' if backward else ''}"
        rate = kernel.fitted
        yield Row(f"{words}_fraction", rate.fraction, "of the peak")
        yield Row(f"{words}_half_tokens", rate.half_tokens, "tokens")
        for length, error in zip(LENGTHS, kernel.error_pct(rate).tolist(), strict=True):
            yield Row(f"{words}_{length}", error, "% error")
