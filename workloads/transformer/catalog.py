"""Transformers by name, with the sizes that their papers print."""

from __future__ import annotations

from typing import Any

from workloads.transformer.architecture import Transformer

_BERT: dict[str, Any] = {
    "vocabulary": 30522, "sequence": 512, "tied": True, "segments": 2, "causal": False, "final_norm": False,
    "embedding_norm": True, "pooler": True, "dropout": True,
}  # fmt: skip
"""Devlin et al. (arXiv:1810.04805); a norm after each part, the first one after the embedding."""

_GPT2: dict[str, Any] = {"vocabulary": 50257, "sequence": 1024, "tied": True, "dropout": True}
"""Radford et al., "Language Models are Unsupervised Multitask Learners"."""

_GPT3: dict[str, Any] = {"vocabulary": 50257, "sequence": 2048, "tied": True}
"""Brown et al. (arXiv:2005.14165), table 2.1."""

_MEGATRON: dict[str, Any] = {"vocabulary": 51200, "sequence": 2048, "tied": True}
"""Narayanan et al. (arXiv:2104.04473), table 1."""

_LLAMA: dict[str, Any] = {"gated": True, "norm": "rms", "biases": False, "positions": "rotary"}
_LLAMA_2: dict[str, Any] = {**_LLAMA, "vocabulary": 32000, "sequence": 4096}
"""Touvron et al. (arXiv:2307.09288), and the parameters of the released weights."""

_LLAMA_3: dict[str, Any] = {**_LLAMA, "vocabulary": 128256, "sequence": 8192, "kv_heads": 8}
"""Grattafiori et al. (arXiv:2407.21783), table 3."""


def _gpt(title: str, base: dict[str, Any], layers: int, hidden: int, heads: int, **more: Any) -> dict[str, Any]:
    """A decoder whose feed-forward network is four times as wide as a token's vector."""
    return {"title": title, **base, "layers": layers, "hidden": hidden, "heads": heads, "ffn": 4 * hidden, **more}


_MODELS: dict[str, dict[str, Any]] = {
    "bert_base": _gpt("BERT base, encoder", _BERT, 12, 768, 12),
    "bert_large": _gpt("BERT large, encoder", _BERT, 24, 1024, 16),
    "xlnet_base": _gpt(
        "XLNet base, relative positions", {"vocabulary": 32000, "sequence": 512, "tied": True, "dropout": True},
        12, 768, 12, positions="relative", causal=False, final_norm=False,
    ),
    "gpt2": _gpt("GPT-2 small", _GPT2, 12, 768, 12),
    "gpt2_medium": _gpt("GPT-2 medium", _GPT2, 24, 1024, 16),
    "gpt2_large": _gpt("GPT-2 large", _GPT2, 36, 1280, 20),
    "gpt2_xl": _gpt("GPT-2 XL", _GPT2, 48, 1600, 25),
    "gpt3_5b": _gpt("GPT-3 5B (NeMo)", _MEGATRON, 24, 4096, 32),
    "gpt3_7b": _gpt("GPT-3 6.7B", _GPT3, 32, 4096, 32),
    "gpt3_175b": _gpt("GPT-3 175B", _GPT3, 96, 12288, 96),
    "megatron_18b": _gpt("GPT of Megatron-LM, 18.4B", _MEGATRON, 40, 6144, 48),
    "megatron_145b": _gpt("GPT of Megatron-LM, 145.6B", _MEGATRON, 80, 12288, 96),
    "megatron_530b": _gpt("GPT of Megatron-LM, 529.6B", _MEGATRON, 105, 20480, 128),
    "megatron_1t": _gpt("GPT of Megatron-LM, 1008B", _MEGATRON, 128, 25600, 160),
    "llama2_7b": _gpt("Llama 2 7B", _LLAMA_2, 32, 4096, 32, ffn=11008),
    "llama2_13b": _gpt("Llama 2 13B", _LLAMA_2, 40, 5120, 40, ffn=13824),
    "llama2_70b": _gpt("Llama 2 70B", _LLAMA_2, 80, 8192, 64, ffn=28672, kv_heads=8),
    "llama3_8b": _gpt("Llama 3 8B", _LLAMA_3, 32, 4096, 32, ffn=14336),
    "llama3_70b": _gpt("Llama 3 70B", _LLAMA_3, 80, 8192, 64, ffn=28672),
    "llama3_405b": _gpt("Llama 3 405B", _LLAMA_3, 126, 16384, 128, ffn=53248),
}  # fmt: skip

TRANSFORMERS: dict[str, Transformer] = {name: Transformer(name=name, **sizes) for name, sizes in _MODELS.items()}
