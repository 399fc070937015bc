"""How choices between plans are judged."""

import json

import numpy as np
import pytest

from benchmarks.choices import (
    MODULE,
    Choices,
    Tried,
    again,
    evened,
    judged,
    lost,
    rows,
    schedule,
    tried_before,
    turns_s,
    were_it_right,
)
from benchmarks.kept import ROWS
from scenarios.prepare import with_plan
from scenarios.progress import Silent
from scenarios.resolve import load_scenario
from trainer.bench_series import SCENARIO
from validation.measured import Times


def test_the_best_one_measured_is_a_hit_without_regret():
    tried = [Tried("a", 1.0, (2.0, 2.0)), Tried("b", 2.0, (3.0, 3.0))]
    assert judged(tried) == (True, True, 0.0)


def test_a_choice_within_two_per_cent_is_a_hit_but_not_the_best():
    tried = [Tried("a", 1.0, (2.02, 2.02)), Tried("b", 2.0, (2.0, 2.0))]
    assert judged(tried) == (True, False, pytest.approx(0.01))


def test_a_choice_within_the_noise_is_a_hit():
    """The middle half of the chosen plan's rounds spreads by 10 % to either side."""
    noisy = (2.0, 2.2, 2.2, 2.2, 2.6)
    assert judged([Tried("a", 1.0, (1.8, 1.98, 2.2, 2.42, 2.6)), Tried("b", 2.0, (2.05, 2.05))])[0]
    assert not judged([Tried("a", 1.0, noisy), Tried("b", 2.0, (1.0, 1.0))])[0]


def test_the_loss_of_a_wrong_choice_is_told():
    hit, exact, regret = judged([Tried("a", 1.0, (3.0,)), Tried("b", 2.0, (2.0,))])
    assert (hit, exact) == (False, False)
    assert regret == pytest.approx(0.5)


def test_makers_that_agree_lose_alike():
    tried = [Tried("a+b", 1.0, (3.0,)), Tried("c", 2.0, (2.0,))]
    assert lost(tried) == {"a": pytest.approx(0.5), "b": pytest.approx(0.5), "c": 0.0}


def test_noise_alone_loses_some_of_right_predictions():
    """Two plans of the same time: of their difference, with a standard deviation s, 0.4 s is lost on the average."""
    starts = (1.0, 1.06, 0.94)
    tried = [Tried("a", 1.0, starts), Tried("b", 1.0 + 1e-9, starts)]
    share, regret = were_it_right(tried, np.random.default_rng(0))
    assert 0.5 < share < 0.95, "noise of starts is tolerated"
    median_of_three = 0.06 * 0.67
    assert regret == pytest.approx(np.sqrt(2.0) * median_of_three * np.sqrt(2.0) * 0.4, rel=0.25)
    apart = [Tried("a", 1.0, starts), Tried("b", 2.0, starts)]
    assert were_it_right(apart, np.random.default_rng(0)) == (1.0, 0.0)


@pytest.mark.parametrize(("plans", "near"), [(2, 0.1), (7, 0.05)])
def test_what_was_taken_out_of_starts_is_given_back_to_their_noise(plans, near):
    """Plans of one time that differ by 5 % from start to start; three starts tell a little less than that."""
    random, lost, told = np.random.default_rng(1), [], []
    hits, told_hits = [], []
    for number in range(400):
        starts = np.exp(random.normal(0.0, 0.05, (plans, 3)))
        before, after = (
            [Tried(str(plan), 1.0 + 1e-9 * plan, tuple(of)) for plan, of in enumerate(seconds.tolist())]
            for seconds in (starts, evened(starts))
        )
        lost.append(judged(before)[2])
        hits.append(judged(after)[0])
        if number < 40:
            share, regret = were_it_right(after, np.random.default_rng(number))
            told.append(regret)
            told_hits.append(share)
    assert np.mean(told) == pytest.approx(np.mean(lost), rel=0.25)
    assert np.mean(told_hits) == pytest.approx(np.mean(hits), abs=near)


def test_what_a_round_does_to_all_plans_is_taken_out():
    """The second round is half as fast for both plans, the third a quarter."""
    found = evened(np.array([[1.0, 2.0, 4.0], [1.1, 2.2, 4.4]]))
    assert found[0] == pytest.approx([2.0] * 3)
    assert found[1] == pytest.approx([2.2] * 3)


def _with_calls(seconds):
    """A prediction on a machine whose yardstick's calls take so long."""
    return Times(1.0, {}, None, {}, [], {"calls": seconds})


