"""Operator times of traced iterations: time of a rank's own thread by section, lookup, update and GEMM."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from inputs.errors import InputError
from simulator.operators import FloatArray
from simulator.program import IntArray
from traces.kineto.events import Events
from traces.kineto.reader import read_kineto

STEP = "ProfilerStep#"
_STEP = re.compile(rf"{STEP}\d{{1,9}}")
GEMMS = frozenset({"aten::addmm", "aten::mm", "aten::bmm"})
WAIT = "collective_wait"
"""Name of waits for collectives in traces (`trainer.waits`)."""
ISSUE = "c10d::"
"""Prefix of calls that issue collectives in traces."""
LOOKUP, UPDATE = "_lookup", "_update"
ENDS = "ends"
"""Loss, optimizer, and what lies between the sections of an iteration."""
SECTIONS: Mapping[str, str] = {
    "input_copy": "input", "input_dist_splits": "input", "input_dist_values": "input", "input_dist_wait": "input",
    "embedding_forward": "embedding", "bottom_mlp_forward": "bottom_mlp", "output_dist_wait": "interaction",
    "interaction_forward": "interaction", "top_mlp_forward": "top_mlp", "loss": ENDS, "backward": "backward",
    "embedding_backward": "embedding", "all_reduce_wait": ENDS, "optimizer": ENDS,
}  # fmt: skip
"""Sections of the trainer (`trainer.model`, `trainer.pipeline`) and the group that they are counted in."""


NEW_PAGES = 4
"""Pages that a counted iteration may touch first beyond the trace's minimum; a first touch of 2 MB takes up to 5 ms."""


@dataclass(frozen=True, slots=True)
class TimedRank:
    """Operator times of a rank.

    Attributes:
        steps_s: times of the traced iterations ``[iterations]``.
        groups_s: median time of each group of sections, and of `WAIT`, `ISSUE` and each lookup and update by name;
            these are not part of their section.
        gemms_s: median time of each GEMM in the order of the iteration ``[gemms]``.
    """

    steps_s: FloatArray
    groups_s: Mapping[str, float]
    gemms_s: FloatArray


def timed_iterations(events: Events, file: Path, page_faults: IntArray | None = None) -> IntArray:
    """Begin and end of the counted iterations ``[iterations, 2]``, picoseconds.

    Args:
        file: path of the trace, for errors.
        page_faults: pages that each iteration of the stage touched first, the maximum over ranks; iterations that touch
            more than `NEW_PAGES` beyond the minimum do not count. None: all count.

    Raises:
        InputError: the trace has no iterations.
    """
    rows = _steps(events)
    if not len(rows):
        raise InputError("the trace has no iterations", file=file, expected="a trace that `dlrmsim measure` wrote")
    rows = rows[np.argsort(events.start_ps[rows])]
    if page_faults is not None:
        numbers = [int(events.names[name].removeprefix(STEP)) for name in events.name[rows].tolist()]
        if max(numbers) >= len(page_faults):
            given, expected = f"{STEP}{max(numbers)}", f"{STEP}0 to {STEP}{len(page_faults) - 1}"
            raise InputError("the iteration was not recorded", file=file, given=given, expected=expected)
        rows = rows[page_faults[numbers] <= page_faults[numbers].min() + NEW_PAGES]
    return np.stack([events.start_ps[rows], events.end_ps[rows]], axis=1)


def read_timed(file: Path, page_faults: IntArray | None = None) -> TimedRank:
    """Read a rank's ``timed/rank{r}.json.gz``; arguments and errors as `timed_iterations`."""
    events = read_kineto(file).events
    spans = timed_iterations(events, file, page_faults)
    own = np.flatnonzero(events.track == events.track[_steps(events)[0]])
    own = own[np.lexsort((-events.end_ps[own], events.start_ps[own]))]
    found = [_iteration(events, own, low, high) for low, high in spans.tolist()]
    names = dict.fromkeys(name for groups, _ in found for name in groups)
    groups_s = {name: float(np.median([groups.get(name, 0.0) for groups, _ in found])) for name in names}
    counts = [len(gemms) for _, gemms in found]
    same_count = [gemms for _, gemms in found if len(gemms) == max(counts, default=0)]
    gemms_s = np.array([float(np.median(times)) for times in zip(*same_count, strict=True)])
    return TimedRank((spans[:, 1] - spans[:, 0]) / 1e12, groups_s, gemms_s)


def _steps(events: Events) -> IntArray:
    marked = np.array([_STEP.fullmatch(name) is not None for name in events.names], dtype=bool)
    return np.flatnonzero(marked[events.name])


def _iteration(events: Events, own: IntArray, low: int, high: int) -> tuple[dict[str, float], list[float]]:
    """Seconds of each group, and of each GEMM, of the events of one iteration."""
    begin, end = np.searchsorted(events.start_ps[own], [low, high])
    groups: dict[str, float] = defaultdict(float)
    gemms: list[float] = []
    groups[ENDS] = (high - low) / 1e12
    section, until, apart_until = ENDS, low, low
    for name, start, stop in _named(events, own[begin:end]):
        seconds = (stop - start) / 1e12
        if start >= until:
            section, until = ENDS, start
        if name in SECTIONS and section == ENDS:
            section, until = SECTIONS[name], stop
            groups[ENDS] -= seconds
            groups[section] += seconds
            continue
        kind = _apart(name)
        if kind and start >= apart_until:
            apart_until = stop
            groups[section] -= seconds
            groups[kind] += seconds
            if kind == "gemm":
                gemms.append(seconds)
    return groups, gemms


def _named(events: Events, rows: IntArray) -> Iterator[tuple[str, int, int]]:
    for row in rows.tolist():
        name = events.names[events.name[row]]
        if not name.startswith(STEP):
            yield name, int(events.start_ps[row]), int(events.end_ps[row])


def _apart(name: str) -> str:
    """Name of the group of an event that is counted apart from its section; empty if it belongs to its section."""
    if name in GEMMS:
        return "gemm"
    if name.endswith((LOOKUP, UPDATE)):
        return name
    if name == WAIT:
        return WAIT
    return ISSUE if name.startswith(ISSUE) else ""
