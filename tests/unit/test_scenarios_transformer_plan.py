"""The search for the fastest division of a transformer: its bound, its best, its refusals, and remedies that fit."""

from __future__ import annotations

from dataclasses import replace
from functools import cache, partial

import pytest

from inputs.errors import InfeasibleError, InputError
from reports.plans import plan_page
from scenarios.family import FAMILIES
from scenarios.prepare import prepare
from scenarios.progress import Silent
from scenarios.resolve import changed, load_scenario
from scenarios.runner import simulation_of
from scenarios.transformer.filling import settings_of_resolved
from scenarios.transformer.plan_study import study_divisions
from scenarios.transformer.search import DivisionFound, division_search, simulated

MODEL = (
    "{name: small, title: four layers, layers: 4, hidden: 2048, heads: 8, kv_heads: 2, ffn: 8192, vocabulary: 1000, "
    "sequence: 1024, gated: true, norm: rms, biases: false, positions: rotary}"
)
SMALL = (
    "nodes=1", f"workload.model={MODEL}", "workload.sequences=8", "workload.micro_batch_size=1",
    "workload.recompute=none",
)  # fmt: skip
ROOMS = ("80 GB", "4 GB", "3 GB")
"""Memory of a GPU: all divisions fit, most do, few do."""


@cache
def small(memory: str = "80 GB", *settings: str):
    return load_scenario("llama3_8b_fsdp_128", [*SMALL, f"cluster.node.gpu.memory_bytes={memory}", *settings])


def search_of(resolved):
    return division_search(resolved)


@cache
def every(memory: str) -> tuple[DivisionFound, ...]:
    """All divisions, and recomputations where they do not fit; those that fit are simulated."""
    search = search_of(small(memory))
    search.run(lambda found: replace(found, **simulated(small(memory), found)), most=10_000, further=True)
    assert search.left == search.slower == 0
    looked = [search.space.looked_at(search.own, own=True), *search_of(small(memory)).in_order()]
    return (*search.simulated, *(found for found in looked if not found.fits))


@pytest.mark.parametrize("memory", ROOMS[:2])
def test_the_plan_is_the_fastest_of_all_divisions_that_fit(memory):
    study = study_divisions(small(memory), Silent())
    times = [found.iteration_time_s for found in every(memory) if found.fits]
    assert study.left == 0
    assert study.best.iteration_time_s == min(times)
    assert study.best.iteration_time_s == min(found.iteration_time_s for found in study.simulated)
    assert simulation_of(study.resolved, Silent()).analysis.iteration.seconds == study.best.iteration_time_s


@pytest.mark.parametrize("memory", ROOMS[:2])
def test_no_run_ends_before_its_least_time(memory):
    assert [
        found.settings for found in every(memory) if found.fits and found.iteration_time_s < found.least_time_s
    ] == []


@pytest.mark.parametrize(
    "settings",
    [
        ("workload.attention=unfused",),
        ("workload.attention=flash3",),
        ("workload.compiled=false",),
        ("workload.parallel.context=2", "workload.parallel.context_exchange=ring"),
        ("workload.parallel.tensor=2", "workload.parallel.sequence_parallel=false"),
        ("workload.parallel.tensor=2", "workload.parallel.overlap_tensor=true"),
        ("precision.dense=fp8",),
    ],
)
def test_no_run_of_another_job_does_either(settings):
    search = search_of(small("80 GB", *settings))
    for number, found in enumerate(search.in_order()):
        if number % 9 == 0:
            assert simulated(search.space.resolved, found)["iteration_time_s"] >= found.least_time_s, found.settings


def test_every_division_that_fits_runs_by_itself_as_long_as_the_plan_says():
    for found in study_divisions(small("4 GB"), Silent()).simulated[::9]:
        resolved = changed(small("4 GB"), found.settings)
        settings = settings_of_resolved(resolved)
        sizes = settings.sizes
        assert (sizes.tensor, sizes.pipeline, sizes.context, sizes.data) == (
            found.tensor, found.pipeline, found.context, found.data,
        )  # fmt: skip
        assert (settings.micro_batch, settings.microbatches, settings.recompute) == (
            found.micro_batch, found.microbatches, found.recompute,
        )  # fmt: skip
        assert resolved.global_batch_size == small("4 GB").global_batch_size
        done = simulation_of(resolved, Silent())
        assert done.analysis.iteration.seconds == found.iteration_time_s
        assert done.prepared.memory.use.total("hbm").max() == found.memory_bytes


