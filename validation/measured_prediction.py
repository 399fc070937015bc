"""Predicting what was measured, in the measurement's own terms, and the errors of that."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from hardware_specs.cpu_kernels import KernelClass
from hardware_specs.types import Cluster
from scenarios.bursts import steady_rule
from scenarios.engine_run import run_options, variation_of
from scenarios.prepare import Prepared, prepare
from scenarios.progress import Progress, Silent
from scenarios.resolve import ResolvedScenario, load_scenario
from simulator.analysis import iteration_time
from simulator.analysis.metrics import SteadyRule
from simulator.compute import CpuModel
from simulator.compute.cpu_amounts import class_of
from simulator.engine import IterationRecord, RunResult, run
from simulator.lowering import lower
from simulator.operators import CollectiveCall, EmbeddingLookup, FloatArray, HostWork, Nothing, Work
from simulator.program import Program
from validation.in_kernels import in_kernels_s
from validation.in_situ import Beside
from validation.measured import CLASSES, RESOLVED, THREAD, Bar, Measured, Times
from validation.suites.errors import error_pct, statistics
from validation.together import Together, lookups_beside, lookups_slower
from validation.yardstick import slowness

Table = dict[str, Any]
LOOKUPS = "embedding_forward"
"""The class of lookups, of which another part of the yardstick tells (`validation.yardstick.lookups_slowness`)."""
_TOLD: Mapping[KernelClass, str] = {
    "lookup": LOOKUPS, "update": "embedding_update", "gemm": "gemm", "batched": "gemm",
}  # fmt: skip
MARKED_SHARE = 0.05
"""Errors of classes that are a smaller part of the iteration enter no statistics of classes."""


def predict_measured(
    measured: Measured, cluster: str | None, progress: Progress | None = None, *, framework: str | None = None
) -> Times:
    """What is predicted for the scenario that was measured.

    Args:
        measured: the measurement.
        cluster: name or path of the machine; None: as the scenario says.
        progress: told what is being done.
        framework: name or path of the profile, likewise.

    Raises:
        InputError: the scenario, the cluster or the profile is wrong.
    """
    parts = {"cluster": cluster, "workload.framework": framework}
    settings = [f"{key}={anywhere(name)}" for key, name in parts.items() if name is not None]
    return predict(load_scenario(str(measured.folder / RESOLVED), settings), progress)


def anywhere(part: str) -> str:
    """A path to a cluster or a profile as a scenario in any folder may name it, a name as it is."""
    return str(Path(part).resolve()) if Path(part).is_file() else part


def predict(resolved: ResolvedScenario, progress: Progress | None = None) -> Times:
    """Simulate a scenario on CPUs; raises as `predict_measured`."""
    return predict_prepared(prepare(resolved, progress or Silent()))


def predict_prepared(prepared: Prepared) -> Times:
    """Simulate a scenario on CPUs that is ready to be lowered; raises as `predict_measured`."""
    ran = _run(prepared)
    return _times(prepared, ran, iteration_time(ran.result.iteration_end_ps.tolist(), ran.rule).seconds)


def with_kernels_of(prepared: Prepared, cluster: Cluster) -> Prepared:
    """A job on CPUs with the kernels of a cluster that differs in nothing else; its task graph is the same."""
    compute = prepared.machine.compute
    if not isinstance(compute, CpuModel):
        raise TypeError("only CPUs have kernels that are told apart")
    machine = replace(prepared.machine, compute=CpuModel.of(cluster.node, compute.local_world_size))
    return replace(prepared, machine=machine)


def predict_beside(resolved: ResolvedScenario) -> Beside:
    """How long kernels of a scenario on CPUs take, with what its collectives take of the cores and without.

    Raises:
        InputError: as `predict_measured`.
    """
    prepared = prepare(resolved, Silent())
    (program,), ran = prepared.graph.programs, _run(prepared)
    _, taken_s = np.mean([_task_times(prepared, ran, record) for record in ran.result.records], axis=0)
    alone_s = np.zeros(taken_s.shape)
    for task, work in enumerate(program.work):
        if not isinstance(work, CollectiveCall):
            alone_s[task] = prepared.machine.compute.duration_s(work)
    compute, spread = prepared.machine.compute, 0.0
    if isinstance(compute, CpuModel):
        work_s, threads_s = float(alone_s.mean(axis=1).sum()), compute.threads_s([*ran.moving_s.values()])
        spread = compute.pace_spread(work_s, threads_s)
    return Beside(alone_s, np.where(alone_s > 0.0, taken_s, 0.0), spread, *_together(prepared, ran))


class _Ran(NamedTuple):
    """A run, for how long the data of each collective are under way alone, by task, seconds, and when runs settle."""

    result: RunResult
    moving_s: Mapping[str, float]
    rule: SteadyRule


def _run(prepared: Prepared) -> _Ran:
    resolved = prepared.resolved
    lowering = lower(prepared.graph, prepared.machine, variation=variation_of(resolved))
    moving_s = {info.task: info.moving_s for info in lowering.collectives}
    program, machine = lowering.program, prepared.machine
    result = run(program, run_options(resolved, machine, program, keep_last=program.period))
    return _Ran(result, moving_s, steady_rule(machine, program))


def predict_thread_s(resolved: ResolvedScenario) -> float:
    """Work of a rank's own thread in a scenario on CPUs, as `Times` tells it; raises as `predict_measured`."""
    return prepared_thread_s(prepare(resolved, Silent()))


