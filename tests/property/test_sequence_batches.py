"""Laws of batches of sequences: how samples are dealt to ranks, padding, skew of rows, and the times that follow."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from inputs.yaml_lines import Document
from scenarios.engine_run import iteration_s
from tests.sequence_jobs import model_data, placed
from workloads.dlrm.iteration.groups import EmbeddingGroup
from workloads.dlrm.laws.sequence_lengths import LengthLaw
from workloads.dlrm.model.model import read_model
from workloads.dlrm.model.sequence_batches import BATCHINGS, Batching, Dealing, RankLengths, lengths_on_ranks, shares
from workloads.dlrm.model.sequences import SequenceLengths
from workloads.dlrm.model.tables import expand_tables

LAWS = {
    "geometric": LengthLaw(distribution="geometric", mean=300.0),
    "uniform": LengthLaw(distribution="uniform", low=0, high=512),
    "lognormal": LengthLaw(distribution="lognormal", mean=150.0, deviation=1.5),
    "few long ones": LengthLaw(distribution="histogram", lengths=(4, 512), weights=(9.0, 1.0)),
}
EVEN_POSITIONS, CONTEXT, MAX_LENGTH = 120.0, 3, 512


def sequence(law: str) -> SequenceLengths:
    return SequenceLengths(
        "history", LAWS[law], MAX_LENGTH, targets=1, attended=True, context=CONTEXT, even_positions=EVEN_POSITIONS
    )


def work(found: RankLengths) -> np.ndarray:
    """Operations of each rank but for a factor: p (p + e) of a sample with p positions, its context among them."""
    every = found.beside(CONTEXT)
    return every.squares + EVEN_POSITIONS * every.positions


def largest_over_mean(known: SequenceLengths, dealing: Dealing) -> float:
    found = work(lengths_on_ranks(known, dealing))
    return float(found.max() / found.mean())


dealings = st.builds(
    lambda ranks, each, more, seed: Dealing(ranks * each + min(more, ranks - 1), ranks, seed),
    st.integers(1, 16),
    st.integers(1, 40),
    st.integers(0, 15),
    st.integers(0, 1000),
)
laws = st.sampled_from(list(LAWS))
MANY = settings(max_examples=200, deadline=None)


@MANY
@given(laws, dealings)
def test_every_batching_has_the_same_samples(law: str, dealing: Dealing) -> None:
    """Sums over ranks of positions and of their squares, the longest sample, and the number of samples of each rank."""
    found = {name: lengths_on_ranks(sequence(law), replace(dealing, batching=name)) for name in BATCHINGS}
    for each in found.values():
        assert each.samples.tolist() == shares(dealing).tolist()
        assert each.positions.sum() == found["random"].positions.sum()
        assert each.squares.sum() == found["random"].squares.sum()
        assert each.longest.max() == found["random"].longest.max()
        assert np.all(each.positions >= each.samples)  # the candidate of each
        assert np.all(each.squares * each.samples >= each.positions**2 * (1 - 1e-12))
        assert np.all(each.longest <= MAX_LENGTH + 1)


@MANY
@given(dealings)
def test_samples_are_spread_as_evenly_as_they_can_be(dealing: Dealing) -> None:
    found = shares(dealing)
    assert found.sum() == dealing.samples
    assert found.max() - found.min() <= 1
    assert found.tolist() == sorted(found.tolist(), reverse=True)


@MANY
@given(laws, dealings)
def test_sorted_batches_are_never_more_even_than_random_ones(law: str, dealing: Dealing) -> None:
    """No choice of as many samples has more work than the longest ones, which the first rank has."""
    known = sequence(law)
    in_order = largest_over_mean(known, replace(dealing, batching="sorted"))
    assert in_order >= largest_over_mean(known, dealing) * (1 - 1e-12)
    assert in_order >= largest_over_mean(known, replace(dealing, batching="balanced")) * (1 - 1e-12)


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize(("samples", "ranks"), [(64, 8), (256, 8), (1024, 64), (100, 8), (8, 8)])
def test_balanced_batches_are_never_less_even_than_random_ones(law: str, samples: int, ranks: int) -> None:
    for seed in range(40):
        dealing = Dealing(samples, ranks, seed)
        balanced = largest_over_mean(sequence(law), replace(dealing, batching="balanced"))
        assert balanced <= largest_over_mean(sequence(law), dealing) * (1 + 1e-12), seed


@MANY
@given(laws, st.integers(1, 16), st.integers(1, 40), st.integers(0, 1000))
def test_ranks_of_balanced_batches_differ_by_less_than_a_sample(law: str, ranks: int, each: int, seed: int) -> None:
    """The rank with less work gets the longer sample of a round, so two ranks never differ by more than the longest and
    the shortest sample do."""
    known, dealing = sequence(law), Dealing(ranks * each, ranks, seed, "balanced")
    alone = work(lengths_on_ranks(known, Dealing(ranks * each, ranks * each, seed)))
    found = work(lengths_on_ranks(known, dealing))
    assert found.max() - found.min() <= alone.max() - alone.min() + 1e-6


@MANY
@given(laws, dealings, st.sampled_from(BATCHINGS))
def test_padding_only_adds(law: str, dealing: Dealing, batching: Batching) -> None:
    found = lengths_on_ranks(sequence(law), replace(dealing, batching=batching))
    padded = found.padded()
    assert np.all(padded.positions >= found.positions)
    assert np.all(padded.squares >= found.squares)
    assert np.array_equal(padded.positions, found.samples * found.longest)
    assert np.array_equal(padded.samples, found.samples)


def test_sorting_saves_padding() -> None:
    """Samples of a rank are alike: 1,000 of a wide distribution, padded to half of the positions."""
    in_order, as_drawn = (
        lengths_on_ranks(sequence("lognormal"), Dealing(1000, 10, 0, name)).padded() for name in ("sorted", "random")
    )
    assert in_order.positions.sum() < 0.6 * as_drawn.positions.sum()


@MANY
@given(st.integers(1, 16), st.integers(1, 500), st.integers(0, 3))
def test_fixed_lengths_are_a_distribution_of_one_length(ranks: int, more: int, targets: int) -> None:
    dealing = Dealing(ranks + more, ranks, 0)
    fixed = replace(sequence("uniform"), law=LengthLaw(distribution="fixed", mean=40), targets=targets)
    drawn = replace(fixed, law=LengthLaw(distribution="uniform", low=40, high=40))
    one, other = lengths_on_ranks(fixed, dealing), lengths_on_ranks(drawn, dealing)
    for name in RankLengths.__dataclass_fields__:
        assert np.array_equal(np.broadcast_to(getattr(one, name), ranks), getattr(other, name)), name


def test_ranks_have_their_samples_one_after_the_other() -> None:
    """As they come: over two ranks each has the samples of two of four."""
    four, two = (lengths_on_ranks(sequence("geometric"), Dealing(64, ranks, 5)) for ranks in (4, 2))
    assert two.positions.tolist() == (four.positions[::2] + four.positions[1::2]).tolist()
    assert two.longest.tolist() == np.maximum(four.longest[::2], four.longest[1::2]).tolist()


def test_other_names_and_seeds_draw_other_lengths() -> None:
    known, dealing = sequence("geometric"), Dealing(64, 4, 0)
    found = lengths_on_ranks(known, dealing).positions.tolist()
    assert found == lengths_on_ranks(sequence("geometric"), Dealing(64, 4, 0)).positions.tolist()
    assert found != lengths_on_ranks(replace(known, name="other"), dealing).positions.tolist()
    assert found != lengths_on_ranks(known, replace(dealing, seed=1)).positions.tolist()


def test_lengths_have_the_mean_of_their_law() -> None:
    """100,000 samples of each: within five deviations of the mean of the tables' lookups."""
    for name, law in LAWS.items():
        found = lengths_on_ranks(sequence(name), Dealing(100_000, 1, 2))
        mean, square = found.positions[0] / 1e5, found.squares[0] / 1e5
        tables = expand_tables(
            read_model(Document(model_data(law.model_dump(exclude_none=True), max_length=512), {}, Path("x")))
        )
        assert abs(mean - tables.lookups_per_sample[0]) < 5 * np.sqrt((square - mean**2) / 1e5), name


