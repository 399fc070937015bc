"""The suite of one GPU: every row of its source is there, and predictions are within the target."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

import dlrmsim
from validation.suites.suite import load_suite

SOURCE = Path(__file__).parents[3] / "shared" / "measured" / "gpu_dlrm_cnn_single_node.yaml"


@pytest.mark.skipif(not SOURCE.exists(), reason="the collection of measurements is not beside the project")
def test_every_time_of_an_iteration_and_of_an_active_gpu_is_a_case_or_excluded():
    rows = {row["id"]: row for row in yaml.safe_load(SOURCE.read_text(encoding="utf-8"))}
    suite = load_suite("gpu_single_node")[1]
    cases = {case.id: case for case in suite.cases}
    known = {*cases, *(row.id for row in suite.excluded)}
    for name, row in rows.items():
        _, kind, *rest = name.split(".")
        if name.endswith(".measured"):
            found = cases["_".join(rest).removesuffix("_measured")]
            assert found.measured == pytest.approx(row["value"] / 1e3), name
        elif kind == "util":
            model, batch = rest
            assert f"v100_{model}_{batch}_active" in known or f"util_{model}_{batch}" in known, name
        elif name.endswith(".gpu_active"):
            found = cases[f"v100_{rest[0]}_b2048_trace_active"]
            assert found.measured == pytest.approx(row["value"] / 1e6), name
        elif name.endswith((".iter_profiled", ".total", ".gpu")):
            assert any(f"v100_{rest[0]}_" in excluded for excluded in known), name


def test_iterations_and_active_times_that_nothing_was_fitted_on_are_within_their_targets():
    """MAPE of iterations at most 12 % with a bias within 5 %, of GPU-active times at most 10 %; fitted on one model."""
    suite = dlrmsim.validate("gpu_single_node").to_dict()["suites"][0]
    fitted = {case["inputs"]["model"] for case in suite["cases"] if case["role"] == "calibration"}
    by_metric = {row["metric"]: row for row in suite["by_metric"]}
    iterations, active = by_metric["iteration_time_s"], by_metric["parts.gpu_active_s"]
    assert fitted == {"dlrm_default"}
    assert (iterations["cases"], active["cases"]) == (20, 12)
    assert iterations["mape_pct"] <= 12
    assert abs(iterations["bias_pct"]) <= 5
    assert active["mape_pct"] <= 10
    for case in suite["cases"]:
        if case["metric"] == "parts.gpu_active_s":
            whole = next(c for c in suite["cases"] if c["id"] == case["id"].split("_active")[0].replace("_trace", ""))
            assert 0 < case["predicted"] <= whole["predicted"] * 1.000001
