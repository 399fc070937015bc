"""Predictions: simulate the cases of a suite, each configuration once."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from pydantic import BaseModel

from inputs.errors import InfeasibleError, InputError, nearest_name
from scenarios.mapping import Map
from scenarios.progress import Progress, Silent
from scenarios.resolve import ResolvedScenario, load_scenario, question_of
from scenarios.runner import Simulation, simulate, simulation_of
from scenarios.summary import summary_of
from scenarios.summary_keys import DEFAULT_UNIT
from simulator.categories import Category
from simulator.collective_calls import CollectiveCall
from simulator.lowered import PS_PER_S
from simulator.operators import Delay, EmbeddingLookup, EmbeddingUpdate, Gemm, HostWork, Marker
from workloads.dlrm.iteration.input_path import SECTION as INPUT
from workloads.graded import graded_quantities
from workloads.graph.recorder import FRONTEND, HOST, READER

_NO_DEVICE = frozenset({HOST, READER, FRONTEND})
_IDLE = (Delay, Marker, HostWork)
"""Streams, and work of other streams, on which a device does nothing."""


@dataclass(frozen=True, slots=True)
class SuiteJob:
    """A scenario with changes: a job that is simulated once for all rows that need it.

    Attributes:
        bound: whether its bound and interval are looked for, which takes longer than all else.
    """

    scenario: str
    settings: tuple[str, ...] = ()
    bound: bool = False

    @classmethod
    def of(cls, scenario: str, changes: Mapping[str, Any], *, bound: bool = False) -> SuiteJob:
        """A job from dotted keys and values."""
        return cls(scenario, tuple(f"{key}={json.dumps(value)}" for key, value in changes.items()), bound)

    def resolved(self) -> ResolvedScenario:
        """The scenario, checked.

        Raises:
            InputError: it, or a setting, is wrong.
        """
        return load_scenario(self.scenario, self.settings)


@dataclass(frozen=True, slots=True)
class AskedJob:
    """A job that is checked.

    Attributes:
        question: text that is the same for jobs with the same prediction.
    """

    job: SuiteJob
    question: str

    @staticmethod
    def of(job: SuiteJob) -> AskedJob:
        """The job with its question."""
        question = question_of(job.scenario, job.settings, job.resolved())
        return AskedJob(job, f"{question} with its bound" if job.bound else question)


@dataclass(frozen=True, slots=True)
class Prediction:
    """Results of a job.

    Attributes:
        inputs: inputs of the job: cluster, model, sizes.
        summary: ``summary.json``, the bound only if the job asks for it; empty if the job does not fit.
        parts: durations in s of the mean rank (`_parts`), and ``exposed_share_of_comm``.
        problem: why there is no result.
    """

    inputs: dict[str, Any]
    summary: dict[str, Any] = field(default_factory=dict)
    parts: dict[str, float] = field(default_factory=dict)
    problem: str = ""

    @property
    def throughput(self) -> float | None:
        """Throughput in the unit of the workload; None when the job gave none."""
        return self.value(f"throughput_{self.summary.get('unit', DEFAULT_UNIT)}_per_s")

    def value(self, metric: str) -> float | None:
        """A number of the summary; None when the job gave none.

        Raises:
            InputError: the summary has no such number.
        """
        if self.problem:
            return None
        found: Any = self.summary | {"parts": self.parts}
        for key in metric.split("."):
            found = found.get(key) if isinstance(found, dict) else None
        if not isinstance(found, int | float):
            near = nearest_name(metric, dict(_metrics(self.summary)))
            expected = "a key of a number in summary.json, such as throughput_samples_per_s"
            raise InputError("no such metric", key="metric", given=metric, expected=expected, nearest=near)
        return float(found)


def _metrics(part: object, place: str = "") -> Iterator[tuple[str, float]]:
    """Dotted keys of the numbers in a summary."""
    if isinstance(part, dict):
        for key, inner in part.items():
            yield from _metrics(inner, f"{place}.{key}" if place else str(key))
    elif isinstance(part, int | float):
        yield place, part


def predict(jobs: list[SuiteJob], run_all: Map, progress: Progress | None = None) -> dict[SuiteJob, Prediction]:
    """Simulate each distinct job once.

    Raises:
        InputError: a job is no valid scenario; found before anything runs.
    """
    progress = progress or Silent()
    distinct = [AskedJob.of(job) for job in dict.fromkeys(jobs)]
    predictions: dict[SuiteJob, Prediction] = {}
    progress.stage("simulating cases", 0, len(distinct))
    for position, prediction in run_all(predict_one, distinct):
        predictions[distinct[position].job] = prediction
        progress.stage("simulating cases", len(predictions), len(distinct))
    return predictions


def predict_one(asked: AskedJob) -> Prediction:
    """Simulate a job."""
    job = asked.job
    resolved = job.resolved()
    inputs = inputs_of(resolved, job)
    try:
        if job.bound:
            found: Simulation = (outcome := simulate(resolved, Silent()))
            summary = outcome.summary
        else:
            found = simulation_of(resolved, Silent())
            summary = summary_of(found.prepared, found.analysis, None, None, None, found.warnings)
    except InfeasibleError as error:
        return Prediction(inputs, problem=str(error))
    return Prediction(inputs, summary, _parts(found, summary))


def inputs_of(resolved: ResolvedScenario, job: SuiteJob) -> dict[str, Any]:
    """Inputs of a prediction, by the names that rules use."""
    gpu = resolved.cluster.node.gpu
    return {
        "cluster": resolved.cluster.name,
        "gpu": "none" if gpu is None else gpu.name,
        "model": resolved.model.name,
        "framework": resolved.framework.name,
        "nodes": resolved.nodes,
        "world_size": resolved.world_size,
        "global_batch_size": resolved.global_batch_size,
        "settings": list(job.settings),
    }


def _parts(outcome: Simulation, summary: Mapping[str, Any]) -> dict[str, float]:
    """Durations of the mean rank in one iteration, by the classes that a peer reports; overlap is not taken out.

    ``gemm_s``, ``embedding_s`` (lookup and update), ``other_compute_s``, one part per collective op (transfer, without
    waiting), ``serial_s`` (the sum of these), ``input_dist_s`` (collectives of the input, which peers leave out: they
    are in none of the others), ``iteration_s``, ``embedding_update_s`` (part of ``embedding_s``), ``embedding_share``
    (of the iteration), ``exposed_share_of_comm``, ``gpu_active_s`` (the time in which the device does anything).
    """
    parts = {"gemm_s": 0.0, "embedding_s": 0.0, "other_compute_s": 0.0, "all_to_all_s": 0.0, "all_reduce_s": 0.0}
    record, updates_s = outcome.result.records[0], 0.0
    for program, times in zip(outcome.graph.programs, record.groups, strict=True):
        share = program.rank_count / outcome.graph.world_size
        busy = (times.end_ps - times.start_ps - times.waiting_ps).mean(axis=1) / PS_PER_S
        kinds = zip(program.work, program.categories, program.sections, strict=True)
        for (work, category, section), seconds in zip(kinds, busy.tolist(), strict=True):
            name = "input_dist_s" if section == INPUT and isinstance(work, CollectiveCall) else _part_of(work, category)
            if isinstance(work, EmbeddingUpdate):
                updates_s += share * seconds
            if name:
                parts[name] = parts.get(name, 0.0) + share * seconds
    parts["serial_s"] = float(np.sum([seconds for name, seconds in parts.items() if name != "input_dist_s"]))
    parts["iteration_s"] = summary["iteration_time_s"]
    parts["gpu_active_s"] = _active_s(outcome, parts["iteration_s"])
    parts["embedding_update_s"] = updates_s
    parts["embedding_share"] = parts["embedding_s"] / parts["iteration_s"]
    parts["exposed_share_of_comm"] = summary["breakdown"]["exposed_share_of_comm"]
    return parts


def _active_s(outcome: Simulation, iteration_s: float) -> float:
    """Seconds of an iteration in which a device computes, copies or exchanges, the mean over ranks.

    The union of its streams in the steady state: what overlaps the iterations before and after counts once.
    """
    active_s, period_ps = 0.0, round(iteration_s * PS_PER_S)
    for program, times in zip(outcome.graph.programs, outcome.result.records[0].groups, strict=True):
        streams = (program.streams[number].name for number in program.stream_of.tolist())
        kinds = enumerate(zip(streams, program.work, strict=True))
        rows = [row for row, (stream, work) in kinds if stream not in _NO_DEVICE and not isinstance(work, _IDLE)]
        if not rows:
            continue
        starts, ends = (times.start_ps + times.waiting_ps)[rows], times.end_ps[rows]
        begin = starts.min(axis=0)
        shifts = period_ps * np.arange(-1, 2)
        starts, ends = (np.concatenate([each + shift for shift in shifts]) for each in (starts, ends))
        starts, ends = (np.clip(each, begin, begin + period_ps) for each in (starts, ends))
        order = np.argsort(starts, axis=0, kind="stable")
        starts, ends = (np.take_along_axis(each, order, axis=0) for each in (starts, ends))
        covered = np.vstack([starts[:1], np.maximum.accumulate(ends, axis=0)[:-1]])
        active_ps = np.maximum(0, ends - np.maximum(starts, covered)).sum(axis=0)
        active_s += float(active_ps.mean()) / PS_PER_S * program.rank_count / outcome.graph.world_size
    return active_s


def _part_of(work: object, category: Category) -> str:
    if isinstance(work, Gemm):
        return "gemm_s"
    if isinstance(work, EmbeddingLookup | EmbeddingUpdate):
        return "embedding_s"
    if isinstance(work, CollectiveCall):
        return f"{work.op}_s"
    return "other_compute_s" if category is Category.COMPUTE else ""


def alternatives_of(scenario: str, changes: Mapping[str, Any], metric: str) -> list[tuple[str, Any, SuiteJob]]:
    """(quantity, value, job) for every alternative that the model and the framework of a scenario list.

    Last the alternatives of the framework all together: each was chosen, and they may hide each other. A local batch is
    set through the global batch, since scenarios state that.
    """
    resolved = SuiteJob.of(scenario, changes).resolved()
    found: list[tuple[str, Any, dict[str, Any]]] = []
    for key, value in _alternatives(resolved.model):
        if key == "local_batch_size":
            found.append((key, value, {"workload.global_batch_size": int(value) * resolved.world_size}))
        else:
            found.append((key, value, {f"workload.alternatives.{key}": value}))
    others = _alternatives(resolved.framework)
    found += [(key, value, {f"workload.alternatives.{key}": value}) for key, value in others]
    chosen = dict(others)
    if len(chosen) > 1:
        together = {f"workload.alternatives.{key}": value for key, value in chosen.items()}
        found.append((" + ".join(chosen), " + ".join(map(str, chosen.values())), together))
    bound = metric.partition(".")[0] == "bound"
    return [(key, value, SuiteJob.of(scenario, {**changes, **change}, bound=bound)) for key, value, change in found]


def _alternatives(model: BaseModel) -> list[tuple[str, Any]]:
    """(quantity, value) of every listed alternative, values as they are written."""
    return [
        (key, other.value.model_dump() if isinstance(other.value, BaseModel) else other.value)
        for key, quantity in graded_quantities(model)
        for other in quantity.alternatives
    ]
