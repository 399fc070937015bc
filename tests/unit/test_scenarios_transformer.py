"""Keys of transformers: sizes that contradict each other are refused with their key; settings change the job."""

from __future__ import annotations

import pytest

from inputs.errors import InputError
from scenarios.progress import Silent
from scenarios.resolve import changed, load_scenario
from scenarios.runner import simulate
from scenarios.transformer.family import settings_of

NAME = "llama3_8b_fsdp_128"
TINY = "{name: tiny, title: two layers, layers: 2, hidden: 512, heads: 8, ffn: 2048, vocabulary: 1000, sequence: 128}"
SMALL = ("nodes=1", "workload.micro_batch_size=1", f"workload.model={TINY}")


def small(*settings: str):
    return load_scenario(NAME, [*SMALL, "workload.sequences=8", *settings])


@pytest.mark.parametrize(
    ("settings", "key", "words"),
    [
        (["workload.parallel.tensor=16"], "workload.parallel.tensor", "does not divide kv_heads=8"),
        (["workload.parallel.tensor=3"], "workload.parallel.tensor", "does not divide the 128 ranks"),
        (["workload.parallel.data=64"], "workload.parallel.data", "= 64, and there are 128 ranks"),
        (["workload.parallel.pipeline=64"], "workload.parallel.pipeline", "more stages than the 32 layers"),
        (["workload.parallel.pipeline=4", "workload.sequences=64"], "workload.parallel.pipeline", "1 micro-batches"),
        (
            ["workload.parallel.pipeline=8", "workload.parallel.virtual_stages=8"],
            "workload.parallel.virtual_stages",
            "more stages than the 32 layers",
        ),
        (["workload.parallel.virtual_stages=2"], "workload.parallel.virtual_stages", "no pipeline"),
        (
            ["workload.parallel.pipeline=8", "workload.parallel.virtual_stages=2", "workload.sequences=288"],
            "workload.parallel.virtual_stages",
            "micro-batches in groups of 8",
        ),
        (["workload.sequences=100"], "workload.sequences", "not whole micro-batches"),
        (["workload.global_batch_size=1000000"], "workload.global_batch_size", "not whole micro-batches"),
        (["workload.gradient_accumulation=2"], "workload.gradient_accumulation", "micro_batch_size"),
        (["workload.parallel.shard_size=8"], "workload.parallel.shard_size", "only hybrid sharding"),
        (
            ["workload.parallel.sharding=hybrid", "workload.parallel.shard_size=7"],
            "workload.parallel.shard_size",
            "do not divide the 128 ranks",
        ),
        (["workload.model=llama3_8c"], "workload.model", "no such transformer"),
        (["workload.strategy=horovod_nccl"], "workload.strategy", "a key of"),
        (["workload.parallel.context=3", "world_size=96", "nodes=null"], "workload.parallel.context", "sequence=8192"),
        (["cluster=xeon_8280_opa", "nodes=64", "precision.dense=fp32"], "cluster", "train on GPUs"),
    ],
)
def test_what_contradicts_is_refused_with_its_key(settings, key, words):
    with pytest.raises(InputError) as refused:
        load_scenario(NAME, settings)
    assert refused.value.key == key
    assert words in str(refused.value)


def test_a_batch_in_tokens_is_the_same_as_in_sequences():
    by_sequences, by_tokens = small(), load_scenario(NAME, [*SMALL, "workload.global_batch_size=1024"])
    assert by_sequences.global_batch_size == by_tokens.global_batch_size == 8 * 128
    assert by_sequences.hash == by_tokens.hash


def test_a_resolved_scenario_resolves_to_itself():
    for settings in ([], ["workload.parallel.sharding=hybrid"], ["workload.parallel.tensor=2"]):
        resolved = small(*settings)
        assert changed(resolved, []).hash == resolved.hash
        assert settings_of(changed(resolved, [])) == settings_of(resolved)


def test_more_nodes_are_more_data_groups():
    one, two = small("workload.parallel.tensor=2"), changed(small("workload.parallel.tensor=2"), ["nodes=2"])
    assert (settings_of(one).sizes.data, settings_of(two).sizes.data) == (4, 8)
    assert one.batch_on(16) == 2 * one.global_batch_size


@pytest.mark.parametrize(
    "settings",
    [
        ["workload.parallel.sharding=none"],
        ["workload.parallel.sharding=optimizer"],
        ["workload.parallel.sharding=hybrid", "workload.parallel.shard_size=4"],
        ["workload.parallel.tensor=2", "workload.parallel.sequence_parallel=false"],
        ["workload.parallel.context=2", "workload.parallel.context_exchange=ring"],
        ["workload.parallel.pipeline=2", "workload.parallel.context=2", "workload.parallel.tensor=2"],
        ["workload.parallel.pipeline=2", "workload.attention=unfused", "precision.dense=fp8"],
    ],
)
def test_every_way_to_divide_runs(settings):
    outcome = simulate(small(*settings), Silent())
    transformer = outcome.summary["parallelism"]
    sizes = [transformer[name] for name in ("data", "tensor", "pipeline", "context")]
    assert sizes[0] * sizes[1] * sizes[2] * sizes[3] == 8
    assert outcome.summary["unit"] == "tokens"
    tokens = outcome.resolved.global_batch_size
    assert outcome.summary["throughput_tokens_per_s"] == pytest.approx(tokens / outcome.analysis.iteration.seconds)


def test_jitter_lets_replicas_differ_and_only_slows():
    steady, jittered = (
        simulate(small("workload.parallel.tensor=2", f"variation.compute_jitter={jitter}"), Silent())
        for jitter in (0.0, 0.2)
    )
    assert jittered.analysis.iteration.seconds > steady.analysis.iteration.seconds


def test_recomputation_is_a_lever_only_where_it_fits():
    def tried(*settings: str) -> set[str]:
        outcome = simulate(load_scenario(NAME, ["nodes=1", "workload.sequences=16", *settings]), Silent())
        return {candidate.setting for candidate in outcome.prepared.job.candidates(outcome.bound)}

    assert "workload.recompute=none" not in tried("workload.micro_batch_size=2")
    assert "workload.recompute=none" in tried("workload.micro_batch_size=1", "workload.sequence=1024")
