"""Operations and bytes of a stack of HSTU layers: the task graph against closed forms written out here."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from scenarios.dlrm.plans import PlanningJob
from scenarios.dlrm.sequence_sections import sequences_of
from scenarios.resolve import load_scenario
from simulator.collective_calls import CollectiveCall
from simulator.equality import same
from simulator.operators import Attention, Copy, Elementwise, EmbeddingLookup, Gemm
from tests.sequence_jobs import (
    ACTION,
    BATCH,
    HEADS,
    HIDDEN,
    ITEM,
    LAYERS,
    QUERY,
    TOP,
    VALUE,
    WIDTH,
    flops,
    model_data,
    placed,
    works,
)
from workloads.dlrm.model.hstu_part import hstu_part
from workloads.dlrm.model.tables import expand_tables

LENGTH, TARGETS, CONTEXT = 40, 3, 1
"""Positions of a history, candidates behind it, contextual positions before it."""
RANKS = 4
GEMM_OF = {"uvqk": ("_uvqk",), "output": ("hstu_0_output", "hstu_1_output")}
TRAINED = 3
"""A linear layer takes three products: forward, gradient of the inputs, gradient of the weights."""


def graph_of(length: int = LENGTH, targets: int = TARGETS, context: bool = True, **stack: Any) -> dict[str, Any]:
    model = model_data({"distribution": "fixed"}, max_length=length, targets=targets, context=context, **stack)
    return works(placed(model, RANKS)[1].graph().programs[0])


def sum_of(graph: dict[str, Any], *parts: str) -> float:
    """Operations of a rank in tasks whose names have one of the parts."""
    return sum(float(flops(work, RANKS)[0]) for name, work in graph.items() if any(part in name for part in parts))


def causal_pairs(positions: int) -> float:
    """Pairs of a position and one that it attends to: half of the square, as published figures count."""
    return positions * positions / 2


def scores_and_values(positions: int) -> tuple[float, float]:
    """Operations of a layer's two products, of queries and keys, and of scores and values, for a rank's samples."""
    pairs = BATCH * HEADS * causal_pairs(positions)
    return 2.0 * pairs * QUERY, 2.0 * pairs * VALUE


@pytest.mark.parametrize("recompute", [False, True])
def test_operations_of_every_part_are_the_closed_form(recompute):
    """By part, to rounding: nothing else of the graph multiplies."""
    graph = graph_of(recompute=recompute)
    own = BATCH * (LENGTH + TARGETS)
    every = own + BATCH * CONTEXT
    qk, pv = scores_and_values(LENGTH + TARGETS + CONTEXT)
    uvqk = 2 * every * WIDTH * HEADS * 2 * (QUERY + VALUE)
    expected = {
        "attention": LAYERS * (4 * qk + 3 * pv),
        "uvqk": LAYERS * (TRAINED + recompute) * uvqk,
        "hstu_0_output": TRAINED * 2 * every * 3 * HEADS * VALUE * WIDTH,
        "hstu_1_output": TRAINED * 2 * every * 3 * HEADS * VALUE * WIDTH,
        "content_": TRAINED * 2 * own * (32 * HIDDEN + HIDDEN * WIDTH),
        "additional_": TRAINED * 2 * own * (16 * HIDDEN + HIDDEN * WIDTH),
        "action_": TRAINED * 2 * own * (ACTION * HIDDEN + HIDDEN * WIDTH),
        "context_": TRAINED * 2 * BATCH * CONTEXT * 32 * WIDTH,
        "item_": TRAINED * 2 * BATCH * TARGETS * (48 * ITEM + ITEM * WIDTH),
        "top_": TRAINED * 2 * BATCH * TARGETS * (WIDTH * TOP[0] + TOP[0] * TOP[1]),
    }
    for part, closed_form in expected.items():
        assert sum_of(graph, part) == pytest.approx(closed_form, rel=1e-12), part
    assert sum_of(graph, "") == pytest.approx(sum(expected.values()), rel=1e-12)


def test_recomputing_adds_one_forward_product_of_uvqk_a_layer():
    with_it, without = graph_of(recompute=True), graph_of(recompute=False)
    extra = {name: float(flops(work, RANKS)[0]) for name, work in with_it.items() if name not in without}
    forward = [float(flops(with_it[f"hstu_{number}_uvqk_forward"], RANKS)[0]) for number in range(LAYERS)]
    assert [extra[f"hstu_{number}_uvqk_again"] for number in range(LAYERS)] == forward
    assert sum(extra.values()) == sum(forward)
    assert sum_of(with_it, "") - sum_of(without, "") == pytest.approx(sum(forward), rel=1e-12)


def test_a_full_sample_of_mlperf_takes_316_gflop():
    """The issue's figures, within 1 %: 180 GFLOP of attention, 77 of UVQK, 58 of the output layers; and by hand."""
    resolved = load_scenario("mlperf_dlrm_v4_hstu")
    stack = hstu_part(resolved.model.hstu, expand_tables(resolved.model))
    positions = 4086 + 1 + 8
    found = stack.training_flops(float(positions), float(positions) ** 2)
    by_hand = {
        "attention": 3 * 7 * 2 * 4 * 128 * positions**2 / 2,  # 3 layers, 7 products of 2 n n 128, 4 heads, a half
        "uvqk": 3 * 3 * 2 * positions * 512 * 2048,
        "output": 3 * 3 * 2 * positions * 1536 * 512,
    }
    rounded = {"attention": 180, "uvqk": 77, "output": 58}
    for part, flop in by_hand.items():
        assert getattr(found, part) == pytest.approx(flop, rel=1e-12)
        assert flop / 1e9 == pytest.approx(rounded[part], rel=0.01)
    assert found.total / 1e9 == pytest.approx(316, rel=0.01)


