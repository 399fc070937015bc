"""Memory of a rank of a transformer, by hand."""

from __future__ import annotations

import numpy as np
import pytest

from tests.transformer_jobs import MODEL, job
from workloads.transformer.catalog import TRANSFORMERS
from workloads.transformer.memory import layer_bytes, memory_per_rank
from workloads.transformer.settings import ParallelSizes, TransformerSettings

GPT = TRANSFORMERS["gpt3_175b"].model_copy(update={"dropout": True})
TOKENS, PARAMETERS = 2048, MODEL.counts.all


def gpt(**changes: object) -> TransformerSettings:
    sizes = changes.pop("sizes", ParallelSizes())
    return TransformerSettings(**{"model": GPT, "sequence": TOKENS, "sizes": sizes, **changes})


@pytest.mark.parametrize("tensor", [1, 8])
def test_activations_of_a_layer_as_korthikanti_counts_them(tensor):
    """s b h (34 + 5 a s / h) / t, 34 with selective, 2 with full recomputation (arXiv:2205.05198, table 2)."""
    sizes = ParallelSizes(tensor=tensor)
    unit = TOKENS * GPT.hidden / tensor
    scores = 5 * GPT.heads * TOKENS / GPT.hidden
    assert layer_bytes(gpt(sizes=sizes, attention="unfused"), repeated=False) == unit * (34 + scores)
    assert layer_bytes(gpt(sizes=sizes, attention="unfused", recompute="selective"), repeated=False) == unit * 34
    assert layer_bytes(gpt(sizes=sizes, recompute="full"), repeated=True) == unit * 2


def test_without_sequence_parallelism_norms_are_on_every_rank():
    """s b h (10 + 24 / t) (the same paper, equation 2, without scores)."""
    sizes = ParallelSizes(tensor=8, sequence_parallel=False)
    assert layer_bytes(gpt(sizes=sizes), repeated=False) == pytest.approx(
        TOKENS * GPT.hidden * (10 + 24 / 8), rel=1e-12
    )


def items(sizes: ParallelSizes, **changes: object) -> dict[str, float]:
    found = memory_per_rank(job(sizes, **changes)).tiers["hbm"]
    return {name: float(held[0]) for name, held in found.items()}


def test_ddp_holds_eighteen_bytes_of_a_parameter():
    """Weights in 2 and 4 bytes, gradients in 4, two moments in 8 (mixed precision with Adam)."""
    found = items(ParallelSizes(data=8))
    assert found["weights"] == 6 * PARAMETERS
    assert found["gradients"] == 4 * PARAMETERS
    assert found["optimizer state"] == 8 * PARAMETERS
    assert found["gathered weights"] == 0


def test_zero_divides_state_and_the_weights_that_it_updates():
    found = items(ParallelSizes(data=8, sharding="optimizer"))
    assert found["weights"] == (2 + 4 / 8) * PARAMETERS
    assert found["gradients"] == 4 * PARAMETERS
    assert found["optimizer state"] == PARAMETERS


@pytest.mark.parametrize(("sharding", "shards"), [("fsdp", 16), ("hybrid", 4)])
def test_fsdp_divides_everything(sharding, shards):
    found = items(ParallelSizes(data=16, sharding=sharding, shard_size=4))
    assert found["weights"] == found["gradients"] == 4 * PARAMETERS / shards
    assert found["optimizer state"] == 8 * PARAMETERS / shards
    layer = MODEL.counts.layer
    assert found["gathered weights"] == 2 * 2 * layer + 4 * layer


def test_a_pipeline_holds_the_micro_batches_in_flight():
    """1F1B: p - s micro-batches on stage s, of which each has a p-th of the layers (arXiv:2104.04473)."""
    sizes = ParallelSizes(pipeline=4)
    settings = job(sizes, microbatches=8)
    held = memory_per_rank(settings).tiers["hbm"]["activations"]
    assert held.tolist() == [layer_bytes(settings, repeated=False) * 4 * flight for flight in (4, 3, 2, 1)]


def test_interleaving_holds_more():
    """1 + (p - 1) / (p v) times as much on the first stage (arXiv:2205.05198, section 4.2.3)."""
    plain, interleaved = (
        memory_per_rank(job(ParallelSizes(pipeline=4, virtual_stages=v), microbatches=8)).tiers["hbm"]["activations"][0]
        for v in (1, 4)
    )
    assert interleaved / plain == pytest.approx(1 + 3 / 16)


def test_the_loss_is_on_the_last_stage():
    model = TRANSFORMERS["llama3_8b"]
    settings = TransformerSettings(model, 8192, sizes=ParallelSizes(pipeline=2, tensor=8), microbatches=2)
    held = memory_per_rank(settings).tiers["hbm"]["loss"]
    assert np.all(held[:8] == 0)
    assert np.all(held[8:] == 8192 * 128256 / 8 * 12)


def test_a_tensor_group_divides_weights_and_activations():
    whole, eighth = (items(ParallelSizes(tensor=tensor)) for tensor in (1, 8))
    for name in ("weights", "gradients", "optimizer state", "activations", "loss"):
        assert eighth[name] == pytest.approx(whole[name] / 8, rel=1e-5), name


def test_a_context_group_divides_activations_only():
    """Ranks hold all weights and sum their gradients, as ranks of a data group do."""
    whole, quarter = (items(ParallelSizes(context=context)) for context in (1, 4))
    for name in ("weights", "gradients", "optimizer state"):
        assert quarter[name] == whole[name], name
    for name in ("activations", "loss"):
        assert quarter[name] == pytest.approx(whole[name] / 4), name
