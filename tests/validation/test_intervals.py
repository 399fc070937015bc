"""The shipped quantiles are those that the command computes, and 70 to 90 % of predicted cases are inside."""

from statistics import fmean, median

import pytest

from scenarios.uncertainty.shipped import COLLECTIVE_GROUPS, JOB_GROUPS, shipped_quantiles
from tests.suite_runs import suite_run
from validation.suites.coverage import fitted_quantiles, inside, predicted_cases, suites_of_quantiles, widths
from validation.suites.suite import load_suite


def predicted(names):
    suites = [suite_run(name) for name in names]
    return [case for of_suite in predicted_cases(suites).values() for case in of_suite]


def of_kind(*, jobs):
    """Names of the suites of jobs, or of collectives."""
    return [name for name in suites_of_quantiles() if bool(load_suite(name)[1].cases) is jobs]


@pytest.fixture(scope="module")
def collectives():
    return predicted(of_kind(jobs=False))


@pytest.fixture(scope="module")
def jobs():
    return predicted(of_kind(jobs=True))


def check_shipped(cases, groups):
    shipped, found = shipped_quantiles(), fitted_quantiles(cases)
    for group in groups:
        assert shipped[group].low == pytest.approx(found[group].low, abs=0.005)
        assert shipped[group].high == pytest.approx(found[group].high, abs=0.005)
        assert shipped[group].configurations == found[group].configurations


def test_the_quantiles_of_collectives_are_what_the_command_computes(collectives):
    check_shipped(collectives, COLLECTIVE_GROUPS)


@pytest.mark.slow
def test_the_quantiles_of_jobs_are_what_the_command_computes(jobs):
    check_shipped(jobs, JOB_GROUPS)


@pytest.mark.slow
def test_seven_to_nine_in_ten_predicted_cases_are_inside(jobs, collectives):
    assert 0.7 <= fmean(inside([*jobs, *collectives], shipped_quantiles())) <= 0.9


@pytest.mark.slow
def test_intervals_of_jobs_are_no_wider_than_a_factor_of_one_point_six(jobs):
    assert median(widths(jobs, shipped_quantiles())) <= 1.6
