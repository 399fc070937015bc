"""Results of ``dlrmsim measure``: time per iteration, per operator class and per collective.

Operator classes add up to the iteration: lookups, updates of tables, GEMMs, collectives (issued and waited for) and the
rest. The time of collectives comes from the iterations that are not traced; the traced ones divide the remainder.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from inputs.errors import InputError
from simulator.operators import FloatArray
from simulator.program import IntArray
from traces.kineto.events import Events
from traces.kineto.reader import read_kineto
from validation.host.measured_files import SUMMARY, read_iterations, read_summary, threads_of_ranks
from validation.host.operator_times import GEMMS, ISSUE, LOOKUP, UPDATE, WAIT, timed_iterations
from validation.host.usual_times import central_half, counted, part_of_iteration, spread_pct

if TYPE_CHECKING:  # loading it takes longer than a command line may take to start
    import pandas as pd

THREAD = "own thread"
"""Metric of the CPU time of a rank's own thread."""
CLASSES = ("embedding_forward", "embedding_update", "gemm", "collectives", "rest")
"""Operator classes, which add up to the iteration; ``collectives`` are exposed: issued and waited for."""
RESOLVED = "scenario.resolved.yaml"
_GLOO = "gloo:"


@dataclass(frozen=True, slots=True)
class Bar:
    """A bar of a timeline: lane, begin and end in seconds, operator class or ``collectives``, name."""

    lane: str
    begin_s: float
    end_s: float
    kind: str
    name: str


@dataclass(frozen=True, slots=True)
class Times:
    """Times of an iteration, measured or predicted.

    Attributes:
        iteration_s: time per iteration, the median if measured.
        classes_s: time of each operator class, the mean over ranks.
        thread_s: CPU time of a rank's own thread, the mean over ranks; None with several threads.
        collectives_s: time of each operation from the rank's call to its end, the mean over ranks.
        bars: tasks of one iteration on every rank.
        yardstick_s: time of the trainer's yardstick during the measurement, or during the machine's calibration.
    """

    iteration_s: float
    classes_s: Mapping[str, float]
    thread_s: float | None
    collectives_s: Mapping[str, float]
    bars: Sequence[Sequence[Bar]]
    yardstick_s: float | None = None


@dataclass(frozen=True, slots=True)
class HostMeasurement:
    """A measurement.

    Attributes:
        summary: content of its ``measured.json``.
        noise_pct: half the interquartile range over the median, per cent: of iterations, of collectives over counted
            iterations, of other classes and collectives over traced ones.
    """

    folder: Path
    summary: Mapping[str, Any]
    times: Times
    noise_pct: Mapping[str, float]


def read_measured(folder: Path) -> HostMeasurement:
    """Read a folder that ``dlrmsim measure`` wrote; on GPUs only the iteration, since the host only launches there.

    Raises:
        InputError: it is not such a folder.
    """
    if not (folder / SUMMARY).is_file() or not (folder / RESOLVED).is_file() or not (folder / "timed").is_dir():
        raise InputError("not a measurement", file=folder, expected="a folder that this `dlrmsim measure` wrote")
    summary = read_summary(folder)
    rows = read_iterations(folder, summary["world_size"])
    measured = rows[rows["phase"] == "measured"]
    times_s = measured[measured["rank"] == 0]["iteration_time_s"].to_numpy()
    iteration_s = float(np.median(times_s))
    noise_pct = {"iteration": spread_pct(times_s)}
    yardstick_s = summary["yardstick_s"]
    if summary["device"] != "cpu":
        nothing = Times(iteration_s, {}, None, {}, [[] for _ in range(summary["world_size"])], yardstick_s)
        return HostMeasurement(folder, summary, nothing, noise_pct)
    faults = stage_page_faults(rows)
    ranks = [_rank(folder / "timed" / f"rank{rank}.json.gz", faults) for rank in range(summary["world_size"])]
    thread_s, noise_pct[THREAD] = _thread_s(measured, folder)
    traced = central_half(np.mean([rank.steps_s for rank in ranks], axis=0))
    scale = iteration_s / float(np.mean([rank.steps_s[traced] for rank in ranks]))
    classes = {name: scale * np.mean([rank.classes_s[name] for rank in ranks], axis=0) for name in CLASSES}
    exposed_s = _exposed_s(measured)
    classes_s = _with_collectives(
        {name: float(values[traced].mean()) for name, values in classes.items()}, part_of_iteration(exposed_s, times_s)
    )
    classes["collectives"] = iteration_s * (exposed_s / times_s)[counted(times_s)]
    ops = sorted({op for rank in ranks for op in rank.collectives_s})
    collectives = {op: scale * np.mean([rank.collectives_s[op] for rank in ranks], axis=0) for op in ops}
    noise_pct |= {name: spread_pct(values) for name, values in {**classes, **collectives}.items()}
    collectives_s = {op: float(values[traced].mean()) for op, values in collectives.items()}
    times = Times(iteration_s, classes_s, thread_s, collectives_s, [rank.bars for rank in ranks], yardstick_s)
    return HostMeasurement(folder, summary, times, noise_pct)


