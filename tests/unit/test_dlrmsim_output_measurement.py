"""Figures of a measurement from made-up records, worked out by hand."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from dlrmsim.output.measurement import Measurement, summarise
from scenarios.resolve import load_scenario
from trainer.process.runs import Run

RUN = Run(Path("s.yaml"), iterations=4, warm_up=1)
STARTS_S = np.array([[0.0, 1, 2, 3, 4], [0.5, 1, 2, 3, 4]])
ENDS_S = np.array([[1.0, 2, 3, 5, 6], [1.5, 2, 4, 5, 9]])
"""The last rank ends at 1.5, 2, 4, 5 and 9 s: iterations of 0.5, 2, 1 and 4 s after the warm-up."""


def measurement(cores=((0,), (1,)), load=0.1, device="cpu", stolen=0.01):
    told = {"device": device, "backend": "gloo", "prepared_batches": 8, "stolen_measured": stolen}
    environments = tuple({"cores": list(own), **told} for own in cores)
    loss = np.array([[0.8, 0.7, 0.6, 0.5, 0.4], [0.6, 0.5, 0.4, 0.3, 0.2]])
    return Measurement(
        STARTS_S,
        ENDS_S,
        loss,
        np.full((2, 5), 7.0),
        ENDS_S - STARTS_S,
        np.zeros((2, 5)),
        np.zeros((2, 5)),
        environments,
        ([0.1, 0.2, 0.3], [0.9]),
        load,
    )


def test_an_iteration_ends_when_the_last_rank_ends_it():
    summary = summarise(load_scenario("criteo_small"), RUN, measurement())
    assert summary["iteration_time_s"] == pytest.approx((9 - 1.5) / 4)
    assert summary["throughput_samples_per_s"] == pytest.approx(4096 / ((9 - 1.5) / 4))
    assert summary["iteration_time_quantiles_s"]["median"] == pytest.approx(1.5)
    assert summary["drift"] == pytest.approx(2.5 / 1.25 - 1)
    assert summary["rank_median_s"] == pytest.approx([1.5, 2.0])
    assert summary["loss"] == pytest.approx({"first": 0.7, "last": 0.3})
    assert (summary["page_faults_per_iteration"], summary["warnings"]) == (7.0, [])
    assert summary["yardstick_s"] == pytest.approx(0.25), "the median over ranks and looks"
    assert summary["stolen_share"] == pytest.approx(0.01)


def test_a_measurement_without_looks_has_no_yardstick():
    on_gpu = replace(measurement(device="a GPU"), yardstick_s=([], []))
    assert summarise(load_scenario("criteo_small"), RUN, on_gpu)["yardstick_s"] is None


def test_what_ranks_do_between_iterations_is_part_of_none():
    """As above, but between the second and the third iteration both ranks do something else for 10 s."""
    later = np.array([0.0, 0.0, 10.0, 10.0, 10.0])
    apart = replace(measurement(), start_s=STARTS_S + later, end_s=ENDS_S + later)
    np.testing.assert_allclose(apart.times_s, measurement().times_s)


@pytest.mark.parametrize(
    ("changes", "setting", "warning"),
    [
        ({"load": 3.0}, "fp32", "the machine was busy: a load of 3.0 in the minute before"),
        ({"stolen": 0.1}, "fp32", "the host took 10% of the cores' time: iterations took longer for that"),
        ({"cores": ((0,), (0,))}, "fp32", "2 ranks share 1 cores"),
        ({"cores": ((), ())}, "fp32", "this system does not pin processes to cores"),
        ({}, "tf32", "dense layers computed in fp32: this device has no tf32"),
    ],
)
def test_what_spoils_figures_is_told(changes, setting, warning):
    resolved = load_scenario("criteo_small", [f"precision.dense={setting}"])
    assert summarise(resolved, RUN, measurement(**changes))["warnings"] == [warning]


def test_a_loss_that_is_no_number_is_told_and_written_as_none():
    diverged = measurement()
    diverged.loss[:, 3:] = np.nan
    summary = summarise(load_scenario("criteo_small"), RUN, diverged)
    assert summary["loss"] == {"first": pytest.approx(0.7), "last": None}
    assert summary["warnings"] == ["training diverged: the loss is no number from iteration 3 on"]


def test_a_system_that_tells_no_load_is_not_busy():
    assert summarise(load_scenario("criteo_small"), RUN, replace(measurement(), load=None))["warnings"] == []
