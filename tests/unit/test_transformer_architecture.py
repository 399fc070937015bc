"""Parameters and floating point operations of transformers against published counts."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from workloads.transformer.architecture import Transformer
from workloads.transformer.catalog import TRANSFORMERS

PARAMETERS = {
    "bert_base": 109_482_240, "bert_large": 335_141_888, "xlnet_base": 116_718_336, "gpt2": 124_439_808,
    "gpt2_medium": 354_823_168, "gpt2_large": 774_030_080, "gpt2_xl": 1_557_611_200, "gpt3_175b": 175.0e9,
    "llama2_7b": 6_738_415_616, "llama2_13b": 13_015_864_320, "llama2_70b": 68_976_648_192,
    "llama3_8b": 8_030_261_248, "llama3_70b": 70_553_706_496, "llama3_405b": 405_853_388_800,
}  # fmt: skip
"""Elements of the released weights (Hugging Face model cards); GPT-3: the paper's table 2.1."""

MEGATRON = {
    1.7e9: (24, 2304, 24), 3.6e9: (30, 3072, 32), 7.5e9: (36, 4096, 32), 18.4e9: (40, 6144, 48),
    39.1e9: (48, 8192, 64), 76.1e9: (60, 10240, 80), 145.6e9: (80, 12288, 96), 310.1e9: (96, 16384, 128),
    529.6e9: (105, 20480, 128), 1008.0e9: (128, 25600, 160),
}  # fmt: skip
"""Parameters, layers, width and heads in table 1 of arXiv:2104.04473."""

ROUNDED = {
    "gpt3_7b": 6.66e9, "gpt3_5b": 5.0e9, "megatron_18b": 18.4e9, "megatron_145b": 145.6e9, "megatron_530b": 529.6e9,
    "megatron_1t": 1008.0e9,
}  # fmt: skip
"""Parameters in table D.1 of arXiv:2005.14165, in the model's name (NeMo), and in table 1 of arXiv:2104.04473."""

TRAINING = {
    "gpt3_7b": (300e9, 1.20e22, 0.01e22), "gpt3_175b": (300e9, 3.14e23, 0.01e23),
    "llama3_405b": (15.6e12, 3.8e25, 0.05e25),
}  # fmt: skip
"""Tokens, operations of a whole training, and half the unit of its last digit or 0.5 %: table D.1 of arXiv:2005.14165;
arXiv:2407.21783, section 1."""

NEMO = {
    "gpt3_5b": (765e12, 23406), "gpt3_175b": (771e12, 716), "llama2_7b": (780e12, 16934),
    "llama2_70b": (768e12, 1728), "llama3_8b": (711e12, 12273),
}  # fmt: skip
"""Model FLOP/s and tokens/s of a GPU (NeMo framework user guide 24.12, performance summary)."""


@pytest.mark.parametrize("name", PARAMETERS)
def test_parameters_equal_the_released_weights(name):
    assert TRANSFORMERS[name].counts.all == pytest.approx(PARAMETERS[name], rel=5e-3 if name == "gpt3_175b" else 1e-9)


@pytest.mark.parametrize("name", ROUNDED)
def test_parameters_equal_published_ones_that_are_rounded(name):
    rounding = 0.5e9 if name == "gpt3_5b" else 0.005e9  # one digit; its operations have more, below
    assert TRANSFORMERS[name].counts.all == pytest.approx(ROUNDED[name], rel=5e-3, abs=rounding)


def test_every_transformer_has_a_published_number_of_parameters():
    assert {*PARAMETERS, *ROUNDED} == set(TRANSFORMERS)


@pytest.mark.parametrize("name", TRAINING)
def test_operations_of_a_training_are_six_for_each_parameter_and_token(name):
    """Both papers leave the sums of attention out."""
    tokens, published, rounding = TRAINING[name]
    assert 6.0 * TRANSFORMERS[name].counts.multiplied * tokens == pytest.approx(published, rel=5e-3, abs=rounding)


def megatron(layers: int, hidden: int, heads: int) -> Transformer:
    base = TRANSFORMERS["megatron_18b"]
    return base.model_copy(update={"layers": layers, "hidden": hidden, "heads": heads, "ffn": 4 * hidden})


@pytest.mark.parametrize("published", MEGATRON)
def test_megatrons_table_of_parameters(published):
    # The table rounds to 0.1 billion.
    assert megatron(*MEGATRON[published]).counts.all == pytest.approx(published, rel=5e-3, abs=0.05e9)


@pytest.mark.parametrize("sizes", MEGATRON.values())
def test_megatrons_formula_of_operations(sizes):
    """72 l h^2 (1 + s / 6h + V / 12lh) for a token without recomputation (arXiv:2104.04473, appendix)."""
    layers, hidden, _ = sizes
    model = megatron(*sizes)
    formula = 72 * layers * hidden**2 * (1 + 2048 / (6 * hidden) + 51200 / (12 * layers * hidden))
    assert model.model_flops_per_token() == pytest.approx(formula, rel=1e-12)


@pytest.mark.parametrize("name", NEMO)
def test_operations_of_a_token_equal_published_rates(name):
    flops_per_s, tokens_per_s = NEMO[name]
    assert TRANSFORMERS[name].model_flops_per_token() == pytest.approx(flops_per_s / tokens_per_s, rel=5e-3)


@pytest.mark.parametrize(("tokens_per_s", "utilisation"), [(2904, 0.568), (2973, 0.582)])
def test_torchtitan_counts_the_embedding_too(tokens_per_s, utilisation):
    """Utilisation of A100s (312 TFLOP/s) that torchtitan's documentation prints for Llama 3 8B: 6 N + 12 l h s."""
    model = TRANSFORMERS["llama3_8b"]
    flops = model.model_flops_per_token() + 6.0 * model.counts.embedding
    assert flops * tokens_per_s / 312e12 == pytest.approx(utilisation, rel=5e-3)


@pytest.mark.parametrize("wrong", [{"heads": 7}, {"kv_heads": 5}])
def test_heads_divide_the_width_and_each_other(wrong):
    sizes = {**TRANSFORMERS["llama3_8b"].model_dump(), **wrong}
    with pytest.raises(ValidationError, match="do not divide"):
        Transformer.model_validate(sizes)
