"""Suites of TensorFlow's convolutional networks: every published rate is a case or excluded, with its value."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from validation.fits.framework_fit import calibration_of
from validation.suites.predict import SuiteJob, inputs_of
from validation.suites.suite import load_suite

MEASURED = Path(__file__).parents[3] / "shared" / "measured" / "tf_cnn_data_parallel.yaml"
SUITES = ("tf_one_gpu", "tf_data_parallel")


@pytest.mark.skipif(not MEASURED.exists(), reason="the collection of measurements is not beside the project")
def test_every_published_rate_is_a_case_with_its_value_or_excluded() -> None:
    points = yaml.safe_load(MEASURED.read_text(encoding="utf-8"))["companion_points"]
    rows = {row["id"]: row for row in points if row["quantity"] == "throughput"}
    suites = [load_suite(name)[1] for name in SUITES]
    cases = {case.id: case for suite in suites for case in suite.cases}
    excluded = {entry.id for suite in suites for entry in suite.excluded}
    assert set(rows) <= set(cases) | excluded
    for name, case in cases.items():
        assert case.measured == rows[name]["value"], name
        assert SuiteJob.of(case.scenario, case.set).resolved().world_size == rows[name]["ranks"], name


def test_the_profile_is_fitted_on_one_gpu_and_no_more_than_8_are_calibration() -> None:
    assert {found.resolved.world_size for found in calibration_of("tensorflow", ("tf_one_gpu",))} == {1}
    _, suite = load_suite("tf_data_parallel")
    for case in suite.cases:
        job = SuiteJob.of(case.scenario, case.set)
        inputs = inputs_of(job.resolved(), job)
        assert (suite.role(inputs) == "calibration") == (inputs["world_size"] <= 8), case.id