def test_an_iteration_of_a_turn_takes_what_the_last_rank_takes(tmp_path):
    """Ranks meet before each of two turns: there the light one waits, and not in an iteration. The first of each turn
    counts for nothing.
    """
    run, _ = schedule([0.1])
    turns, count = 2, 2 * run.total
    columns = dict.fromkeys(("loss", "page_faults", "cpu_s", "collectives_s", "calls_s", "core"), [0.0] * count)
    heavy_s = np.tile([9.0, *[1.0] * run.iterations], turns)
    heavy_s[-1] = 3.0
    start_s = np.concatenate(
        [10.0 + np.cumsum([0.0, *heavy_s[: run.total - 1]]), 99.0 + np.cumsum([0.0, *heavy_s[run.total : -1]])]
    )
    for rank, share in enumerate([1.0, 0.5]):
        times = {"start_s": start_s.tolist(), "end_s": (start_s + share * heavy_s).tolist()}
        record = {"iterations": {**columns, **times}, "environment": {}, "yardstick_s": {"calls": [2e-3]}}
        (tmp_path / f"rank{rank}.json").write_text(json.dumps(record), encoding="utf-8")
    expected = [1.0, 1.0 + 2.0 / run.iterations]
    assert turns_s(tmp_path, 2, run, _with_calls(2e-3)) == pytest.approx(expected)
    assert turns_s(tmp_path, 2, run, _with_calls(1e-3)) == pytest.approx(np.array(expected) / 2)


def test_turns_are_short_and_rounds_many():
    """Seven plans of 50 ms: turns of 8 iterations and one that does not count, 100 s of them."""
    run, rounds = schedule([0.05] * 7)
    assert (run.warm_up, run.iterations, rounds) == (1, 8, 31)
    assert schedule([0.5] * 7)[0].iterations == 2, "of long ones few"
    assert schedule([5e-3] * 2)[1] == 80, "no more than are needed"


def test_plans_that_were_kept_are_predicted_anew(tmp_path):
    """Their rows say that all tables on one rank are faster, today's prediction says what was measured."""
    tables = {f"table_{table}": {"sharding_type": "table_wise", "ranks": [0]} for table in range(26)}
    on_one = {"plan": {"world_size": 2, "local_world_size": 2, "plan": {MODULE: tables}}}
    for plan, sharding in {"greedy": {"planner": "greedy"}, "on_one": on_one}.items():
        job = with_plan(load_scenario("criteo_small", [f"workload.sharding={json.dumps(sharding)}"]), Silent())
        (tmp_path / "set_3" / plan).mkdir(parents=True)
        (tmp_path / "set_3" / plan / SCENARIO).write_text(job.to_yaml(), encoding="utf-8")
    columns = "seed,cluster,set,plan,predicted_s,measured_s,starts_s"
    rows_then = [columns, "1,x,3,greedy,0.2,1.0,1.0 1.0", "1,x,3,on_one,0.1,2.0,2.0 2.0", ""]
    (tmp_path / "set_4").mkdir()  # the study was stopped before its plans were trained
    (tmp_path / "set_3" / ROWS).write_text("\n".join(rows_then), encoding="utf-8")
    assert judged(tried_before(tmp_path / "set_3" / ROWS, 1, "x")[3])[2] == pytest.approx(1.0)
    told = {row.name: row.value for row in again(tmp_path, "zen4_2_cores", tmp_path / "new.csv")}
    assert told["set_3_regret"] == told["choices_mean_regret"] == 0.0
    assert told["choices_hits_without_tolerance"] == 1
    on_one, greedy = sorted(tried_before(tmp_path / "new.csv", 1, "zen4_2_cores")[3], key=lambda plan: -plan.measured_s)
    assert greedy.predicted_s < on_one.predicted_s


def test_sets_that_were_tried_are_counted_again(tmp_path):
    file = tmp_path / "choices.csv"
    columns = "seed,cluster,set,plan,predicted_s,measured_s,starts_s"
    plans = ["1,x,0,a,0.1,0.2,0.2 0.2", "1,x,0,b,0.3,0.3,0.3 0.3", "1,x,3,a,0.1,0.4,0.4 0.4", "1,x,3,b,0.3,0.2,0.2 0.2"]
    file.write_text("\n".join([columns, *plans, "2,x,0,a,9,9,9 9", "1,y,0,a,9,9,9 9", ""]), encoding="utf-8")
    assert tried_before(file, 1, "x")[3] == [Tried("a", 0.1, (0.4, 0.4)), Tried("b", 0.3, (0.2, 0.2))]
    told = {row.name: row.value for row in rows(Choices(4, 1, "x.yaml", 1, file, resume=True, minutes=-1.0))}
    assert told["choices_sets"] == 2
    assert told["choices_hits"] == told["choices_hits_without_tolerance"] == 1
    assert told["choices_mean_regret"] == pytest.approx(50.0)
    assert (told["lost_by_a"], told["lost_by_a_at_most"]) == (pytest.approx(50.0), pytest.approx(100.0))
    assert (told["lost_by_b"], told["lost_by_b_at_most"]) == (pytest.approx(25.0), pytest.approx(50.0))
    assert told["choices_times_mape"] == pytest.approx((50.0 + 0.0 + 75.0 + 50.0) / 4.0)
    assert told["choices_times_bias"] == pytest.approx((-50.0 + 0.0 - 75.0 + 50.0) / 4.0)
    assert "set_1_regret" not in told
