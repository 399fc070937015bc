"""Suite paper_claims: ratios of two scenarios, graded as bands."""

from __future__ import annotations

import pytest

from scenarios.mapping import one_after_the_other
from scenarios.progress import Silent
from scenarios.resolve import load_scenario
from scenarios.runner import simulation_of
from validation.suites.score import score
from validation.suites.suite import load_suite


def rate(name: str) -> float:
    resolved = load_scenario(name)
    return resolved.global_batch_size / simulation_of(resolved, Silent()).analysis.iteration.seconds


def test_a_claim_over_another_scenario_is_the_ratio_of_both_and_a_hit_or_a_miss() -> None:
    """The ratio follows from both runs; whether it is in the band is reported, not required."""
    file, suite = load_suite("paper_claims")
    case = next(case for case in suite.cases if case.id == "mud22_speedup_vs_cpu")
    alone = suite.model_copy(update={"cases": (case,), "collective_ratios": (), "arrivals": ()})
    (row,) = score(file, alone, one_after_the_other)["cases"]
    assert row["predicted"] == pytest.approx(rate("zionex_a_128") / rate("ps_async_a"))
    assert row["hit"] is (row["measured"]["low"] <= row["predicted"] <= row["measured"]["high"])
    assert 20 < row["predicted"] < 80
