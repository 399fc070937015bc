"""What each pipeline overlaps: iterations in closed form, with durations that hypothesis chooses."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.pipeline_jobs import overlap, period, read_at, small_settings
from workloads.graph.schedule import SCHEDULES

DENSE = ("lookup", "exchange", "bottom", "top", "top_back", "exchange_back", "bottom_back", "update", "reduce")
TRAINING = (*DENSE, "optimizer")
times = st.integers(0, 1000)
durations = st.fixed_dictionaries(dict.fromkeys((*TRAINING, "copy", "dist"), times))
few = settings(max_examples=12, deadline=None)


def forward(t: dict[str, int]) -> int:
    """From the begin of the lookup to the loss: the exchange beside the bottom MLP."""
    return t["lookup"] + max(t["exchange"], t["bottom"]) + t["top"]


def backward(t: dict[str, int]) -> int:
    """Gradients exchanged beside the bottom MLP; then the update beside the all_reduce, then the optimizer."""
    both = max(t["exchange_back"], t["bottom_back"])
    return t["top_back"] + both + max(t["update"], t["reduce"]) + t["optimizer"]


@few
@given(durations)
def test_without_a_pipeline_only_the_copy_is_hidden(t: dict[str, int]) -> None:
    """It runs up to two batches ahead, so it counts only where the copies alone take longer."""
    expected = max(t["dist"] + forward(t) + backward(t), t["copy"])
    assert period(small_settings(pipeline="none"), **t) == pytest.approx(expected, abs=1)


@few
@given(durations, st.sampled_from(["sparse_dist", "inter_iteration", "prefetch"]))
def test_input_is_hidden_until_it_takes_longer(t: dict[str, int], pipeline: str) -> None:
    """Copies and input_dist have streams of their own; nothing else of an iteration gets shorter."""
    t["copy"] = min(t["copy"], forward(t) + backward(t) - t["optimizer"])  # it overwrites what the update still reads
    t["dist"] = min(t["dist"], forward(t) + backward(t))
    if pipeline == "inter_iteration":  # copy and input_dist of a batch, one after the other, between two optimizers
        t["copy"] = t["dist"] = 0
    assert period(small_settings(pipeline=pipeline), **t) == pytest.approx(forward(t) + backward(t), abs=1)


@pytest.mark.parametrize("pipeline", ["sparse_dist", "prefetch", "fused_sparse_dist", "semi_sync"])
@pytest.mark.parametrize("part", ["copy", "dist"])
def test_an_input_stream_binds(pipeline: str, part: str) -> None:
    """An iteration cannot be shorter than what one in-order stream has to do in it."""
    assert period(small_settings(pipeline=pipeline), **{part: 5000}, top=700, update=300) == 5000


@few
@given(durations)
def test_a_lookup_stream_hides_lookups_behind_the_optimizer(t: dict[str, int]) -> None:
    """fused_sparse_dist: lookups follow the update, the bottom MLP the optimizer; the interaction waits for both."""
    t["copy"] = t["dist"] = 0
    t["reduce"] = min(t["reduce"], t["update"])  # an exchange forward waits for the all_reduce on their stream
    both = max(t["exchange_back"], t["bottom_back"])
    paths = max(t["lookup"] + t["exchange"], t["optimizer"] + t["bottom"])
    expected = paths + t["top"] + t["top_back"] + both + t["update"]
    assert period(small_settings(pipeline="fused_sparse_dist"), **t) == pytest.approx(expected, abs=1)


def test_the_exchange_waits_behind_the_all_reduce_of_its_process_group() -> None:
    """fused_sparse_dist: c10d runs the collectives of a group in order, so an early lookup gains nothing here."""
    t = {"lookup": 10, "exchange": 50, "reduce": 400, "optimizer": 20, "update": 100, "top": 30}
    expected = t["reduce"] + t["exchange"] + t["top"]
    assert period(small_settings(pipeline="fused_sparse_dist"), **t) == expected


@few
@given(durations)
def test_semi_sync_takes_lookups_off_the_path(t: dict[str, int]) -> None:
    """The vectors of the next batch arrive during the dense forward pass of this one."""
    t["copy"] = t["dist"] = 0
    room = t["bottom"] + t["top"] + t["top_back"]
    t["lookup"], t["exchange"] = min(t["lookup"], room // 2), min(t["exchange"], room // 2)
    expected = t["bottom"] + t["top"] + backward(t)
    assert period(small_settings(pipeline="semi_sync"), **t) == pytest.approx(expected, abs=1)


def test_semi_sync_is_bound_by_lookups_that_follow_each_other() -> None:
    """A lookup sees the update before the last one, which on its process group follows the exchange before it."""
    t = {"lookup": 500, "exchange": 300, "exchange_back": 70, "update": 40, "top": 10}
    assert period(small_settings(pipeline="semi_sync"), **t) == 500 + 300 + 70 + 40


@few
@given(durations, times)
def test_prefetch_fills_caches_beside_the_iteration_before(t: dict[str, int], fill: int) -> None:
    """Rows of i+1 come in after the update of i-1 and before the lookup of i+1; elsewhere the fill is on the path."""
    t["copy"] = t["dist"] = 0
    iteration = forward(t) + backward(t)
    to_update = iteration - max(t["update"], t["reduce"]) - t["optimizer"] + t["update"]
    expected = max(iteration, fill, (fill + to_update) / 2)
    assert period(small_settings(pipeline="prefetch"), cached=True, **t, fill=fill) == pytest.approx(expected, abs=1)
    in_forward = period(small_settings(pipeline="sparse_dist"), cached=True, **t, fill=fill)
    assert in_forward == pytest.approx(fill + iteration, abs=1)


def test_only_semi_sync_is_stale() -> None:
    """Lookups of one batch come before the update of the one before it."""
    assert {name: schedule.staleness for name, schedule in SCHEDULES.items() if schedule.staleness} == {"semi_sync": 1}


@few
@given(durations, st.integers(2, 4))
def test_accumulation_pays_the_reduction_once(t: dict[str, int], passes: int) -> None:
    """Every pass exchanges and updates embeddings; only the last one sums dense gradients and updates."""
    t["copy"] = t["dist"] = 0
    both = max(t["exchange_back"], t["bottom_back"])
    one = forward(t) + t["top_back"] + both + t["update"]
    expected = passes * one - t["update"] + max(t["update"], t["reduce"]) + t["optimizer"]
    changed = small_settings(pipeline="sparse_dist", gradient_accumulation=passes)
    assert period(changed, **t) == pytest.approx(expected, abs=1)


@few
@given(durations)
def test_without_overlap_exchange_and_bottom_mlp_add_up(t: dict[str, int]) -> None:
    """HugeCTR without intra-iteration overlap: embeddings first, then the bottom MLP; in backward likewise."""
    t["copy"] = t["dist"] = 0
    ahead = t["lookup"] + t["exchange"] + t["bottom"] + t["top"]
    back = t["top_back"] + t["exchange_back"] + t["update"] + t["bottom_back"] + t["reduce"] + t["optimizer"]
    changed = small_settings(pipeline="sparse_dist", overlaps=overlap(exchange=False))
    assert period(changed, **t) == pytest.approx(ahead + back, abs=1)


@few
@given(durations, times)
def test_deferred_weight_gradients_hide_behind_the_exchange(t: dict[str, int], weights: int) -> None:
    """The exchange starts before the weight gradients of the top MLP, which then run beside it."""
    t["copy"] = t["dist"] = 0
    rest = max(t["update"], t["reduce"]) + t["optimizer"]
    in_order = forward(t) + t["top_back"] + weights + max(t["exchange_back"], t["bottom_back"]) + rest
    deferred = forward(t) + t["top_back"] + max(t["exchange_back"], weights + t["bottom_back"]) + rest
    for choice, expected in ((False, in_order), (True, deferred)):
        changed = small_settings(pipeline="sparse_dist", overlaps=overlap(weight_gradients=choice))
        assert period(changed, **t, top_weights=weights) == pytest.approx(expected, abs=1)


def test_all_reduce_after_backward_follows_the_update() -> None:
    """Without overlap the bucket is summed when everything before the optimizer is done."""
    t = {"top": 100, "exchange_back": 50, "bottom_back": 20, "update": 30, "reduce": 40, "optimizer": 5}
    beside = 100 + 50 + 40 + 5
    assert period(small_settings(pipeline="sparse_dist"), **t) == beside
    after = small_settings(pipeline="sparse_dist", overlaps=overlap(all_reduce=False))
    assert period(after, **t) == 100 + 50 + 30 + 40 + 5


@few
@given(st.integers(1, 1000), st.integers(0, 1000), st.integers(0, 1000), st.integers(1, 4), st.integers(1, 1000))
def test_readers_or_training_bind(read: int, receive: int, copy: int, queue: int, train: int) -> None:
    """The slowest stage; with room for one batch, stages next to each other take turns."""
    changed = small_settings(pipeline="none", ingestion=read_at(1.0, queue))
    expected = max(read, receive, copy, train, (read + receive) / queue, (receive + copy) / queue)
    got = period(changed, read=read, receive=receive, copy=copy, top=train)
    assert got == pytest.approx(expected, abs=1)


def test_a_graph_of_the_iteration_has_one_launch_and_no_host_wait() -> None:
    """Its time is launched once; a host-bound job loses its launch gaps."""
    changed = replace(small_settings(pipeline="sparse_dist"), cuda_graph="iteration")
    assert period(changed, top=100, update=50) == 150
