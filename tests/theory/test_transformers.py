"""Closed forms of parallel training: bubbles of pipelines, volumes of exchanges, operations of kernels."""

from __future__ import annotations

from dataclasses import replace

import pytest

from simulator.collective_calls import CollectiveCall
from simulator.operators import Attention, Gemm, HostWork
from simulator.program import TaskGraph
from simulator.work import KernelSeries
from tests.transformer_jobs import MODEL, calls, job, span_s
from workloads.transformer.catalog import TRANSFORMERS
from workloads.transformer.iteration import iteration_graph
from workloads.transformer.kernels import layer_forward
from workloads.transformer.parts import parts_of, stage_parts
from workloads.transformer.settings import ParallelSizes

PIPELINES = [(4, 8, 1), (4, 4, 1), (2, 6, 1), (8, 8, 1), (4, 8, 2), (4, 4, 4), (2, 6, 4), (8, 16, 2)]
"""Stages, micro-batches, parts of a stage."""


@pytest.mark.parametrize(("stages", "microbatches", "parts"), PIPELINES)
def test_bubble_of_a_pipeline(stages, microbatches, parts):
    """A share (p - 1) / (v m + p - 1) of the time is spent waiting (arXiv:2104.04473, section 2.2)."""
    sizes = ParallelSizes(pipeline=stages, virtual_stages=parts)
    whole = span_s(job(sizes, microbatches=microbatches), free=True)
    busy = span_s(job(ParallelSizes(), microbatches=microbatches), free=True) / stages
    bubble = (stages - 1) / (parts * microbatches + stages - 1)
    assert 1.0 - busy / whole == pytest.approx(bubble, abs=5e-3)  # embedding and loss are no layers


def test_interleaving_is_faster_than_1f1b_with_messages_too():
    plain, interleaved = (
        span_s(job(ParallelSizes(pipeline=4, virtual_stages=parts), microbatches=4)) for parts in (1, 4)
    )
    assert interleaved < plain


@pytest.mark.parametrize("microbatches", [1, 3])
def test_fsdp_moves_three_times_the_parameters(microbatches):
    """Weights are gathered twice, gradients are scattered once, in 2 bytes each (arXiv:2304.11277)."""
    settings = job(ParallelSizes(data=8, sharding="fsdp"), reduced="bf16", microbatches=microbatches)
    graph = iteration_graph(settings)
    gathered = sum(call.bytes for call in calls(graph, "all_gather", "data"))
    scattered = sum(call.bytes for call in calls(graph, "reduce_scatter", "data"))
    assert gathered == 2 * scattered
    assert gathered + scattered == microbatches * 3 * 2 * MODEL.counts.all


def test_fsdp_that_keeps_weights_moves_twice_the_parameters():
    settings = job(ParallelSizes(data=8, sharding="fsdp", reshard=False), reduced="bf16")
    graph = iteration_graph(settings)
    moved = [*calls(graph, "all_gather", "data"), *calls(graph, "reduce_scatter", "data")]
    assert sum(call.bytes for call in moved) == 2 * 2 * MODEL.counts.all


def test_hybrid_sharding_sums_a_shard_over_its_replicas():
    graph = iteration_graph(job(ParallelSizes(data=16, sharding="hybrid", shard_size=8)))
    assert sum(call.bytes for call in calls(graph, "all_gather", "shard")) == 2 * 2 * MODEL.counts.all
    assert sum(call.bytes for call in calls(graph, "reduce_scatter", "shard")) == 4 * MODEL.counts.all
    assert sum(call.bytes for call in calls(graph, "all_reduce", "replicate")) == 4 * MODEL.counts.all / 8


@pytest.mark.parametrize("sharding", ["none", "optimizer"])
def test_ddp_and_zero_move_gradients_once(sharding):
    graph = iteration_graph(job(ParallelSizes(data=8, sharding=sharding), microbatches=3))
    op = "all_reduce" if sharding == "none" else "reduce_scatter"
    assert sum(call.bytes for call in calls(graph, op, "data")) == 4 * MODEL.counts.all
    gathered = 0 if sharding == "none" else 2 * MODEL.counts.all
    assert sum(call.bytes for call in calls(graph, "all_gather", "data")) == gathered


