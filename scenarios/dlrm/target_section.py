"""Section of a summary about the time to a target: training, and evaluations in between."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from scenarios.dlrm.typed import DlrmResolved
from scenarios.engine_run import iteration_s
from scenarios.summary_keys import TARGET_KEY
from simulator.lowering import Machine
from workloads.dlrm.family import DlrmWorkload


def time_to_target_of(
    resolved: DlrmResolved, workload: DlrmWorkload, machine: Machine, trained_s: float, low: float, high: float
) -> dict[str, Any]:
    """Sections by name: ``time_to_target`` where the scenario asks for it.

    An evaluation is iterations of a forward pass each, simulated with the plan of the training job; starts and ends of
    both kinds of iterations count as in the steady state.

    Args:
        trained_s: time of a training iteration.
        low: p10 of the iteration time over its prediction; ``high``: p90.
    """
    target = resolved.scenario.workload.time_to_target
    if target is None:
        return {}
    batch = resolved.global_batch_size
    training_s = target.iterations(batch) * trained_s
    evaluated_s = 0.0
    if target.evaluations:
        evaluating = DlrmWorkload(workload.model, workload.plan, replace(workload.settings, evaluates=True))
        evaluated_s = iteration_s(resolved, evaluating, machine)
    each_s = target.evaluation_iterations(batch) * evaluated_s
    whole_s = training_s + target.evaluations * each_s
    return {
        TARGET_KEY: {
            "samples": target.samples,
            "iterations": target.iterations(batch),
            "training_s": training_s,
            "evaluations": target.evaluations,
            "evaluation_s": each_s,
            "evaluation_iteration_s": evaluated_s,
            "time_s": whole_s,
            "time_p10_s": whole_s * low,
            "time_p90_s": whole_s * high,
        }
    }
