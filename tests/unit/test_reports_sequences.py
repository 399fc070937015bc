"""Section of sequences on the page of a run, rows of the terminal, and the loads of ranks behind both."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

import numpy as np
import pytest

import dlrmsim
from dlrmsim.cli.sections import mode_rows, sequence_rows, target_rows
from dlrmsim.pages.findings import run_findings
from inputs.errors import InputError
from reports.findings import SequenceFindings
from reports.markup import text
from reports.run_report import render_run, run_sections
from reports.sections.sequences import MOST_POINTS, sequences_section, shown_ranks
from scenarios.levers import Lever, Levers
from scenarios.prepare import Prepared, prepare
from scenarios.progress import Silent
from scenarios.resolve import load_scenario
from scenarios.runner import Outcome, simulate
from scenarios.sequence_loads import SequenceJob, SequenceLoads

NAME = "mlperf_dlrm_v4_hstu"
SMALL = ("workload.global_batch_size=256",)
ROWS = ("workload.sharding.planner=row_wise", *SMALL)
FIXED = "workload.sequence_lengths={history: {distribution: fixed}}"
POSITIONS, CONTEXT, TABLES, CONTEXTUAL = 4087, 8, 3, 8
"""History and candidate, contextual positions; tables of the history, tables of the context."""


@lru_cache
def job(*settings: str) -> Prepared:
    return prepare(load_scenario(NAME, settings), Silent())


def loads(*settings: str) -> SequenceLoads:
    placed = job(*settings).job
    assert isinstance(placed, SequenceJob)
    found = placed.sequence_loads()
    assert found is not None
    return found


def section(*settings: str) -> dict:
    return job(*settings).job.summary_sections()["sequences"]


@lru_cache
def outcome(*settings: str) -> Outcome:
    return simulate(load_scenario(NAME, settings), Silent())


def findings(*settings: str) -> SequenceFindings:
    return SequenceFindings(section(*settings), loads(*settings))


def words(found: SequenceFindings) -> str:
    shown = sequences_section(found)
    return text(shown.lede) + shown.body


def test_every_lookup_is_served_once_and_a_rank_receives_the_vectors_of_its_samples() -> None:
    samples = 256
    found = loads(FIXED, *ROWS)
    lookups = samples * (TABLES * POSITIONS + CONTEXTUAL)
    assert found.served.sum() == pytest.approx(lookups)
    assert found.received_bytes == pytest.approx(np.full(8, lookups / 8 * 512 * 4.0)), "512 elements of fp32 each"
    assert found.positions == pytest.approx(np.full(8, samples / 8 * (POSITIONS + CONTEXT)))


@pytest.mark.parametrize("settings", [SMALL, ROWS, (*ROWS, "workload.sharding.index_dedup=true")])
def test_ranks_receive_what_the_exchange_carries(settings: tuple[str, ...]) -> None:
    """A copied table sends nothing, and a row that is asked for once travels once."""
    assert loads(*settings).received_bytes.sum() == pytest.approx(
        job(*settings).job.summary_sections()["all_to_all_bytes"]
    )


def test_rows_asked_for_once_are_received_once() -> None:
    deduplicated = loads(*ROWS, "workload.sharding.index_dedup=true")
    assert (deduplicated.received_bytes < loads(*ROWS).received_bytes).all()


def test_the_summary_has_the_spread_of_the_loads() -> None:
    found, of = loads(*SMALL), section(*SMALL)
    for key, values in (
        ("positions_on_ranks", found.positions),
        ("served_lookups_on_ranks", found.served),
        ("received_bytes_on_ranks", found.received_bytes),
        ("tflop_on_ranks", found.flops / 1e12),
    ):
        assert (of[key]["smallest"], of[key]["largest"]) == (values.min(), values.max())
    assert of["served_lookups_on_ranks"]["hottest_rank"] == found.served.argmax()
    assert of["tflop_on_ranks"]["largest_over_mean"] == pytest.approx(of["largest_over_mean_by_batching"]["random"])


def test_an_evaluation_counts_the_forward_pass() -> None:
    """Linear layers take three products in training and one in a forward pass."""
    trained, evaluated = (section(*SMALL, *mode)["gflop_per_full_sample"] for mode in ((), ("workload.mode=eval",)))
    for part in ("uvqk", "output"):
        assert trained[part] == pytest.approx(3.0 * evaluated[part])
    assert evaluated["attention"] == pytest.approx(3 * 4 * (128 + 128) * 4095**2 / 1e9), "3 layers of 4 heads"
    assert evaluated["layers"] == pytest.approx(sum(evaluated[part] for part in ("attention", "uvqk", "output")))


def made(values: np.ndarray, served: np.ndarray) -> SequenceLoads:
    return SequenceLoads(values, 1e9 * values, served, 2048.0 * values)


def test_the_chart_has_every_rank_of_few() -> None:
    few = made(np.ones(MOST_POINTS), np.ones(MOST_POINTS))
    assert shown_ranks(few).tolist() == list(range(MOST_POINTS))


def test_the_chart_of_many_ranks_keeps_the_hottest_and_the_busiest() -> None:
    rng = np.random.default_rng(1)
    many = made(rng.uniform(1, 2, 4096), rng.pareto(1.1, 4096))
    shown = shown_ranks(many)
    assert len(shown) <= MOST_POINTS
    assert (np.diff(shown) > 0).all()
    assert {int(many.flops.argmax()), int(many.served.argmax())} <= set(shown.tolist())
    assert np.diff(shown).max() <= 2 * 4096 // (MOST_POINTS // 2), "no stretch of ranks is left out"


def test_curves_are_over_the_mean_of_all_ranks() -> None:
    found = findings(*SMALL)
    payload = sequences_section(found).payload["sequences"]
    for curve, values in zip(payload["curves"], (found.loads.flops, found.loads.served), strict=True):
        assert curve["over"] == pytest.approx(values / values.mean(), rel=1e-5)
        assert curve["mean"] * curve["over"][3] == pytest.approx(values[3], rel=1e-5)
    assert payload["positions"] == pytest.approx(found.loads.positions, rel=1e-5)


def test_the_lede_has_positions_the_gain_of_balance_and_the_cost_of_padding() -> None:
    found = findings(*SMALL)
    of, shown = found.summary, words(found)
    by = of["largest_over_mean_by_batching"]
    assert f"<b>{of['positions_per_sample']['mean']:,.0f}</b> positions on average" in shown
    assert f"With random batches, the busiest rank computes <b>{by['random']:.2f}</b> times the mean" in shown
    assert f"<b>{by['sorted']:.2f}</b> with batches sorted by length, <b>{by['balanced']:.2f}</b> with batches" in shown
    more = of["padded_gflop_per_sample"]["layers"] / of["gflop_per_sample"]["layers"] - 1.0
    assert f"layers would compute <b>{100 * more:.1f} %</b> more" in shown
    assert "jagged (this run)" in shown


def test_padded_layers_compute_the_padding() -> None:
    shown = words(findings("workload.sequence_layout=padded", *SMALL))
    assert "Padding adds <b>" in shown
    assert "padded (this run)" in shown


def test_equal_lengths_need_no_words_on_batching() -> None:
    assert "busiest" not in words(findings(FIXED, *SMALL))


def hot(over: float, levers: Levers | None) -> SequenceFindings:
    found = findings(*SMALL)
    served = {**found.summary["served_lookups_on_ranks"], "largest_over_mean": over}
    return replace(found, summary={**found.summary, "served_lookups_on_ranks": served}, levers=levers)


def test_remedies_of_a_hot_rank_are_those_that_were_tried_and_help() -> None:
    gains = {
        "workload.sharding.index_dedup=true": 0.3,
        "workload.pipeline=fused_sparse_dist": 0.2,
        "workload.sharding.planner=column_wise": 0.1,
        "workload.sharding.planner=greedy": 0.001,
        "workload.batching=balanced": 0.02,
    }
    levers = Levers(tuple(Lever(setting, "free", 1.0 - gain, gain) for setting, gain in gains.items()))
    shown = words(hot(3.4, levers))
    assert "serve <b>3.40</b> times the mean lookups" in shown
    assert "index_dedup=true</code> saves 30.0 %; <code" in shown
    assert "planner=column_wise</code> saves 10.0 %." in shown
    assert "greedy" not in shown
    assert "fused_sparse_dist" not in shown
    assert "batching=balanced</code> saves 2.0 % of the iteration." in shown
    assert "index_dedup" not in words(hot(1.5, levers)), "a rank that is about as hot as the mean needs no remedy"
    assert "tried" not in words(hot(3.4, None))


def test_rows_of_the_terminal() -> None:
    of = section(*SMALL)
    found = {"world_size": 8, "sequences": of}
    (_, positions, remark), (label, skew, hottest) = sequence_rows(found)
    by = of["largest_over_mean_by_batching"]
    assert positions == f"{of['positions_per_sample']['mean']:,.0f} positions"
    assert remark == (
        f"a sample, at most 4,095; jagged; random batches, largest rank {by['random']:.2f} of the mean, balanced 1.00"
    )
    served = of["served_lookups_on_ranks"]
    assert (label, skew) == ("skew of ids", f"{served['largest_over_mean']:.2f}")
    assert hottest.endswith(f"(rank {served['hottest_rank']})")
    assert len(list(sequence_rows({**found, "world_size": 1}))) == 1
    assert not list(sequence_rows({"world_size": 8}))


def test_time_to_target_on_page_and_terminal() -> None:
    target = "workload.time_to_target={samples: 1e9, evaluation_samples: 1e6, evaluate_every: 2.5e8}"
    done = outcome(target, *SMALL)
    found = done.summary["time_to_target"]
    (row,) = target_rows(done.summary)
    hours = found["time_s"] / 3600
    assert row[:2] == ("time to target", f"{hours:#.3g} h")
    assert "8 in 10 between" in row[2]
    assert "3,906,250 iterations, 4 evaluations of " in row[2]
    page = render_run(run_findings(done))
    assert f"<dt>Time to target</dt><dd>{hours:#.3g} <small>h</small></dd>" in page
    assert "<dt>To the target</dt><dd>3,906,250 iterations, 4 evaluations of " in page
    assert not list(target_rows({}))


def test_an_iteration_of_an_evaluation_is_a_forward_pass() -> None:
    done = outcome("workload.mode=eval", *SMALL)
    assert list(mode_rows(done.summary)) == [
        ("mode", "eval", "an iteration is a forward pass: no gradients, no updates")
    ]
    page = render_run(run_findings(done))
    assert "per iteration, a forward pass" in page
    assert "GFLOP (forward pass)" in page


def test_training_names_no_mode() -> None:
    done = outcome(*SMALL)
    assert "mode" not in done.summary
    page = render_run(run_findings(done))
    assert "a forward pass" not in page
    assert "GFLOP (forward and backward pass)" in page
    assert [shown.anchor for shown in run_sections(run_findings(done))].count("sequences") == 1


def test_one_rank_has_no_skew() -> None:
    one = ("cluster=dgx_h100", "world_size=1", "workload.rows_scaling=fit", "workload.global_batch_size=8")
    shown = sequences_section(findings(*one))
    assert "hottest" not in shown.body
    assert not shown.payload


def test_layers_over_sequences_have_no_strategies() -> None:
    with pytest.raises(InputError, match="data-parallel alone"):
        dlrmsim.plan(NAME, search="strategies")


def test_other_models_have_no_sequences() -> None:
    other = prepare(load_scenario("mlperf_dlrm_v1", ("nodes=1",)), Silent()).job
    assert isinstance(other, SequenceJob)
    assert other.sequence_loads() is None
    assert "sequences" not in other.summary_sections()
