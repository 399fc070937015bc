"""What a measurement of the reference trainer says: time per iteration, per class of operator and per collective.

Classes add up to the iteration: lookups, updates of tables and GEMMs, issuing collectives and waiting for them, and the
rest. Collectives are told of nine tenths of the iterations that were measured, of each core that ranks were on by
turns alike; of what these leave, the other classes have the parts that they have in the usual half of those whose
operators are timed, without those that touched new pages.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from hardware_specs.cpu_kernels import Followed
from inputs.errors import InputError
from simulator.operators import FloatArray
from simulator.program import IntArray
from traces.kineto.events import Events
from traces.kineto.reader import read_kineto
from validation.over_cores import evened, median_over_cores, part_over_cores, unhindered, usual
from validation.timed import GEMMS, ISSUE, LOOKUP, UPDATE, WAIT, timed_iterations
from validation.together import Together
from validation.yardstick import FULLY

if TYPE_CHECKING:  # loading it takes longer than a command line may take to start
    import pandas as pd

THREAD = "own thread"
"""The work of a rank's own thread, which others on the machine hardly change."""
CLASSES = ("embedding_forward", "embedding_update", "gemm", "collectives", "rest")
"""Classes of operators, which add up to the iteration; ``collectives``: exposed, that is issued and waited for."""
RESOLVED = "scenario.resolved.yaml"
_GLOO = "gloo:"


@dataclass(frozen=True, slots=True)
class Bar:
    """Something on a timeline: lane, begin and end in seconds, class or collective, name."""

    lane: str
    begin_s: float
    end_s: float
    kind: str
    name: str


@dataclass(frozen=True, slots=True)
class Times:
    """An iteration, measured or predicted.

    Attributes:
        iteration_s: its time: the median where it was measured.
        classes_s: of each class, the mean over ranks.
        thread_s: what the rank's own thread worked: CPU time where it was measured; None with several threads.
        collectives_s: of each operation, from the rank's call to its end, the mean over ranks.
        bars: the tasks of one iteration on every rank.
        yardstick_s: what the pieces of the trainer's yardstick took meanwhile, or when the machine was calibrated.
        together: what is predicted of lookups beside those of other ranks; None where it was measured.
        followed: how closely what is predicted goes with the yardstick.
    """

    iteration_s: float
    classes_s: Mapping[str, float]
    thread_s: float | None
    collectives_s: Mapping[str, float]
    bars: Sequence[Sequence[Bar]]
    yardstick_s: Mapping[str, float] = field(default_factory=dict)
    together: Together | None = None
    followed: Followed = FULLY


@dataclass(frozen=True, slots=True)
class Measured:
    """A measurement.

    Attributes:
        folder: where it is.
        summary: its ``measured.json``.
        times: what it says.
        noise_pct: half the spread of the middle half: of iterations, of the collectives' part of those that count, and
            of each other class and collective over traced ones.
    """

    folder: Path
    summary: Mapping[str, Any]
    times: Times
    noise_pct: Mapping[str, float]


def read_measured(folder: Path) -> Measured:
    """Read the folder that ``dlrmsim measure`` wrote; of one measured on GPUs the iteration alone.

    There what the host does are launches, which say nothing of kernels.

    Raises:
        InputError: it is no such folder.
    """
    import pandas as pd

    file = folder / "measured.json"
    if not file.is_file() or not (folder / RESOLVED).is_file() or not (folder / "timed").is_dir():
        raise InputError("no measurement", file=folder, expected="a folder that this `dlrmsim measure` wrote")
    summary = json.loads(file.read_text(encoding="utf-8"))
    rows = pd.read_parquet(folder / "iterations.parquet")
    measured = rows[rows["phase"] == "measured"]
    times_s = measured[measured["rank"] == 0]["iteration_time_s"].to_numpy()
    cores = _placements(measured)
    iteration_s = median_over_cores(times_s, cores)
    whole_noise_pct = spread_pct(evened(times_s, cores))
    if summary["device"] != "cpu":
        nothing = Times(iteration_s, {}, None, {}, [[] for _ in range(summary["world_size"])], summary["yardstick_s"])
        return Measured(folder, summary, nothing, {"iteration": whole_noise_pct})
    faults = stage_page_faults(rows)
    ranks = [_rank(folder / "timed" / f"rank{rank}.json.gz", faults) for rank in range(summary["world_size"])]
    thread_s, thread_noise_pct = _thread_s(measured, folder)
    traced = usual(np.mean([rank.steps_s for rank in ranks], axis=0))
    scale = iteration_s / float(np.mean([rank.steps_s[traced] for rank in ranks]))
    classes = {name: _means([rank.classes_s[name] for rank in ranks], scale) for name in CLASSES}
    classes_s = {name: float(values[traced].mean()) for name, values in classes.items()}
    each_s = _collectives_s(measured)
    if each_s is not None:
        classes["collectives"] = evened(each_s / times_s, cores)[unhindered(times_s, cores)]
        classes_s = _with_collectives(classes_s, part_over_cores(each_s, times_s, cores))
    ops = sorted({op for rank in ranks for op in rank.collectives_s})
    collectives = {op: _means([rank.collectives_s[op] for rank in ranks], scale) for op in ops}
    noise = {name: spread_pct(values) for name, values in {**classes, **collectives}.items()}
    times = Times(
        iteration_s,
        classes_s,
        thread_s,
        {op: float(values[traced].mean()) for op, values in collectives.items()},
        [rank.bars for rank in ranks],
        summary["yardstick_s"],
    )
    return Measured(folder, summary, times, {"iteration": whole_noise_pct, THREAD: thread_noise_pct, **noise})


