"""The best size and the knee, from throughputs that are known."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from inputs.errors import InfeasibleError
from reports.size_words import size_gaps, size_sentences, size_table
from scenarios.size_advice import SizeAdvice, SizeResult, size_advice
from scenarios.sweep_plan import plan_sweep


def advice(rates: dict[int, float], objective: str = "throughput_per_gpu", spread: float = 0.0) -> SizeAdvice:
    """Advice on sizes with these throughputs, and 100 units to train; ``spread``: relative half-width of intervals."""

    def value(rate: float, size: int) -> float:
        return rate / size if objective == "throughput_per_gpu" else 100 / rate

    results = tuple(
        SizeResult(
            size, size, rate, value(rate, size), value(rate * (1 - spread), size), value(rate * (1 + spread), size)
        )
        for size, rate in rates.items()
    )
    target = 100.0 if objective == "time_to_target" else None
    return SizeAdvice("job", "nodes", "samples", "GPUs", "strong", objective, target, results, ())  # type: ignore[arg-type]


def amdahl(serial: float) -> dict[int, float]:
    return {size: 1 / (serial + (1 - serial) / size) for size in range(1, 65)}


@pytest.mark.parametrize("knee", [1, 4, 16, 63])
def test_the_knee_of_amdahls_law_is_where_serial_and_parallel_time_are_equal(knee):
    """Speedup times efficiency n / (s n + 1 - s)^2 is largest at n = (1 - s) / s."""
    assert advice(amdahl(1 / (knee + 1))).knee.size == knee


def test_the_knee_depends_neither_on_the_unit_nor_on_larger_sizes_that_are_worse():
    rates = amdahl(1 / 9)
    assert advice({size: 1e6 * rate for size, rate in rates.items()}).knee.size == 8
    assert advice({size: rate for size, rate in rates.items() if size <= 12}).knee.size == 8
    assert advice(rates | {1000: max(rates.values())}).knee.size == 8


def test_a_size_that_is_slower_than_the_one_before_is_not_the_best():
    found = advice({1: 10.0, 2: 19.0, 4: 30.0, 8: 28.0}, "time_to_target")
    assert (found.best.size, found.largest.size, found.knee.size) == (4, 8, 4)
    assert [(each.size, round(each.behind, 3)) for each in found.neighbours] == [(2, 0.579), (8, 0.071)]
    sentences = size_sentences(found)
    assert sentences[0] == "job, strong scaling: 4 nodes are best by time to 100 samples: 3.33 s."
    assert "The largest size that ran, 8 nodes, is not the best: it is 7.1 % behind." in sentences
    assert found.to_dict()["largest_is_best"] is False


def test_the_largest_is_the_best_where_it_is():
    sentences = size_sentences(advice({1: 10.0, 2: 20.0, 4: 40.0}, "time_to_target"))
    assert "The largest size that ran, 4 nodes, is the best: a larger one may be better still." in sentences
    assert "No knee up to 4 nodes: speedup times efficiency still rises." in sentences


def test_sizes_within_the_interval_of_the_best_are_equal_to_it():
    rates = {1: 10.0, 2: 19.0, 4: 30.0, 8: 28.0}
    apart, close = advice(rates, "time_to_target", 0.01), advice(rates, "time_to_target", 0.1)
    assert [each.equal for each in apart.neighbours] == [False, False]
    assert [each.equal for each in close.neighbours] == [False, True]
    assert "Equal to 4 nodes within the interval of the prediction: 8 nodes." in size_sentences(close)
    assert not any("Equal" in sentence for sentence in size_sentences(apart))


def test_a_rank_is_fastest_alone_where_scaling_costs():
    found = advice({1: 10.0, 2: 19.0, 4: 30.0})
    assert found.best.size == 1
    assert [each.size for each in found.neighbours] == [2]
    assert len(size_table(found).rows) == 3


def test_a_sweep_without_a_result_has_no_advice():
    plan = plan_sweep("pacml_vgg16", "nodes=1,2", "strong")
    row = {"status": "infeasible", "world_size": 1, "message": "pacml_vgg16 does not fit\n  more"}
    with pytest.raises(InfeasibleError, match="none of 2 sizes runs; nodes=2: pacml_vgg16 does not fit"):
        size_advice(plan, [row, row], "throughput_per_gpu", None)


def test_gaps_have_their_reason(tmp_path: Path):
    plan = plan_sweep("pacml_vgg16", "nodes=1,2", "strong")
    ran = {
        "status": "ok", "world_size": 2, "message": "", "throughput_images_per_s": 300.0, "million_images_usd": 2.0,
        **dict.fromkeys(("iteration_time_p10_s", "iteration_time_p90_s"), 1.0),
        "throughput_p10_images_per_s": 250.0, "throughput_p90_images_per_s": 350.0,
    }  # fmt: skip
    gap = {"status": "infeasible", "world_size": 1, "message": "pacml_vgg16 does not fit\n  more"}
    found = size_advice(plan, [gap, ran], "cost", None)
    assert size_gaps(found) == ["1 node: pacml_vgg16 does not fit"]
    assert (found.best.value, found.best.value_low, found.best.value_high) == pytest.approx((2.0, 2.4, 2.0 * 300 / 350))
    assert size_sentences(replace(found))[1] == "No other size ran."
