"""Optimizers whose update is one kernel for many parameters."""

from __future__ import annotations

from trainer.capture.operators.call import CalledOperator
from trainer.capture.tensors import bytes_of, tensors_in
from workloads.captured.records import OptimizerWork, RecordedWork

_STATE = ("exp_avgs", "exp_avg_sqs", "max_exp_avg_sqs", "momentum_buffer_list", "state_sums")
"""Arguments that are read and written beside the parameters."""


def fused_optimizer(call: CalledOperator) -> list[RecordedWork] | None:
    """The update of fused forms such as ``_fused_adamw_``; None of any other operator."""
    name = call.func._opname  # noqa: SLF001 - the name without namespace and overload
    if not (name.startswith("_fused_") and name.endswith("_") and "grads" in call.given):
        return None
    parameters = list(tensors_in(call.given["self"]))
    both = [*parameters, *(t for key in _STATE for t in tensors_in(call.given.get(key)))]
    moved = 2.0 * sum(map(bytes_of, both)) + sum(map(bytes_of, tensors_in(call.given["grads"])))
    count = sum(parameter.numel() for parameter in parameters)
    return [OptimizerWork(parameters=count, bytes=moved)] if count else []