def test_every_division_without_room_is_refused_by_a_run():
    refused = [found for found in every("3 GB") if not found.fits]
    assert len(refused) > 100
    for found in refused[::20]:
        with pytest.raises(InfeasibleError, match="needs more memory than it has"):
            prepare(changed(small("3 GB"), found.settings), Silent())


def test_recomputation_comes_only_where_less_of_it_does_not_fit():
    found = every("3 GB")
    refused = {(f.settings, f.recompute): f for f in found if not f.fits}
    for one in (f for f in found if f.fits and f.recompute != "none" and not f.own):
        without = tuple(s for s in one.settings if not s.startswith("workload.recompute"))
        assert (without, "none") in refused


def test_divisions_keep_tensor_groups_within_a_node():
    resolved = load_scenario("llama3_70b_3d_256")
    found = list(search_of(resolved).in_order())
    assert {one.tensor for one in found} == {1, 2, 4, 8}
    assert max(one.tensor * one.context for one in found) <= 8
    assert {one.tensor * one.context * one.pipeline * one.data for one in found} == {256}


def test_sizes_that_the_scenario_gives_are_replaced():
    given = ["workload.parallel.data=8", "workload.parallel.sharding=hybrid", "workload.parallel.shard_size=2"]
    study = study_divisions(small("80 GB", *given), Silent())
    plain = study_divisions(small("80 GB"), Silent())
    assert study.best.iteration_time_s <= plain.best.iteration_time_s
    assert {found.data for found in study.simulated} != {8}


def test_a_default_batch_stays_that_of_the_scenario():
    """Without ``sequences`` the batch is one micro-batch a stage and data group: settings for another size state it."""
    scenario = ["workload.sequences=null", "workload.parallel.pipeline=2", "workload.parallel.sharding=optimizer"]
    best = study_divisions(load_scenario("llama3_8b_fsdp_128", [*SMALL, *scenario]), Silent()).best
    again = load_scenario("llama3_8b_fsdp_128", [*SMALL, *scenario, *best.settings])
    assert again.global_batch_size == 8 * 1024
    assert simulation_of(again, Silent()).analysis.iteration.seconds == best.iteration_time_s


def test_where_nothing_fits_the_nearest_and_remedies_are_named():
    resolved = small("2.6 GB")
    with pytest.raises(InfeasibleError) as refused:
        study_divisions(resolved, Silent())
    words = str(refused.value)
    assert "none of its 134 divisions fits; the nearest: --set workload" in words
    assert "too much" in words
    assert refused.value.remedies
    for settings in refused.value.remedies:
        assert prepare(changed(resolved, settings), Silent()).memory.fits
        assert " ".join(f"--set {setting}" for setting in settings) in words


@pytest.mark.parametrize(
    ("settings", "key"),
    [
        (("workload.parallel.sharding=none",), "workload.parallel.sharding=fsdp"),
        (("workload.micro_batch_size=8", "workload.sequences=64"), "workload.micro_batch_size=2"),
        (("workload.parallel.pipeline=2", "workload.parallel.sharding=none"), "workload.parallel.tensor=2"),
    ],
)
def test_a_run_without_room_names_the_mildest_value_of_each_key(settings, key):
    resolved = small("4 GB", *settings)
    with pytest.raises(InfeasibleError) as refused:
        prepare(resolved, Silent())
    assert (key,) in refused.value.remedies
    for remedy in refused.value.remedies:
        assert prepare(changed(resolved, remedy), Silent()).memory.fits


def test_planners_have_no_names_here():
    with pytest.raises(InputError, match="--planner: plans of transformers have no planners; given 'greedy'"):
        FAMILIES.get("transformer").planning.settings("greedy")


def test_results_that_are_kept_are_not_simulated_again():
    kept: dict[str, object] = {}

    def keep(question, work):
        if question not in kept:
            kept[question] = work()
        return kept[question]

    first = study_divisions(small("3 GB"), Silent(), compare=True, keep=keep)
    count = len(kept)
    again = study_divisions(small("3 GB"), Silent(), compare=True, keep=partial(keep))
    assert count == len(first.simulated) == len(kept)
    assert again.to_dict() == first.to_dict()


def test_the_page_prints_settings_as_they_are():
    """Names keep their capitals, such as those of sites."""
    study = study_divisions(small(), Silent())
    best = replace(study.best, settings=("site_order=[Oslo,Rome]",))
    page = plan_page(replace(study, simulated=(best, *study.simulated[1:])), "1")
    assert "As settings: <code" in page
    assert "--set site_order=[Oslo,Rome]</code>" in page