def test_the_summary_of_full_samples_is_that_of_the_graph():
    """Where all samples are full the section's figures times the samples are the operations of the graph."""
    _, workload = placed(model_data({"distribution": "fixed"}, targets=TARGETS, recompute=False), RANKS)
    section, graph = sequences_of(workload), works(workload.graph().programs[0])
    assert section["gflop_per_sample"] == section["gflop_per_full_sample"] == section["padded_gflop_per_sample"]
    for part, names in {"attention": ("attention",), **GEMM_OF}.items():
        assert section["gflop_per_sample"][part] * 1e9 * BATCH == pytest.approx(sum_of(graph, *names), rel=1e-12)
    assert section["tflop_on_ranks"]["mean"] * 1e12 == pytest.approx(
        BATCH * 1e9 * section["gflop_per_sample"]["layers"], rel=1e-12
    )


AMOUNTS = {
    Gemm: lambda work: 2.0 * work.m * work.n * work.k * work.count,
    Attention: lambda work: work.bytes,
    Elementwise: lambda work: work.read_bytes + work.write_bytes,
    CollectiveCall: lambda work: work.bytes,
    EmbeddingLookup: lambda work: work.row_bytes,
    Copy: lambda work: work.bytes,
}
"""Amount of a task that grows with positions."""

OF_SAMPLES = (
    "lengths",
    "input_copy",
    "splits",
    "weight_cast",
    "_gradient_cast",
    "_scale",
    "all_reduce",
    "loss",
    "top_",
)
"""Parts of names of tasks whose amounts follow samples, candidates or parameters, or partly so."""


def test_twice_the_positions_are_twice_everything_but_four_times_the_scores():
    """Neither candidates nor context: all lengths double. Tasks of samples and parameters stay as they are."""
    once, twice = (graph_of(length, targets=0, context=False, item_width=None) for length in (LENGTH, 2 * LENGTH))
    assert list(once) == list(twice)
    doubled = 0
    for name, work in once.items():
        if isinstance(work, Attention):
            assert np.all(twice[name].flops == 4 * work.flops), name
            assert np.all(twice[name].sequence == 2 * work.sequence), name
        amount = AMOUNTS.get(type(work))
        if amount is None or any(part in name for part in OF_SAMPLES):
            continue
        assert np.all(amount(twice[name]) == 2 * np.asarray(amount(work))), name
        doubled += bool(np.all(np.asarray(amount(work)) > 0))
    assert doubled >= 60


def test_padding_computes_over_the_longest_sample_of_a_rank():
    """Lengths of 3 and 9 in equal parts, 3 samples a rank or more: each sample counts as 9 where one is."""
    lengths = {"distribution": "histogram", "lengths": [3, 9], "weights": [1, 1]}
    jagged, padded = (
        works(placed(model_data(lengths), RANKS, sequence_layout=layout)[1].graph().programs[0])
        for layout in ("jagged", "padded")
    )
    positions = np.asarray(jagged["hstu_0_uvqk_forward"].m)
    assert np.all(np.asarray(padded["hstu_0_uvqk_forward"].m) == BATCH * (9 + 1 + CONTEXT))
    assert np.all(positions < BATCH * (9 + 1 + CONTEXT))
    assert np.all(flops(padded["hstu_0_attention"], RANKS) == BATCH * 11**2 * HEADS * (QUERY + VALUE))
    wire = {name for name, work in jagged.items() if isinstance(work, CollectiveCall | EmbeddingLookup)}
    for name in wire:
        assert same(jagged[name], padded[name]), name


