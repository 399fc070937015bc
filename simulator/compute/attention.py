"""Rates of attention in one kernel, as fractions of a GPU's peak.

On a sequence of s tokens a kernel reaches r s / (s + h) of the peak: r on long sequences, half of it at h tokens, which
lose time in blocks at the mask's edge and in waves that are not full. `RATES` has r and h for the kernels and head
widths of the figures of forward and backward speeds of FlashAttention-3 (arXiv:2407.08608; H100 SXM5, fp16, 16,384
tokens); ``python -m benchmarks attention`` fits them and prints the error at each point.
"""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType

from simulator.operators import Amount, Attention

WIDTHS = (64, 128)
"""Measured widths of a head; another one counts as the nearest."""


@dataclass(frozen=True, slots=True)
class AttentionRate:
    """Rate of a kernel by the length of the sequence.

    Attributes:
        fraction: share of the dense 16-bit peak, on long sequences.
        half_tokens: tokens of a sequence at which it is half of that.
    """

    fraction: float
    half_tokens: float

    def at(self, tokens: Amount) -> Amount:
        """Fraction of the peak on sequences of ``tokens`` tokens.

        A kernel over sequences of several lengths s has the flops of each at its own rate: ``sum s^2 (s + h) / (r s)``
        in all, which is the sum of squares at the rate of one of ``sum s^2 / sum s`` tokens.
        """
        return self.fraction * tokens / (tokens + self.half_tokens)


RATES = MappingProxyType(
    {
        # (kernel, head_dim, causal, backward)
        ("flash2", 64, False, False): AttentionRate(0.331, 78),
        ("flash2", 64, True, False): AttentionRate(0.311, 360),
        ("flash2", 64, False, True): AttentionRate(0.299, 252),
        ("flash2", 128, False, False): AttentionRate(0.381, 104),
        ("flash2", 128, True, False): AttentionRate(0.354, 403),
        ("flash2", 128, False, True): AttentionRate(0.333, 274),
        ("flash3", 64, False, False): AttentionRate(0.515, 277),
        ("flash3", 64, True, False): AttentionRate(0.508, 822),
        ("flash3", 64, False, True): AttentionRate(0.501, 404),
        ("flash3", 128, False, False): AttentionRate(0.676, 209),
        ("flash3", 128, True, False): AttentionRate(0.662, 603),
        ("flash3", 128, False, True): AttentionRate(0.598, 427),
        ("cudnn", 64, False, False): AttentionRate(0.423, 127),
        ("cudnn", 64, True, False): AttentionRate(0.402, 391),
        ("cudnn", 64, False, True): AttentionRate(0.456, 338),
        ("cudnn", 128, False, False): AttentionRate(0.627, 111),
        ("cudnn", 128, True, False): AttentionRate(0.567, 387),
        ("cudnn", 128, False, True): AttentionRate(0.548, 376),
    }
)
"""Kernels on Hopper."""

AMPERE_OVER_HOPPER = 0.73 / 0.381
"""Fraction of the peak that FlashAttention-2 reaches on A100, up to 73 % (arXiv:2307.08691), over that on H100."""

GEMMS_OF_AMPERE = 0.852
"""Fraction of the peak that GEMMs reach on A100 (`gemm_fraction` of ``a100_sxm4_40``). On GPUs of AMD attention reaches
the fraction of A100 times the ratio of the two GEMM fractions."""

MEASURED = ("ampere", "hopper")
"""Generations of GPUs on which attention was timed."""

LIKE_HOPPER = ("hopper", "blackwell")
"""Generations that count as Hopper; others count as Ampere."""


def is_measured(architecture: str | None, operator: Attention) -> bool:
    """Whether this kernel was timed on a generation of GPUs; no pointwise one was."""
    timed = architecture == "hopper" or (architecture in MEASURED and operator.kernel == "flash2")
    return timed and not operator.pointwise


def counts_as(architecture: str | None) -> str:
    """Words for the rates that a generation without measurements takes."""
    return "it counts as on hopper" if architecture in LIKE_HOPPER else "it counts as flash2 on ampere"


def why_unmeasured(gpu: str, architecture: str | None, operator: Attention) -> str | None:
    """Reason why no rate of a kernel was timed on a GPU, and the rate that it takes; None: one was.

    Args:
        gpu: name of the GPU.
    """
    if is_measured(architecture, operator):
        return None
    counted = counts_as(architecture)
    if operator.pointwise:
        same = "" if architecture == "hopper" else f", {counted}"
        kernel = operator.kernel if architecture in LIKE_HOPPER else "flash2"
        return f"no pointwise attention was measured: it counts as {kernel} with a softmax{same}"
    return f"attention by {operator.kernel} was not measured on {gpu}: {counted}"


def attention_fraction(architecture: str | None, operator: Attention) -> Amount:
    """Fraction of the peak that a kernel reaches.

    Nobody printed backward passes with a mask: one loses what the forward pass loses to it. Before Hopper all kernels
    count as FlashAttention-2.
    """
    newer = architecture in LIKE_HOPPER
    kernel = operator.kernel if newer else "flash2"
    width = min(WIDTHS, key=lambda known: abs(known - operator.head_dim))
    rate = RATES[kernel, width, operator.causal and not operator.backward, operator.backward]
    if operator.backward and operator.causal:
        masked, whole = RATES[kernel, width, True, False], RATES[kernel, width, False, False]
        half = rate.half_tokens + masked.half_tokens - whole.half_tokens
        rate = AttentionRate(rate.fraction * masked.fraction / whole.fraction, half)
    return (1.0 if newer else AMPERE_OVER_HOPPER) * rate.at(operator.sequence)
