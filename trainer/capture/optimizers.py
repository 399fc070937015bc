"""Optimizers of a captured step as GPUs run them, many parameters in one kernel, and their section."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from types import ModuleType
from typing import Any

import torch
from torch import Tensor
from torch.amp.grad_scaler import GradScaler
from torch.optim import Optimizer
from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook

from trainer.capture.patches import replaced
from trainer.capture.recorder import FORWARD, OPTIMIZER, StepRecorder
from trainer.capture.tensors import tensors_in

MANY_STEPS = 1000.0
"""Steps that an optimizer seems to have done: past the first ones, which some do otherwise (RAdam its first five)."""


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
            stack.enter_context(
                replaced(
                    module,
                    _get_value=_value,
                    _default_to_fused_or_foreach=_as_on_gpus,
                    _get_capturable_supported_devices=lambda *_, **__: ["cpu", "cuda"],
                )
            )
        stack.enter_context(replaced(torch.cuda.amp.common, amp_definitely_not_available=lambda: False))
        stack.enter_context(replaced(GradScaler, _maybe_opt_step=_scaled_step(recorder)))
        yield


def _scaled_step(recorder: StepRecorder) -> Callable[..., Any]:
    """The method of a gradient scaler that steps if all gradients are finite: the host waits for the answer."""

    def stepped(_: GradScaler, optimizer: Optimizer, found: dict[str, Any], *args: Any, **kwargs: Any) -> Any:
        for answer in found["found_inf_per_device"].values():
            recorder.copy(answer, "d2h")
            recorder.host_waits(recorder.streams.reached(recorder.streams.current))
        return optimizer.step(*args, **kwargs)

    return stepped


def _modules() -> list[ModuleType]:
    """Modules of ``torch.optim``; some hide behind classes of the same name."""
    package = f"{torch.optim.__name__}."
    return [module for name, module in sorted(sys.modules.items()) if name.startswith(package)]


def _value(given: Any) -> Any:
    """A number of steps or a learning rate; a tensor without memory counts as many steps."""
    return MANY_STEPS if isinstance(given, Tensor) else given


def _as_on_gpus(params: list[Tensor], differentiable: bool, use_fused: bool = False) -> tuple[bool, bool]:  # noqa: ARG001
    """Fused and foreach forms that an optimizer takes by default: lists of parameters on GPUs."""
    dense = all(parameter.grad is None or not parameter.grad.is_sparse for parameter in params)
    return False, not differentiable and dense
