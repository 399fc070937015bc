"""Captured DLRMs against the generator's: the same operations and bytes, and times that differ as the docs say."""

from __future__ import annotations

import pytest

from benchmarks import captures

APART = 0.12
"""Most by which the two times differ (``python -m benchmarks captures``): launches of a host-bound job are counted by
nodes of the backward pass in one and by kernels in the other."""


@pytest.mark.parametrize("name", captures.SAMPLES)
def test_operations_and_bytes_are_the_generators(name):
    generated, captured = captures.compared(name)
    assert captured.flops == generated.flops > 1e9
    assert captured.bytes == generated.bytes
    assert captured.time_s == pytest.approx(generated.time_s, rel=APART)
