"""The suite of CPU clusters: every row is there, volumes are exact, the times aimed at are met, the fit reproduces."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

import pytest
import yaml

from tests.suite_runs import suite_run
from validation.catalogs import SUITES
from validation.fits.framework_fit import calibration_of, fit_framework
from validation.suites.predict import SuiteJob, inputs_of
from validation.suites.suite import load_suite
from workloads.graph.framework import load_framework

MEASURED = Path(__file__).parents[3] / "shared" / "measured" / "cpu_cluster_dlrm.yaml"
LISTS = ("paper_points", "companion_points", "opa_allreduce_points")
VOLUMES = {
    "K12": 9996548, "K13": 1097655300, "K14": 9475588, "K15": 16 * 2**20, "K16": 1024 * 2**20, "K17": 208 * 2**20,
}  # fmt: skip


@pytest.fixture(scope="module")
def cases():
    return {case["id"]: case for case in suite_run("cpu_cluster_dlrm")["cases"]}


@pytest.mark.skipif(not MEASURED.exists(), reason="the collection of measurements is not beside the project")
def test_every_row_is_a_case_or_excluded():
    collection = yaml.safe_load(MEASURED.read_text(encoding="utf-8"))
    rows = {row["id"]: row for name in LISTS for row in collection[name]}
    suite = load_suite("cpu_cluster_dlrm")[1]
    named = {case.id.partition("_")[0] for case in suite.cases}
    assert named | {row.id for row in suite.excluded} == set(rows)
    assert not named & {row.id for row in suite.excluded}
    grades = {case.id.partition("_")[0]: case.grade for case in suite.cases}
    assert all(rows[name]["grade"].startswith(grade) for name, grade in grades.items())


@pytest.mark.slow
def test_volumes_are_exact(cases):
    assert {name: cases[name]["predicted"] for name in VOLUMES} == VOLUMES


@pytest.mark.slow
@pytest.mark.parametrize("name", ["K02", "M01"])
def test_the_times_aimed_at_are_within_12_percent(cases, name):
    assert abs(cases[name]["error_pct"]) < 12
    assert cases[name]["role"] == "calibration"


@pytest.mark.slow
def test_beyond_8_ranks_is_predicted_and_inside_its_interval(cases):
    assert cases["M05"]["role"] == "validation"
    assert cases["M05"]["inside"]
    assert abs(cases["M05"]["error_pct"]) < 20


@pytest.mark.slow
def test_the_fit_reproduces():
    profile = load_framework("pytorch_cpu")
    found = fit_framework(profile.fit.constants, calibration_of("pytorch_cpu", profile.fit.suites))
    assert found.cases == 3
    for name, value in found.values.items():
        assert getattr(profile, name).value == pytest.approx(value, rel=0.005), name


def test_the_rule_picks_iteration_times_on_at_most_8_ranks_whose_source_was_seen_or_quoted():
    suite = load_suite("cpu_cluster_dlrm")[1]
    jobs = {case.id: SuiteJob.of(case.scenario, case.set) for case in suite.cases}
    roles = {
        case.id: suite.role(inputs_of(jobs[case.id].resolved(), jobs[case.id]) | case.inputs) for case in suite.cases
    }
    assert {name for name, role in roles.items() if role == "calibration"} == {"K01", "K02", "M01"}


def test_no_claim_is_counted_twice():
    """One prediction, or ratio of two, stands in one shipped suite only."""
    found = defaultdict(set)
    for name in SUITES.names():
        for case in load_suite(name)[1].cases:
            runs = (case.scenario, sorted(case.set.items(), key=str), case.other_run, case.metric)
            found[str(runs)].add(name)
    assert {key: suites for key, suites in found.items() if len(suites) > 1} == {}