def _times(prepared: Prepared, ran: _Ran, iteration_s: float) -> Times:
    (program,), result, compute = prepared.graph.programs, ran.result, prepared.machine.compute
    seconds, own_s = np.mean([_task_times(prepared, ran, record) for record in result.records], axis=0)
    classes = dict.fromkeys(CLASSES, 0.0)
    collectives: dict[str, float] = {}
    for task, work in enumerate(program.work):
        if isinstance(work, CollectiveCall):
            collectives[work.op] = collectives.get(work.op, 0.0) + float(np.mean(seconds[task]))
        elif not isinstance(work, Nothing):  # what is issuing collectives is among what is left for them
            classes[_class(work)] += float(np.mean(own_s[task])) - issuing_s(prepared, work)
    longer_s, share = _together(prepared, ran)
    thread_s = prepared_thread_s(prepared) + longer_s
    classes["collectives"] = max(0.0, iteration_s - sum(classes.values()))
    bars = [_bars(program, result, rank) for rank in range(program.rank_count)]
    if not isinstance(compute, CpuModel):
        return Times(iteration_s, classes, thread_s, collectives, bars)
    beside, then_s = Together(share, compute.kernels), compute.kernels.yardstick_s
    return Times(iteration_s, classes, thread_s, collectives, bars, then_s, beside, compute.followed)


def _together(prepared: Prepared, ran: _Ran) -> tuple[float, float]:
    """What lookups of a rank are longer for those of others, seconds, and the part of them that is done beside those.

    Means over ranks and iterations.
    """
    (program,), compute = prepared.graph.programs, prepared.machine.compute
    times = (record.groups[0] for record in ran.result.records)
    each = [lookups_beside(program, compute, of.start_ps, of.end_ps) for of in times]
    longer_s, beside_s = np.mean([[of.longer_s.sum(axis=0), of.beside_s.sum(axis=0)] for of in each], axis=(0, 2))
    lookups = [work for work in program.work if isinstance(work, EmbeddingLookup)]
    lookups_s = sum(float(np.mean(compute.duration_s(work))) for work in lookups)
    return float(longer_s), min(1.0, float(beside_s) / lookups_s) if lookups_s else 0.0


def _task_times(prepared: Prepared, ran: _Ran, record: IterationRecord) -> FloatArray:
    """How long tasks take in an iteration, and as a measurement tells it ``[2, T, P]``, seconds."""
    (program,), times = prepared.graph.programs, record.groups[0]
    told_s = in_kernels_s(
        program, prepared.machine.compute, times.start_ps, times.end_ps, ran.moving_s, record.iteration
    )
    return np.stack([(times.end_ps - times.start_ps) / 1e12, told_s])


def issuing_s(prepared: Prepared, work: Work) -> float:
    """What of a task is issuing collectives, with nothing in its way: what calls lose is told apart, seconds."""
    compute = prepared.machine.compute
    if not isinstance(work, HostWork) or not isinstance(compute, CpuModel):
        return 0.0
    return compute.issuing_share(work) * float(np.mean(compute.duration_s(work)))


def prepared_thread_s(prepared: Prepared) -> float:
    """Work of a rank's own thread when nothing is in its way, the mean over ranks, seconds."""
    return float(ranks_alone_s(prepared).mean())


def ranks_alone_s(prepared: Prepared) -> FloatArray:
    """Work of each rank's own thread when nothing is in its way ``[P]``, seconds."""
    (program,), compute = prepared.graph.programs, prepared.machine.compute
    works = (work for work in program.work if not isinstance(work, CollectiveCall))
    return sum(
        (compute.duration_s(work) + np.zeros(program.rank_count) for work in works), np.zeros(program.rank_count)
    )


