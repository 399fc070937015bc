"""Rates of convolutional networks on one GPU against published ones; ``python -m benchmarks convnets`` prints them."""

from __future__ import annotations

from statistics import median

import pytest

from benchmarks.convnets import RATES, Rate, predicted_images_per_s

SMALL_BATCH = 16
"""Batches that the host of a PyTorch job of 2021 held up: no host time was measured for these jobs."""


@pytest.fixture(scope="module")
def errors() -> dict[Rate, float]:
    return {rate: predicted_images_per_s(rate) / rate.images_per_s - 1.0 for rate in RATES}


def test_predicted_rates_are_close(errors) -> None:
    """The fractions of convolutions come from DeepBench, but for Kepler's, which one of these rates gave."""
    predicted = [abs(error) for rate, error in errors.items() if not rate.fitted and rate.images > SMALL_BATCH]
    assert median(predicted) < 0.08
    assert max(predicted) < 0.20


def test_the_fitted_rate_is_met(errors) -> None:
    (fitted,) = [error for rate, error in errors.items() if rate.fitted]
    assert abs(fitted) < 0.01


def test_small_batches_are_predicted_too_fast(errors) -> None:
    assert all(0.1 < error < 0.4 for rate, error in errors.items() if rate.images == SMALL_BATCH)