def test_weights_are_gathered_beside_the_layers_before():
    """With one layer ahead only the first gather is exposed, where a layer takes longer than its weights."""
    ahead, late = (
        span_s(job(ParallelSizes(data=8, sharding="fsdp", prefetch=prefetch), micro_batch=4, reduced="bf16"))
        for prefetch in (1, 0)
    )
    alone = span_s(job(ParallelSizes(data=8), micro_batch=4, reduced="bf16"))
    assert alone < ahead < 1.1 * alone
    assert late > 1.05 * ahead


def repeated(graph: TaskGraph, op: str, communicator: str) -> float:
    return sum(call.repeats * call.bytes for call in calls(graph, op, communicator))


def test_exchanges_of_a_tensor_group():
    """Per layer two gathers and two scatters in each pass, and two gathers for gradients (arXiv:2205.05198)."""
    graph = iteration_graph(job(ParallelSizes(tensor=8)))
    size, layers = 2048 * 4096 * 2, MODEL.layers
    # The output layer gathers its input and scatters its gradient, the embedding the other way round.
    assert repeated(graph, "all_gather", "tensor") == size * (6 * layers + 2)
    assert repeated(graph, "reduce_scatter", "tensor") == size * (4 * layers + 2)


def test_without_sequence_parallelism_a_tensor_group_sums_four_times():
    graph = iteration_graph(job(ParallelSizes(tensor=8, sequence_parallel=False)))
    assert repeated(graph, "all_reduce", "tensor") == 2048 * 4096 * 2 * (4 * MODEL.layers + 2)


