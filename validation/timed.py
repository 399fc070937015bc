"""The trainer's timed iterations: what a rank's own thread did, by section of the iteration."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from inputs.errors import InputError
from simulator.operators import FloatArray
from simulator.program import IntArray
from traces.kineto.events import Events
from traces.kineto.reader import read_kineto

STEP = "ProfilerStep#"
GEMMS = frozenset({"aten::addmm", "aten::mm", "aten::bmm"})
WAIT = "collective_wait"
"""Waiting for a collective (`trainer.waits`)."""
ISSUE = "c10d::"
"""Issuing one; on a shared core the threads of gloo begin within it."""
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


@dataclass(frozen=True, slots=True)
class TimedRank:
    """A rank's timed iterations.

    Attributes:
        steps_s: their times ``[iterations]``.
        groups_s: of each group of sections, without the parts that are counted apart: every lookup and update of a kind
            of shards by its name, `WAIT`, `ISSUE`; medians over iterations.
        gemms_s: of each GEMM in the order of the iteration ``[gemms]``, likewise.
        rest_share: of what the rank did beside collectives, the part that was no lookup, update or GEMM, over all of
            these iterations; None in records from before it was told.
    """

    steps_s: FloatArray
    groups_s: Mapping[str, float]
    gemms_s: FloatArray
    rest_share: float | None = None


NEW_PAGES = 4
"""That an iteration may touch first, more than that of the same trace which touches fewest, and count: the system takes
up to 5 ms for one of 2 MB. The profiler's small pieces leave no place for large tensors in memory that was theirs."""


def _middle(values: Sequence[float]) -> float:
    return float(np.median(values))


def timed_iterations(events: Events, file: Path, page_faults: IntArray | None = None) -> IntArray:
    """Where iterations begin and end that count ``[iterations, 2]``, picoseconds.

    Args:
        events: of the trace.
        file: that it is from.
        page_faults: pages that each iteration of the stage touched first, the most of any rank; those of the trace that
            touched more than others do not count. None: all do.

    Raises:
        InputError: there are none.
    """
    rows = _steps(events)
    if not len(rows):
        raise InputError("the trace has no iterations", file=file, expected="a trace that `dlrmsim measure` wrote")
    rows = rows[np.argsort(events.start_ps[rows])]
    if page_faults is not None:
        numbers = [int(events.names[name].removeprefix(STEP)) for name in events.name[rows].tolist()]
        rows = rows[page_faults[numbers] <= page_faults[numbers].min() + NEW_PAGES]
    return np.stack([events.start_ps[rows], events.end_ps[rows]], axis=1)


def read_timed(
    file: Path, page_faults: IntArray | None = None, middle: Callable[[Sequence[float]], float] = _middle
) -> TimedRank:
    """Read a rank's ``timed/rank{r}.json.gz``; raises as `timed_iterations`.

    Args:
        file: of the trace.
        page_faults: as of `timed_iterations`.
        middle: of the seconds of a group, or of a GEMM, in each iteration; the median unless told.
    """
    events = read_kineto(file).events
    spans = timed_iterations(events, file, page_faults)
    own = np.flatnonzero(events.track == events.track[_steps(events)[0]])
    own = own[np.lexsort((-events.end_ps[own], events.start_ps[own]))]
    found = [_iteration(events, own, low, high) for low, high in spans.tolist()]
    names = dict.fromkeys(name for groups, _ in found for name in groups)
    groups_s = {name: middle([groups.get(name, 0.0) for groups, _ in found]) for name in names}
    counts = [len(gemms) for _, gemms in found]
    alike = [gemms for _, gemms in found if len(gemms) == max(counts, default=0)]
    gemms_s = np.array([middle(same) for same in zip(*alike, strict=True)])
    rest_share = _rest_share([groups for groups, _ in found])
    return TimedRank((spans[:, 1] - spans[:, 0]) / 1e12, groups_s, gemms_s, rest_share)


def _rest_share(iterations: Sequence[Mapping[str, float]]) -> float:
    """Of what own threads did beside collectives in some iterations, what was no kernel that is told apart."""
    own = [(name, seconds) for groups in iterations for name, seconds in groups.items() if name not in (WAIT, ISSUE)]
    kernels_s = sum(seconds for name, seconds in own if name == "gemm" or name.endswith((LOOKUP, UPDATE)))
    return 1.0 - kernels_s / max(sum(seconds for _, seconds in own), 1e-12)


def _steps(events: Events) -> IntArray:
    marked = np.array([name.startswith(STEP) for name in events.names])
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
    """What an event is counted as apart from its section; empty where it is part of that."""
    if name in GEMMS:
        return "gemm"
    if name.endswith((LOOKUP, UPDATE)):
        return name
    if name == WAIT:
        return WAIT
    return ISSUE if name.startswith(ISSUE) else ""
