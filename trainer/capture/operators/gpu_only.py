"""Results of operators that only GPUs have, and that PyTorch cannot run on tensors without memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from trainer.capture.operators.call import CalledOperator


def _recurrent(call: CalledOperator) -> Any:
    """Gradients of the input, both states and all weights."""
    given = call.given
    wanted = given["output_mask"]
    states = [None if t is None else torch.empty_like(t) for t in (given["input"], given["hx"], given["cx"])]
    made = [value if asked else None for value, asked in zip(states, wanted, strict=False)]
    return (*made, [torch.empty_like(weight) for weight in given["weight"]])


RESULTS: dict[str, Callable[[CalledOperator], Any]] = {
    "_cudnn_rnn_backward": _recurrent,
}
"""Operator -> function that makes its result."""