def test_the_shipped_scenario_has_no_padding():
    """Its iteration counts positions alone."""
    assert not PlanningJob.of(load_scenario("mlperf_dlrm_v4_hstu")).settings.padded


VALUES = HEADS * VALUE
TRAFFIC = {
    "norm": (WIDTH, WIDTH),
    "silu": (VALUES, VALUES),  # u, where it lies
    "gate": (2 * VALUES, 3 * VALUES),  # the attention and u; u, the attention and their product side by side
    "residual": (2 * WIDTH, WIDTH),
    "gate_again": (2 * VALUES, 3 * VALUES),
    "gate_backward": (3 * VALUES + 2 * VALUES, 2 * VALUES),  # three gradients, and both inputs; gradients of both
    "norm_again": (WIDTH, WIDTH),
    "silu_backward": (2 * VALUES, VALUES),  # the gradient and the input
    "norm_backward": (3 * WIDTH, WIDTH),  # the gradient, the input, and the gradient that goes past the layer
}
"""Elements of a position that the kernels of a layer read and write, by hand."""


@pytest.mark.parametrize("number", range(LAYERS))
def test_kernels_between_products_move_their_tensors_once(number):
    graph = graph_of(recompute=True)
    every = BATCH * (LENGTH + TARGETS + CONTEXT)
    for part, (read, written) in TRAFFIC.items():
        work = graph[f"hstu_{number}_{part}"]
        assert (work.read_bytes, work.write_bytes) == (2.0 * every * read, 2.0 * every * written), part
    attention = graph[f"hstu_{number}_attention"]
    assert attention.bytes == 2.0 * every * HEADS * (2 * QUERY + 2 * VALUE)  # q, k, v, and the result
    assert graph[f"hstu_{number}_attention_backward"].bytes == 2.0 * attention.bytes  # and their gradients


def test_vectors_are_read_once_in_the_format_of_the_wire_and_cast():
    """fp32 received and put into the order of features, once more beside the candidates, then cast to bf16."""
    graph = graph_of()
    elements = BATCH * (LENGTH + TARGETS) * (32 + 16) + BATCH * CONTEXT * 32
    moved = {name: (graph[name].read_bytes, graph[name].write_bytes) for name in ("vectors_permute", "vectors_cast")}
    assert moved == {
        "vectors_permute": (4.0 * elements, 4.0 * elements),
        "vectors_cast": (4.0 * elements, 2.0 * elements),
    }
    back = graph["vectors_permute_backward"]
    assert (back.read_bytes, back.write_bytes) == (2.0 * elements, 2.0 * elements)  # gradients travel in fp16


@pytest.mark.parametrize("layout", ["jagged", "padded"])
@pytest.mark.parametrize("targets", [0, 1, TARGETS])
def test_the_head_predicts_candidates_or_every_position(targets: int, layout: str):
    """Its products, its gradients and the loss count predictions; contextual positions and padding have none."""
    lengths = {"distribution": "histogram", "lengths": [3, 9], "weights": [1, 1]}
    _, workload = placed(model_data(lengths, targets=targets), RANKS, sequence_layout=layout)
    graph, own = works(workload.graph().programs[0]), sequences_of(workload)["positions_per_sample"]["mean"] - CONTEXT
    predictions = RANKS * BATCH * (targets or own)

    def over_ranks(amount: object) -> float:
        return float(np.broadcast_to(np.asarray(amount), RANKS).sum())

    assert over_ranks(graph["top_0_forward"].m) == pytest.approx(predictions, rel=1e-12)
    assert over_ranks(graph["top_1_input_gradient"].m) == pytest.approx(predictions, rel=1e-12)
    assert over_ranks(graph["top_0_weight_gradient"].k) == pytest.approx(predictions, rel=1e-12)
    assert over_ranks(graph["item_0_forward"].m) == pytest.approx(predictions, rel=1e-12)
    split, loss = graph["candidates_split"], graph["loss"]
    assert over_ranks(split.read_bytes) == pytest.approx(2 * WIDTH * predictions, rel=1e-12)
    element = 2 * TOP[-1]
    assert over_ranks(loss.read_bytes) == pytest.approx(2 * element * predictions, rel=1e-12)
    assert over_ranks(loss.write_bytes) == pytest.approx(element * predictions, rel=1e-12)