def served(**sharding: object) -> np.ndarray:
    """Lookups that each of 8 ranks serves, of rows in the order of their popularity ``[8]``."""
    tables = [{"name": "item", "rows": 80_000, "dim": 32, "sequence": "history"}]
    model = model_data({"distribution": "geometric", "mean": 30.0}, tables=tables, context=False)
    model["index_reuse"]["value"] = {"distribution": "zipf", "exponent": 1.05, "order": "popularity"}
    _, workload = placed(model, 8, sharding={"planner": "row_wise", **sharding}, global_batch_size=4096)
    groups: tuple[EmbeddingGroup, ...] = workload.job.groups
    assert [group.kind for group in groups] == ["sequence_row_wise"]
    return np.broadcast_to(np.asarray(groups[0].lookup.lookups), 8)


def test_popular_rows_draw_lookups_to_the_first_rank_and_asking_once_sends_some_away() -> None:
    plain, once = served(), served(index_dedup=True)
    assert plain.tolist() == sorted(plain.tolist(), reverse=True)
    assert plain[0] > 3 * plain.mean()
    assert once.argmax() == 0
    assert once[0] / once.mean() < 0.8 * plain[0] / plain.mean()
    assert np.all(once < plain)


def wide(lengths: dict[str, object], **changes: Any) -> dict[str, Any]:
    """A model whose kernels take longer than their launches."""
    stack = {"width": 256, "heads": 4, "qk_width": 64, "value_width": 64, "preprocessor_width": 128, **changes}
    return model_data(lengths, **stack)