def class_told(kernel: KernelClass | None) -> str:
    """The class of `validation.measured.CLASSES` in which a kind of kernel is told; ``rest`` where nothing runs."""
    return "rest" if kernel is None else _TOLD.get(kernel, "rest")


def _class(work: Work) -> str:
    return "rest" if isinstance(work, CollectiveCall | Nothing) else class_told(class_of(work))


def _bars(program: Program, result: RunResult, rank: int) -> list[Bar]:
    times = result.records[-1].groups[0]
    start, end = times.start_ps[:, rank], times.end_ps[:, rank]
    begin = int(start.min())
    return [
        Bar(
            lane="collectives" if isinstance(work, CollectiveCall) else "host",
            begin_s=(int(start[task]) - begin) / 1e12,
            end_s=(int(end[task]) - begin) / 1e12,
            kind="collectives" if isinstance(work, CollectiveCall) else _class(work),
            name=program.names[task],
        )
        for task, work in enumerate(program.work)
        if end[task] > start[task]
    ]


def cases_of(measured: Measured, predicted: Times) -> list[Table]:
    """A row for the iteration, each class and each collective: both times, error, noise, part of the iteration.

    Measured times are those of the machine as it was when it was calibrated (`validation.yardstick`).
    """
    times = as_then(measured.times, predicted)
    pairs = [("iteration", times.iteration_s, predicted.iteration_s)]
    if times.thread_s is not None and predicted.thread_s is not None:
        pairs.append((THREAD, times.thread_s, predicted.thread_s))
    pairs += [(name, times.classes_s[name], predicted.classes_s[name]) for name in times.classes_s]
    pairs += [
        (op, seconds, predicted.collectives_s[op])
        for op, seconds in times.collectives_s.items()
        if op in predicted.collectives_s
    ]
    return [
        _case(name, seconds, expected, seconds / times.iteration_s, measured.noise_pct)
        for name, seconds, expected in pairs
    ]


def as_then(times: Times, predicted: Times) -> Times:
    """Measured times as they were, had the machine been as fast as when it was calibrated.

    Lookups are slower by less or by more than all else (`lookups_slower`); classes add up to the iteration.

    Args:
        times: with what the yardstick's pieces took meanwhile, seconds.
        predicted: what is predicted, with what they took then; the times that are told have these.
    """
    slower, of_lookups = slower_than_then(times, predicted)
    classes_s = {name: value / (of_lookups if name == LOOKUPS else slower) for name, value in times.classes_s.items()}
    lookups_s = times.classes_s.get(LOOKUPS, 0.0)
    return replace(
        times,
        iteration_s=(times.iteration_s - lookups_s) / slower + lookups_s / of_lookups,
        classes_s=classes_s,
        thread_s=None if times.thread_s is None else (times.thread_s - lookups_s) / slower + lookups_s / of_lookups,
        collectives_s={op: seconds / slower for op, seconds in times.collectives_s.items()},
        yardstick_s=predicted.yardstick_s,
    )


def slower_than_then(times: Times, predicted: Times) -> tuple[float, float]:
    """By how much slower the machine was in all but lookups, and in lookups; arguments as `as_then`."""
    pieces_s, followed = (times.yardstick_s, predicted.yardstick_s), predicted.followed
    return slowness(*pieces_s, followed), lookups_slower(*pieces_s, predicted.together, followed)


def _case(name: str, seconds: float, expected: float, share: float, noise_pct: Mapping[str, float]) -> Table:
    return {
        "metric": name,
        "unit": "s",
        "measured": seconds,
        "predicted": expected,
        "error_pct": error_pct(expected, seconds) if seconds > 0.0 else None,
        "noise_pct": noise_pct.get(name, 0.0),
        "share": share,
    }


def statistics_of(runs: Sequence[Sequence[Table]]) -> dict[str, Table]:
    """Statistics of errors over measurements, by metric; of a class where it is `MARKED_SHARE` of the iteration."""
    found: dict[str, Table] = {}
    for name in dict.fromkeys(case["metric"] for cases in runs for case in cases):
        counted = [
            case
            for cases in runs
            for case in cases
            if case["metric"] == name and case["error_pct"] is not None and case["share"] >= MARKED_SHARE
        ]
        noise = [case["noise_pct"] for case in counted]
        middle = float(np.median(noise)) if noise else None
        found[name] = {"runs": len(counted), **statistics([case["error_pct"] for case in counted]), "noise_pct": middle}
    return found
