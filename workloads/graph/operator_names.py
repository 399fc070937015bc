"""Names that PyTorch gives the operators of a training iteration: keys of overheads by operator.

Kineto writes the operators of the autograd thread as ``autograd::engine::evaluate_function: AddmmBackward0``; number
and prefix differ by release and are left out.
"""

from __future__ import annotations

from simulator.operators import Convolution, Copy, DenseOptimizer, EmbeddingLookup, EmbeddingUpdate, Gemm, Interaction
from simulator.work import Work
from workloads.graph.overheads import SHARED

_BY_WORK: dict[type, tuple[str, str]] = {
    Gemm: ("aten::linear", "AddmmBackward"),
    Convolution: ("aten::conv2d", "ConvolutionBackward"),
    EmbeddingLookup: ("LookupFunction", "LookupFunctionBackward"),
    EmbeddingUpdate: ("LookupFunction", "LookupFunctionBackward"),
    Interaction: ("aten::bmm", "BmmBackward"),
    Copy: ("aten::to", "ToCopyBackward"),
    DenseOptimizer: ("Optimizer.step", "Optimizer.step"),
}
"""Operators of kinds of work, forward and backward."""

_ENGINE = "autograd::engine::evaluate_function: "
_AUTOGRAD = "torch::autograd::"
_HOOKS = ("Optimizer.step", "Optimizer.zero_grad")


def operator_of(work: Work, section: str) -> str:
    """The operator that does a kind of work in a section of an iteration; ``*`` where the kind does not tell."""
    names = _BY_WORK.get(type(work))
    return SHARED if names is None else names["backward" in section or isinstance(work, EmbeddingUpdate)]


def is_hook(key: str) -> bool:
    """Whether a key is that of an optimizer's hook, which launches as often as the model has parameters."""
    return key in _HOOKS


def operator_key(name: str) -> str:
    """The key of an operator that a trace names: without prefixes, the optimizer's class and the number."""
    name = name.removeprefix(_ENGINE).removeprefix(_AUTOGRAD)
    hook = next((hook for hook in _HOOKS if name.startswith(hook)), None)
    plain = name.rstrip("0123456789")
    return hook or (plain if plain.endswith("Backward") else name)