def taken_s(model: dict[str, Any], ranks: int = 4, **workload: object) -> float:
    job, placed_on = placed(model, ranks, sharding={"planner": "row_wise"}, global_batch_size=1024 * ranks, **workload)
    return iteration_s(job.resolved, placed_on, job.machine)


FULL = {"distribution": "fixed"}


@pytest.mark.parametrize(
    "models",
    [
        [wide(FULL, max_length=n) for n in (256, 512, 513, 1024)],
        [wide({"distribution": "geometric", "mean": 400.0}, max_length=n) for n in (256, 512, 1024, 4096)],
        [wide({"distribution": "fixed", "mean": n}, max_length=1024) for n in (256, 500, 501, 1024)],
        [wide(FULL, max_length=512, layers=n) for n in (1, 2, 3, 8)],
        [wide(FULL, max_length=512, recompute=again) for again in (False, True)],
        [wide(FULL, max_length=512, width=n) for n in (256, 264, 512)],
        [wide(FULL, max_length=512, targets=n) for n in (1, 2, 64)],
    ],
    ids=["maximum", "cut tail", "length", "layers", "recompute", "width", "targets"],
)
def test_more_work_takes_longer(models: list[dict[str, Any]]) -> None:
    times = [taken_s(model) for model in models]
    assert all(before < after for before, after in pairwise(times)), times


@pytest.mark.parametrize(("slower", "faster"), [("random", "balanced"), ("sorted", "random")])
def test_even_batches_are_faster(slower: str, faster: str) -> None:
    model = wide({"distribution": "lognormal", "mean": 300.0, "deviation": 1.5}, max_length=2048)
    assert taken_s(model, 8, batching=slower) > taken_s(model, 8, batching=faster)


def test_padding_takes_longer() -> None:
    model = wide({"distribution": "lognormal", "mean": 300.0, "deviation": 1.5}, max_length=2048)
    assert taken_s(model, 8, sequence_layout="padded") > taken_s(model, 8) > taken_s(model, 8, mode="eval")
