"""The bound of a replay: the class of work that shortens it most when it is 10 % faster, found by re-runs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from simulator.analysis.bound import IMPROVEMENT, NEGLIGIBLE_GAIN
from simulator.categories import Category
from simulator.counted_run import counted_run
from simulator.engine import EngineRun, RunOptions
from simulator.lowered import Activity, ConstantDurations, LoweredProgram, Phase
from simulator.program import Program
from traces.imported import Imported
from traces.measured import MeasuredRun
from traces.replay.host import on_host
from traces.replay.job import ReplayJob
from traces.replay.run import step_of

HOST, KERNELS, COPIES, COMMUNICATION = "host work", "kernels", "copies", "communication"
CLASSES = (HOST, KERNELS, COMMUNICATION, COPIES)
"""Classes of work that re-runs speed up; they exclude launch latencies and waiting for ranks without a trace."""
_CATEGORIES: Mapping[str, Category] = {KERNELS: Category.COMPUTE, COPIES: Category.COPY, COMMUNICATION: Category.COMM}
_SUBJECTS: Mapping[str, str] = {
    HOST: "The host bounds the replay",
    KERNELS: "Kernels bound the replay",
    COPIES: "Copies bound the replay",
    COMMUNICATION: "Communication bounds the replay",
}


@dataclass(frozen=True, slots=True)
class ReplayBound:
    """Fraction of the mean step that is saved when each class of work is 10 % faster."""

    gains: Mapping[str, float]

    @property
    def winner(self) -> str | None:
        """The class that saves most; None if no class saves 0.1 %."""
        best = max(self.gains, key=lambda name: self.gains[name])
        return best if self.gains[best] >= NEGLIGIBLE_GAIN else None

    @property
    def finding(self) -> str:
        """The bound in one sentence."""
        winner = self.winner
        if winner is None:
            return (
                "No class of work bounds the replay: none shortens it by 0.1 % when it is 10 % faster; launch "
                "latencies and waiting for ranks without a trace set its time."
            )
        least = [name for name in CLASSES if name != winner and self.gains[name] < NEGLIGIBLE_GAIN]
        most = [name for name in CLASSES if name != winner and name not in least]
        words = [f"{name} {100 * self.gains[name]:.1f} %" for name in most] + [f"{name} nothing" for name in least]
        of_gpu = "; a faster GPU changes nothing" if winner == HOST and KERNELS in least else ""
        first = f"{_SUBJECTS[winner]}: 10 % faster, {winner} save{'s' if winner in (HOST, COMMUNICATION) else ''}"
        return f"{first} {100 * self.gains[winner]:.1f} % ({', '.join(words)}){of_gpu}."


def bound_of(job: ReplayJob, after: Imported) -> ReplayBound | None:
    """The bound of a job's replay; None without times.

    Args:
        job: the job that was replayed.
        after: its replay.
    """
    if after.measured is None:
        return None
    base = _length_ps(job, after.measured.result)
    gains = {}
    for name in CLASSES:
        result = counted_run(_faster(after.measured, name), RunOptions(max_iterations=1))
        gains[name] = 1.0 - _length_ps(job, result) / base if base else 0.0
    return ReplayBound(gains)


def _length_ps(job: ReplayJob, result: EngineRun) -> float:
    """Mean length of the steps; of a job without steps, the end of the last task."""
    steps = [step_of(job, step, result) for step in job.steps]
    return float(np.mean([s.end_ps - s.start_ps for s in steps])) if steps else float(result.iteration_end_ps[0])


def _faster(measured: MeasuredRun, name: str) -> LoweredProgram:
    """The program of a run with one class of work 10 % faster."""
    lowered, groups = measured.lowered, []
    for program, group in zip(measured.graph.programs, lowered.groups, strict=True):
        durations = np.array(np.broadcast_to(group.durations.at(0), (group.task_count, group.rank_count)))
        chosen = _tasks(program, name)
        durations[chosen] = np.rint(durations[chosen] / IMPROVEMENT)
        groups.append(replace(group, durations=ConstantDurations(durations)))
    activities = lowered.activities
    if name == COMMUNICATION:
        activities = [_faster_activity(activity) for activity in activities]
    return replace(lowered, groups=tuple(groups), activities=activities)


def _tasks(program: Program, name: str) -> NDArray[np.bool_]:
    if name == HOST:
        return on_host(program)
    return np.array([c is _CATEGORIES[name] for c in program.categories], dtype=bool)


def _faster_activity(activity: Activity) -> Activity:
    phases = tuple(_faster_phase(phase) for phase in activity.phases)
    return replace(activity, phases=phases)


def _faster_phase(phase: Phase) -> Phase:
    latency_ps, work_ps = (round(length / IMPROVEMENT) for length in (phase.latency_ps, phase.work_ps))
    return replace(phase, latency_ps=latency_ps, work_ps=work_ps)
