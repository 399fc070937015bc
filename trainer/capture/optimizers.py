"""Optimizers of a captured step: those of GPUs, which update many parameters in one kernel, and their section."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from types import ModuleType
from typing import Any

import torch
from torch import Tensor
from torch.optim import Optimizer
from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook

from trainer.capture.patches import replaced
from trainer.capture.recorder import FORWARD, OPTIMIZER, StepRecorder
from trainer.capture.tensors import tensors_in


@contextmanager
def captured_optimizers(recorder: StepRecorder) -> Iterator[None]:
    """Optimizers that behave as on GPUs and note their section, inside the block."""

    def begin(optimizer: Optimizer, *_: Any) -> None:
        for group in optimizer.param_groups:
            for parameter in group["params"]:
                recorder.memory.mark(parameter, "parameters")
                recorder.memory.mark(parameter.grad, "gradients")
        recorder.section = OPTIMIZER

    def end(optimizer: Optimizer, *_: Any) -> None:
        for state in optimizer.state.values():
            for tensor in tensors_in(state):
                recorder.memory.mark(tensor, "optimizer_state")
        recorder.section = FORWARD

    with ExitStack() as stack:
        stack.callback(register_optimizer_step_pre_hook(begin).remove)
        stack.callback(register_optimizer_step_post_hook(end).remove)
        for module in _modules():
            stack.enter_context(replaced(module, _get_value=_value, _default_to_fused_or_foreach=_as_on_gpus))
        yield


def _modules() -> list[ModuleType]:
    """Modules of ``torch.optim``, of which some hide behind classes of the same name."""
    package = f"{torch.optim.__name__}."
    return [module for name, module in sorted(sys.modules.items()) if name.startswith(package)]


def _value(given: Any) -> Any:
    """A number of steps or a learning rate; a tensor without memory counts as 1."""
    return 1.0 if isinstance(given, Tensor) else given


def _as_on_gpus(params: list[Tensor], differentiable: bool, use_fused: bool = False) -> tuple[bool, bool]:  # noqa: ARG001
    """Fused and foreach forms that an optimizer takes by default: lists of parameters on GPUs."""
    dense = all(parameter.grad is None or not parameter.grad.is_sparse for parameter in params)
    return False, not differentiable and dense
