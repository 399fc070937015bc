"""Choices of nodes for arriving jobs whose times are known."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import pytest

from inputs.errors import InfeasibleError
from inputs.validate import validate
from inputs.yaml_lines import parse_yaml
from reports.arrival_words import arrival_sentences, arrival_warnings, choices_table, kinds_table
from scenarios.arrivals.choices import (
    LEAST,
    MOST,
    SEARCHED,
    exact_blocking,
    fixed_choices,
    met_share,
    searched_choice,
    streams_of,
)
from scenarios.arrivals.jobs_file import Deadline, JobsFile
from scenarios.arrivals.study import compared
from scenarios.arrivals.times import TimedKind

DEADLINES = "deadline: {low: 0.2, high: 1.5}"


def jobs_file(per_hour: float, deadline: str = "", queue: str = "null", length: str = "fixed") -> JobsFile:
    """Two kinds of jobs on eight nodes."""
    kind = (
        f"{{scenario: x, amount: 1, nodes: [1, 2, 4], length: {length}, weight: %s{', ' * bool(deadline)}{deadline}}}"
    )
    text = (
        f"cluster: piz_daint\nnodes: 8\narrivals_per_hour: {per_hour}\nsimulated_jobs: 4000\nqueue: {queue}\n"
        f"jobs: [{kind % 3}, {kind % 1}]\n"
    )
    return validate(JobsFile, parse_yaml(text, Path("jobs.yaml")))


KINDS = (
    TimedKind("a", "samples", 1.0, {1: 3600.0, 2: 2000.0, 4: 1300.0}, {}),
    TimedKind("b", "samples", 1.0, {1: 1800.0, 2: 900.0, 4: 500.0}, {}),
)


@pytest.mark.parametrize("length", ["fixed", "exponential"])
@pytest.mark.parametrize("deadline", ["", DEADLINES])
def test_every_choice_is_blocked_as_often_as_the_closed_form_says(deadline, length):
    found = compared("jobs", jobs_file(8, deadline, length=length), KINDS)
    for result in found.results:
        blocking = result.statistics.blocking
        assert abs(blocking.value - result.exact_blocking) < 4 * blocking.standard_error, result.choice
        assert 0 < blocking.standard_error < 0.02


def test_without_deadlines_the_fewest_nodes_block_least():
    """Less work for each job and smaller pieces of it: nothing speaks for more nodes but time."""
    found = compared("jobs", jobs_file(8), KINDS)
    assert found.best.choice.sizes == (1, 1)
    assert [result.choice.name for result in found.results] == ["1 node each", "2 nodes each", SEARCHED, MOST]
    assert found.most.statistics.completion_s.value < found.best.statistics.completion_s.value
    assert 0 < found.reduction.value < 1


def test_with_deadlines_the_fewest_nodes_that_meet_them_block_less_than_any_size_for_all():
    found = compared("jobs", jobs_file(8, DEADLINES), KINDS)
    assert found.best.choice.name == LEAST
    assert found.best.exact_blocking < min(r.exact_blocking for r in found.results if r is not found.best)
    first = arrival_sentences(found)[0]
    assert first.startswith("jobs: best with fewest nodes (as few for each job as meet its deadline), ")
    assert "lower than with maximum parallelism" in arrival_sentences(found)[1]
    assert len(choices_table(found).rows) == len(found.results)
    assert len(kinds_table(found).rows) == 2


def test_the_reduction_is_that_of_the_two_rates():
    found = compared("jobs", jobs_file(8, DEADLINES), KINDS)
    rates = found.best.statistics.blocking.value, found.most.statistics.blocking.value
    assert found.reduction.value == pytest.approx(1 - rates[0] / rates[1])
    assert found.to_dict()["reduction"]["value"] == found.reduction.value


def test_the_search_finds_the_best_of_all_sizes():
    jobs = jobs_file(12, DEADLINES)

    def rank(sizes):
        return exact_blocking(KINDS, jobs, sizes)

    found = searched_choice(KINDS, [choice.sizes for choice in fixed_choices(KINDS)], rank)
    assert found.sizes == min(product((1, 2, 4), repeat=2), key=rank)


def test_streams_of_a_kind_are_all_of_its_jobs():
    jobs = jobs_file(8, DEADLINES)
    for sizes in (None, (1, 4), (4, 2)):
        streams = streams_of(KINDS, jobs, sizes)
        for kind in (0, 1):
            assert sum(stream.share for stream in streams if stream.kind == kind) == pytest.approx(1.0)


def test_shares_of_deadlines_that_are_met():
    wide, one = Deadline(low=0.5, high=1.0), Deadline(low=0.5, high=0.5)
    assert [met_share(wide, ratio) for ratio in (0.4, 0.5, 0.75, 1.0, 2.0)] == [1.0, 1.0, 0.5, 0.0, 0.0]
    assert [met_share(one, ratio) for ratio in (0.5, 0.6)] == [1.0, 0.0]
    assert met_share(None, 9.0) == 1.0


def test_seeds_and_equal_files_give_equal_results():
    assert compared("j", jobs_file(8), KINDS).to_dict() == compared("j", jobs_file(8), KINDS).to_dict()


def test_a_queue_blocks_fewer_and_takes_longer_than_none():
    none, short = compared("j", jobs_file(8), KINDS), compared("j", jobs_file(8, queue="{longest_wait: 20 min}"), KINDS)
    for lost, waits in zip((none.results[0], none.most), (short.results[0], short.most), strict=True):
        assert waits.statistics.blocking.value < lost.statistics.blocking.value
        assert waits.statistics.completion_s.value > lost.statistics.completion_s.value
        assert waits.exact_blocking is None


def test_an_unlimited_queue_blocks_none_and_choices_that_it_outgrows_have_no_statistics():
    found = compared("j", jobs_file(8, queue="{}"), KINDS)
    grown = {result.choice.name for result in found.results if result.statistics is None}
    assert MOST in grown
    assert found.best.statistics.blocking.value == 0
    assert all(result.offered < 1 for result in found.results if result.statistics is not None)
    assert found.reduction is None
    assert choices_table(found).rows


def test_a_queue_that_no_choice_keeps_short_is_refused_with_the_utilisation():
    """12 jobs an hour of 3,150 s in the mean on one of 8 nodes: 1.31 times the time that there is."""
    with pytest.raises(InfeasibleError, match=r"grows without bound: jobs offer 1\.31 times the time of the 8 nodes"):
        compared("j", jobs_file(12, queue="{}"), KINDS)


def test_an_offered_load_that_no_size_serves_is_a_warning_where_no_job_waits():
    (words,) = arrival_warnings(compared("j", jobs_file(12), KINDS))
    assert words.startswith("jobs offer 1.31 times the time of the 8 nodes")
    assert "at least 23.8 % of it is refused" in words
    assert arrival_warnings(compared("j", jobs_file(2), KINDS)) == []


def test_deadlines_that_no_size_meets_are_a_warning():
    """The fastest size of a takes 1300 / 3600 of the time on one node, that of b 500 / 1800."""
    jobs = jobs_file(2, "deadline: {low: 0.3, high: 0.5}")
    found = compared("j", jobs, KINDS)
    assert found.unmet == {"a": pytest.approx((1300 / 3600 - 0.3) / 0.2)}
    assert "a: 30.6 % of its jobs have a deadline that none of its sizes meets" in arrival_warnings(found)