def stage_page_faults(rows: pd.DataFrame) -> IntArray:
    """Pages that each iteration of the stage of traced ones touched first, the most of any rank ``[iterations]``.

    Args:
        rows: of ``iterations.parquet``.
    """
    found = rows[rows["phase"] == "timed"].groupby("iteration")["page_faults"].max()
    return np.asarray(found.sort_index().to_numpy(), dtype=np.int64)


def _placements(rows: pd.DataFrame) -> IntArray:
    """Which placement of all ranks on cores each iteration had ``[iterations]``, numbered."""
    ranks = np.stack([_cores(of_rank) for _, of_rank in rows.groupby("rank")])
    return np.asarray(np.unique(ranks, axis=1, return_inverse=True)[1].reshape(-1), dtype=np.int64)


def _cores(rows: pd.DataFrame) -> IntArray:
    """On which core a rank was in each of its rows ``[iterations]``; 0 where that was not recorded."""
    return rows["core"].to_numpy() if "core" in rows else np.zeros(len(rows), dtype=np.int64)


def _collectives_s(rows: pd.DataFrame) -> FloatArray | None:
    """Of each measured iteration what own threads did not work on kernels, the mean over ranks, seconds.

    That is what they issued and waited for collectives, and how much earlier than the last rank they were done: where
    the yardstick is laid on after an iteration, ranks wait for each other in its exchange, else in the next iteration.
    None where it was not recorded (as it was not until November 2026).
    """
    if "collectives_s" not in rows:
        return None
    exposed_s = rows["iteration_time_s"] - (rows["time_s"] - rows["collectives_s"])
    return np.asarray(exposed_s.groupby(rows["iteration"]).mean().to_numpy(), dtype=np.float64)


def _with_collectives(classes_s: Mapping[str, float], collectives_s: float) -> dict[str, float]:
    """Classes with so much for collectives, the others in the same proportion and of the same sum."""
    whole_s, others_s = sum(classes_s.values()), sum(classes_s.values()) - classes_s["collectives"]
    scale = (whole_s - collectives_s) / others_s
    return {name: collectives_s if name == "collectives" else scale * value for name, value in classes_s.items()}


def _thread_s(rows: pd.DataFrame, folder: Path) -> tuple[float | None, float]:
    """CPU time of a rank's own thread per iteration, the mean over ranks of medians, and its spread, per cent."""
    ranks = json.loads((folder / "environment.json").read_text(encoding="utf-8"))["ranks"]
    if "cpu_s" not in rows or any(rank["threads"] > 1 for rank in ranks):
        return None, 0.0
    timed = [(of_rank["cpu_s"].to_numpy(), _cores(of_rank)) for _, of_rank in rows.groupby("rank")]
    middles_s = [median_over_cores(*of_rank) for of_rank in timed]
    return float(np.mean(middles_s)), float(np.mean([spread_pct(evened(*of_rank)) for of_rank in timed]))


def spread_pct(values: FloatArray) -> float:
    """Half the spread of the middle half of values over their median, per cent."""
    low, middle, high = np.quantile(values, [0.25, 0.5, 0.75])
    return 100.0 * float(high - low) / 2 / float(middle) if middle else 0.0


def _means(ranks: Sequence[FloatArray], scale: float) -> FloatArray:
    """Mean over ranks in each traced iteration ``[iterations]``."""
    means: FloatArray = np.mean(ranks, axis=0) * scale
    return means


@dataclass(frozen=True, slots=True)
class _Rank:
    """A rank's traced iterations: their times, and those of classes and collectives in each ``[iterations]``."""

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
    """Class or collective of an event; empty for others."""
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
    """Seconds of events that begin in each iteration ``[iterations]``."""
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