def stage_page_faults(rows: pd.DataFrame) -> IntArray:
    """Pages that each traced iteration touched first, the maximum over ranks ``[iterations]``.

    Args:
        rows: content of ``iterations.parquet``.
    """
    found = rows[rows["phase"] == "timed"].groupby("iteration")["page_faults"].max()
    return np.asarray(found.sort_index().to_numpy(), dtype=np.int64)


def _exposed_s(rows: pd.DataFrame) -> FloatArray:
    """Time of each iteration that own threads do not spend on kernels, the mean over ranks ``[iterations]``, seconds.

    That is issuing collectives, waiting for them, and waiting for the last rank at the end of the iteration.
    """
    exposed_s = rows["iteration_time_s"] - (rows["time_s"] - rows["collectives_s"])
    return np.asarray(exposed_s.groupby(rows["iteration"]).mean().to_numpy(), dtype=np.float64)


def _with_collectives(classes_s: Mapping[str, float], collectives_s: float) -> dict[str, float]:
    """Classes of the same sum with this time of collectives; the others keep their proportions."""
    whole_s = sum(classes_s.values())
    scale = (whole_s - collectives_s) / (whole_s - classes_s["collectives"])
    return {name: collectives_s if name == "collectives" else scale * value for name, value in classes_s.items()}


def _thread_s(rows: pd.DataFrame, folder: Path) -> tuple[float | None, float]:
    """CPU time of a rank's own thread per iteration, the mean over ranks of medians, and its spread in per cent."""
    if max(threads_of_ranks(folder)) > 1:
        return None, 0.0
    times_s = [of_rank["cpu_s"].to_numpy() for _, of_rank in rows.groupby("rank")]
    return float(np.mean([np.median(each) for each in times_s])), float(np.mean([spread_pct(each) for each in times_s]))


@dataclass(frozen=True, slots=True)
class _Rank:
    """Traced iterations of a rank: their times, and those of classes and collectives in each ``[iterations]``."""

    steps_s: FloatArray
    classes_s: Mapping[str, FloatArray]
    collectives_s: Mapping[str, FloatArray]
    bars: Sequence[Bar]


def _rank(file: Path, page_faults: IntArray) -> _Rank:
    events = read_kineto(file).events
    names = [events.names[number] for number in events.name.tolist()]
    spans = timed_iterations(events, file, page_faults)
    kinds = np.array([_kind(name) for name in names])
    seconds = {kind: _per_step(events, np.flatnonzero(kinds == kind), spans) for kind in np.unique(kinds) if kind}
    steps_s = (spans[:, 1] - spans[:, 0]) / 1e12
    classes = {name: seconds.get(name, np.zeros(len(spans))) for name in CLASSES[:-1]}
    classes["rest"] = steps_s - np.sum(list(classes.values()), axis=0)
    collectives = {kind[len(_GLOO) :]: found for kind, found in seconds.items() if kind.startswith(_GLOO)}
    return _Rank(steps_s, classes, collectives, _bars(events, names, kinds, spans))


def _kind(name: str) -> str:
    """Operator class or collective of an event; empty for others."""
    if name in GEMMS:
        return "gemm"
    if name == WAIT or name.startswith(ISSUE):
        return "collectives"
    if name.endswith(LOOKUP):
        return "embedding_forward"
    if name.endswith(UPDATE):
        return "embedding_update"
    return name if name.startswith(_GLOO) else ""


def _per_step(events: Events, rows: IntArray, spans: IntArray) -> FloatArray:
    """Seconds of the events that begin in each iteration ``[iterations]``."""
    begin = events.start_ps[rows]
    step = np.searchsorted(spans[:, 0], begin, side="right") - 1
    inside = (step >= 0) & (begin < spans[step, 1])
    durations = (events.end_ps[rows] - begin) / 1e12
    return np.asarray(np.bincount(step[inside], weights=durations[inside], minlength=len(spans)), dtype=np.float64)


def _bars(events: Events, names: Sequence[str], kinds: np.ndarray[Any, Any], spans: IntArray) -> list[Bar]:
    """Bars of the middle iteration."""
    begin, end = spans[(len(spans) - 1) // 2].tolist()
    inside = np.flatnonzero((events.start_ps >= begin) & (events.start_ps < end) & (kinds != ""))
    return [
        Bar(
            lane="collectives" if str(kinds[row]).startswith(_GLOO) else "host",
            begin_s=(int(events.start_ps[row]) - begin) / 1e12,
            end_s=(int(events.end_ps[row]) - begin) / 1e12,
            kind="collectives" if str(kinds[row]).startswith(_GLOO) else str(kinds[row]),
            name=names[row],
        )
        for row in inside.tolist()
    ]
