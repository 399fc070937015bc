"""Rates of attention kernels: the constants are the fit of the published points, and laws of the rate."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.attention import LENGTHS, timed
from simulator.compute.attention import RATES, attention_fraction, is_measured
from simulator.operators import Attention

KERNELS = {kernel.kernel: kernel for kernel in timed()}


def attention(kernel: str = "flash2", tokens: int = 8192, **changes: object) -> Attention:
    return Attention(**{"flops": 1e12, "bytes": 1e6, "head_dim": 128, "sequence": tokens, "precision": "bf16",
                        "kernel": kernel, **changes})  # fmt: skip


def test_every_timed_kernel_has_a_rate_and_no_other_has():
    assert set(RATES) == set(KERNELS)


@pytest.mark.parametrize("kernel", KERNELS, ids=str)
def test_constants_are_the_fit_of_the_points(kernel):
    fitted, shipped = KERNELS[kernel].fitted, RATES[kernel]
    assert shipped.fraction == pytest.approx(fitted.fraction, abs=5e-4)
    assert shipped.half_tokens == pytest.approx(fitted.half_tokens, abs=1.0)
    assert np.abs(KERNELS[kernel].error_pct(shipped)).max() < 6.0
    assert len(LENGTHS) == len(KERNELS[kernel].tflops)


@pytest.mark.parametrize("backward", [False, True])
@pytest.mark.parametrize("kernel", ["flash2", "flash3", "cudnn"])
def test_rates_rise_with_the_sequence_and_fall_with_a_mask(kernel, backward):
    rates = [attention_fraction("hopper", attention(kernel, n, backward=backward)) for n in LENGTHS]
    masked = [attention_fraction("hopper", attention(kernel, n, backward=backward, causal=True)) for n in LENGTHS]
    assert rates == sorted(rates)
    assert all(with_mask < without for with_mask, without in zip(masked, rates, strict=True))


def test_an_a100_reaches_what_its_paper_prints():
    """Up to 73 % of 312 TFLOP/s in the forward pass (arXiv:2307.08691)."""
    assert attention_fraction("ampere", attention(tokens=10**9)) == pytest.approx(0.73, rel=1e-6)


def test_other_kernels_than_flash2_are_measured_on_hopper_alone():
    assert is_measured("hopper", attention("cudnn"))
    assert is_measured("ampere", attention("flash2"))
    assert not is_measured("ampere", attention("cudnn"))
    assert not is_measured("blackwell", attention("flash2"))


@pytest.mark.parametrize(("width", "like"), [(32, 64), (80, 64), (112, 128), (256, 128)])
def test_other_widths_count_as_the_nearest(width, like):
    assert attention_fraction("hopper", attention(head_dim=width)) == attention_fraction(
        "hopper", attention(head_dim=like)
    )
