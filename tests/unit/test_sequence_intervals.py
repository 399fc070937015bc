"""Constants of the interval that only jobs with sequences have: assumed lengths, attention without a softmax."""

from __future__ import annotations

from math import log
from typing import Any

import pytest

from scenarios.dlrm.sequence_sections import assumed_lengths, sequences_of
from scenarios.progress import Silent
from scenarios.resolve import load_scenario
from scenarios.runner import simulate
from scenarios.uncertainty.constant import Constant
from tests.sequence_jobs import model_data, placed
from workloads.dlrm.family import DlrmWorkload

MAXIMUM = 4096


def job_of(mean: int, **keys: Any) -> DlrmWorkload:
    """A job whose model assumes that all histories have one length; neither candidates nor context."""
    model = model_data({"distribution": "fixed", "mean": mean}, max_length=MAXIMUM, targets=0, context=False)
    return placed(model, 4, **keys)[1]


def gflop(mean: int) -> float:
    section = sequences_of(job_of(mean))
    assert section is not None
    return float(section["gflop_per_sample"]["layers"])


@pytest.mark.parametrize("mean", [100, 1000, 4000])
def test_the_elasticity_of_the_mean_length_is_the_slope_of_operations(mean: int) -> None:
    """Logarithm of operations over logarithm of length, from two lengths 1 % apart: 1 for layers, 2 for attention."""
    ((slope, _),) = assumed_lengths(job_of(mean))
    more = mean + mean // 100
    assert slope == pytest.approx(log(gflop(more) / gflop(mean)) / log(more / mean), rel=2e-3)


def test_lengths_of_a_scenario_are_exact() -> None:
    assert assumed_lengths(job_of(1000, sequence_lengths={"history": {"distribution": "fixed", "mean": 1000}})) == []


def sources_of(*settings: str) -> dict[str, Constant]:
    """Constants behind the interval of the shipped job, whose kernels take longer than their launches."""
    resolved = load_scenario("mlperf_dlrm_v4_hstu", ("workload.global_batch_size=256", *settings))
    return {source.constant.key: source.constant for source in simulate(resolved, Silent()).interval.sources}


def test_an_interval_counts_the_law_and_the_rate_that_nobody_measured() -> None:
    """Deviations as docs/explanation/uncertainty.md states them; the law has none where the scenario gives it."""
    found = sources_of()
    assert found["workload.model.sequences"].sigma == 0.25
    assert found["workload.model.hstu.kernel"].sigma == 0.35
    given = sources_of("workload.sequence_lengths={history: {distribution: geometric, mean: 4790}}")
    assert "workload.model.sequences" not in given
    assert given["workload.model.hstu.kernel"].sigma == 0.35