@pytest.mark.parametrize("context", [2, 4])
def test_a_ring_passes_keys_and_values_to_all_others(context):
    """c - 1 messages of a rank's keys and values forward, and of them and their gradients backward."""
    sizes = ParallelSizes(context=context, context_exchange="ring")
    sent = repeated(iteration_graph(job(sizes)), "sendrecv", "context")
    own = 2 * (2048 // context) * 1024 * 2
    assert sent == own * (context - 1) * 3 * MODEL.layers


@pytest.mark.parametrize(("recompute", "gathers"), [("none", 2), ("full", 3)])
def test_a_context_group_gathers_keys_and_values(recompute, gathers):
    """Keys and values of all tokens before attention in each pass, gradients of both are scattered (Llama 3, 3.3.2)."""
    graph = iteration_graph(job(ParallelSizes(context=4), recompute=recompute))
    whole = 2 * 2048 * 1024 * 2
    assert repeated(graph, "all_gather", "context") == gathers * whole * MODEL.layers
    assert repeated(graph, "reduce_scatter", "context") == whole * MODEL.layers


@pytest.mark.parametrize(("stages", "microbatches", "parts"), PIPELINES)
def test_messages_of_a_pipeline(stages, microbatches, parts):
    """Each micro-batch crosses v p - 1 boundaries forward and backward with b s h numbers (arXiv:2104.04473, 3.2)."""
    sizes = ParallelSizes(pipeline=stages, virtual_stages=parts, data=2)
    graph = iteration_graph(job(sizes, microbatches=microbatches))
    for direction in ("forward", "backward"):
        moved = [
            call.bytes
            for program in graph.programs
            for call in program.work
            if isinstance(call, CollectiveCall) and call.communicator.startswith(direction)
        ]
        boundaries = stages * parts - 1
        assert sum(moved) / 2 == microbatches * boundaries * 2048 * 4096 * 2  # at its sender and at its receiver


def test_a_context_group_divides_the_work():
    whole, half = (span_s(job(ParallelSizes(context=c), micro_batch=4), free=True) for c in (1, 2))
    assert half == pytest.approx(whole / 2, rel=0.05)


def products(name: str, **changes: object) -> tuple[float, float]:
    """Floating point operations of all matrix products, and of attention, in an iteration of one sequence."""
    model = TRANSFORMERS[name]
    settings = replace(job(ParallelSizes()), model=model, sequence=model.sequence, **changes)
    gemms = attention = 0.0
    for work in iteration_graph(settings).programs[0].work:
        for count, kernel in work.kernels if isinstance(work, KernelSeries) else ():
            if isinstance(kernel, Gemm):
                gemms += count * 2.0 * kernel.m * kernel.n * kernel.k * kernel.count
            attention += count * kernel.flops if isinstance(kernel, Attention) else 0.0
    return gemms, attention


@pytest.mark.parametrize("name", ["bert_base", "gpt2", "llama3_8b", "gpt3_175b"])
def test_products_are_six_operations_for_each_parameter(name):
    """6 N for a token; attention 12 l h s, a half with a causal mask, and one product of seven computed again."""
    model = TRANSFORMERS[name]
    gemms, attention = products(name)
    tokens = model.sequence
    assert gemms == pytest.approx(6.0 * model.counts.multiplied * tokens, rel=1e-9)
    whole = 12.0 * model.layers * model.query_width * tokens * tokens
    assert attention == pytest.approx(whole * 7 / 6 / (2 if model.causal else 1), rel=1e-9)


def test_full_recomputation_repeats_the_forward_pass_of_layers():
    """96 instead of 72 l h^2 (1 + s / 6h) for a token (arXiv:2104.04473), without the mask's half."""
    model = TRANSFORMERS["gpt2"]
    none, full = (products("gpt2", recompute=recompute)[0] for recompute in ("none", "full"))
    layers = 6.0 * model.layers * model.counts.layer_matrices * model.sequence
    assert full - none == pytest.approx(layers / 3, rel=1e-9)


def test_scores_that_are_written_have_the_same_products():
    """Without FlashAttention the products are GEMMs: 12 l h s for a token, nothing is masked or computed again."""
    model = TRANSFORMERS["gpt2"]
    (with_flash, _), (without, attention) = products("gpt2"), products("gpt2", attention="unfused")
    assert attention == 0.0
    scores = 12.0 * model.layers * model.query_width * model.sequence**2
    assert without - with_flash == pytest.approx(scores, rel=1e-9)


def test_parts_have_all_parameters():
    assert sum(part.parameters for part in parts_of(job(ParallelSizes()))) == MODEL.counts.all


def test_replicas_of_groups_of_one_rank_sum_their_gradients():
    """Hybrid sharding in groups of one rank is data parallelism: all gradients are summed over all ranks."""
    graph = iteration_graph(job(ParallelSizes(data=4, sharding="hybrid", shard_size=1)))
    assert repeated(graph, "all_reduce", "replicate") == pytest.approx(4.0 * MODEL.counts.all)


def test_a_selection_by_operator_computes_scores_again_that_are_not_kept():
    none, operators = (products("gpt2", attention="unfused", recompute=name)[0] for name in ("none", "operators"))
    model = TRANSFORMERS["gpt2"]
    scores = 4.0 * model.sequence**2 * model.query_width * model.layers
    repeated_products = 2.0 * model.sequence * model.layers * (model.kv_width + model.query_width) * model.hidden
    assert operators - none == pytest.approx(scores + repeated_products, rel=1e-9)


@pytest.mark.parametrize(("layers", "pipeline", "parts"), [(6, 2, 2), (126, 8, 2), (126, 8, 1), (33, 4, 4)])
def test_layers_of_stages_differ_by_one_in_each_part(layers, pipeline, parts):
    sizes = ParallelSizes(pipeline=pipeline, virtual_stages=parts)
    settings = replace(job(sizes, microbatches=pipeline), model=MODEL.model_copy(update={"layers": layers}))
    stages = stage_parts(settings)
    counts = [part.layers for stage in stages for part in stage]
    assert sum(counts) == layers
    assert max(counts) - min(counts) <= 1
    totals = [sum(part.layers for part in stage) for stage in stages]
    assert max(totals) == -(-layers // pipeline) or parts > 1
    if layers == 6:
        assert totals == [3, 3]


def test_the_first_kernel_waits_for_the_launches_of_one_layer_at_most():
    """Data parallelism launches the forward pass layer by layer, as the host does."""
    (program,) = iteration_graph(job(ParallelSizes(data=2))).programs
    most = max(work.launches for work in program.work if isinstance(work, HostWork))
    assert most < 60


@pytest.mark.parametrize("tensor", [1, 8])
def test_inputs_in_fp8_are_cast_before_they_are_gathered(tensor):
    """Two bytes read and two written an element; of gathered inputs a rank casts a t-th and transposes the whole."""
    settings = job(ParallelSizes(tensor=tensor), precision="fp8", compiled=True)
    plain = replace(settings, precision="bf16")
    moved = [
        sum(count * (kernel.read_bytes + kernel.write_bytes) for count, kernel in layer_forward(each).first)
        for each in (settings, plain)
    ]
    model, tokens = MODEL, settings.tokens
    gathered = 2 * tokens * model.hidden  # of attention and of the feed-forward network
    divided = tokens * (model.query_width + model.ffn) / tensor
    weights = model.counts.layer_matrices / tensor
    each = 4 if tensor == 1 else 3 / tensor + 2
    assert moved[0] - moved[1] == pytest.approx(each * gathered + 4 * (divided + weights), rel=1e-9)
