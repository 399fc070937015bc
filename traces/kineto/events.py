"""Raw events of a trace as columns: times, tracks, interned names. Readers of formats hand them to importers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import IntEnum
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from simulator.program import IntArray
from traces.typed import MAX_RANKS


class EventKind(IntEnum):
    """Kind of an event; device events have one of the last three kinds."""

    OPERATOR = 0
    ANNOTATION = 1
    RUNTIME = 2
    KERNEL = 3
    MEMCPY = 4
    MEMSET = 5


DEVICE = int(EventKind.KERNEL)
"""The first kind of device work."""


class Interner:
    """Numbers distinct values in order of appearance."""

    def __init__(self) -> None:
        """Start without values."""
        self.numbers: dict[Any, int] = {}

    def number(self, value: Any) -> int:
        """The value's number."""
        return self.numbers.setdefault(value, len(self.numbers))

    def values(self) -> tuple[Any, ...]:
        """All values by number."""
        return tuple(self.numbers)


@dataclass(frozen=True, slots=True)
class Events:
    """N events of one rank, in the file's order.

    Attributes:
        names: distinct names.
        tracks: distinct tracks: (process, thread) of the host, (device, stream) of a device.
        kind: `EventKind` ``[N]``.
        name: number into ``names`` ``[N]``.
        track: number into ``tracks`` ``[N]``.
        start_ps: start since ``base_ns`` of the trace ``[N]``.
        end_ps: end ``[N]``.
        correlation: number shared by a runtime call and the device work it launched, -1 for none ``[N]``.
        number: position in the file's array, for messages ``[N]``.
        args: further arguments of a few events (collectives, copies), by row.
    """

    names: tuple[str, ...]
    tracks: tuple[tuple[Any, Any], ...]
    kind: NDArray[np.int8]
    name: NDArray[np.int32]
    track: NDArray[np.int32]
    start_ps: IntArray
    end_ps: IntArray
    correlation: IntArray
    number: IntArray
    args: Mapping[int, Mapping[str, Any]]

    def __len__(self) -> int:
        """N."""
        return len(self.kind)

    def name_of(self, row: int) -> str:
        """Name of an event."""
        return self.names[int(self.name[row])]

    @property
    def on_device(self) -> NDArray[np.bool_]:
        """Whether each event is work of a device ``[N]``."""
        device: NDArray[np.bool_] = self.kind >= DEVICE
        return device


@dataclass(frozen=True, slots=True)
class RankTrace:
    """Events of one rank from one file.

    Attributes:
        file: path that was read.
        rank: global rank; None if neither the file nor its name has one.
        world_size: ranks of the job, None where the file does not say.
        device: name of the GPU, empty where the file does not say.
        base_ns: time to which the events' times are relative.
        resolution_ps: unit of which times are whole multiples; intervals that overlap by less than two of it touch.
        events: columns.
        groups: ranks of each process group by its name.
        dropped: events by category that have no meaning for a timeline.
        rank_from_name: whether the rank is from the file's name.
    """

    file: Path
    rank: int | None
    world_size: int | None
    device: str
    base_ns: int
    resolution_ps: int
    events: Events
    groups: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    dropped: Mapping[str, int] = field(default_factory=dict)
    rank_from_name: bool = False


def ranks_in(trace: RankTrace) -> list[RankTrace]:
    """The trace of each rank of a file.

    A profiler writes one rank per file. A file whose devices are the processes of its host threads holds several ranks,
    as our own ``trace.json.gz`` does: the process is the rank.
    """
    events = trace.events
    process = np.array([track[0] if _is_rank(track[0]) else -1 for track in events.tracks], dtype=np.int64)
    of_event = process[events.track]
    devices = np.unique(of_event[events.on_device])
    hosts = np.unique(of_event[~events.on_device])
    if len(devices) < 2 or not np.array_equal(devices, hosts):
        return [trace]
    return [_only(trace, np.flatnonzero(of_event == rank), int(rank)) for rank in devices]


def _is_rank(process: object) -> bool:
    return isinstance(process, int) and 0 <= process < MAX_RANKS


def _only(trace: RankTrace, rows: IntArray, rank: int) -> RankTrace:
    events = trace.events
    columns = {name: getattr(events, name)[rows] for name in _COLUMNS}
    args = {place: events.args[row] for place, row in enumerate(rows.tolist()) if row in events.args}
    return replace(trace, rank=rank, events=replace(events, args=args, **columns), dropped={})


_COLUMNS = ("kind", "name", "track", "start_ps", "end_ps", "correlation", "number")


def concatenated(parts: Iterable[NDArray[Any]], dtype: type) -> NDArray[Any]:
    """One array out of the batches of a column."""
    found = list(parts)
    return np.concatenate(found).astype(dtype, copy=False) if found else np.zeros(0, dtype=dtype)
