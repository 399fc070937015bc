"""Reads a Kineto trace: the Chrome-format JSON of PyTorch's profiler, plain or gzip, in bounded memory.

``ts`` and ``dur`` are microseconds (libkineto, ``output_json.cpp``). Only the parts of a timeline are kept:
operators, annotations, CUDA runtime calls and device work; Python functions, flows and counters are counted and
dropped. Runtime calls and device work find each other by ``correlation``, so the flow arrows say nothing more.
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, TypeAlias

import msgspec
import numpy as np

from inputs.errors import InputError
from inputs.typed import UNREAD, typed, wrong_type
from simulator.program import IntArray
from traces.collective_args import KeptArgs, ProcessGroup
from traces.json_array import JsonArray
from traces.kineto.events import DEVICE, EventKind, Events, Interner, RankTrace, concatenated
from traces.kineto.shapes import has_shape
from traces.typed import Rank, RankCount, rank_in_name

PS_PER_US = 1_000_000
NS_PER_US = 1_000

_CATEGORIES: Mapping[str, EventKind] = {
    "cpu_op": EventKind.OPERATOR, "operator": EventKind.OPERATOR, "user_annotation": EventKind.ANNOTATION,
    "cuda_runtime": EventKind.RUNTIME, "cuda_driver": EventKind.RUNTIME, "runtime": EventKind.RUNTIME,
    "kernel": EventKind.KERNEL, "gpu_memcpy": EventKind.MEMCPY, "memcpy": EventKind.MEMCPY,
    "gpu_memset": EventKind.MEMSET, "memset": EventKind.MEMSET,
}  # fmt: skip
_KINDS: dict[str | None, int] = {
    written: int(kind) for name, kind in _CATEGORIES.items() for written in (name, name.capitalize())
}
"""Categories as releases write them: older ones ``Operator``, ``Kernel``, ``Memcpy``, ``Memset``, ``Runtime``."""
_RANK_IN_NAME = re.compile(
    r"(?:rank|worker)[-_.]?(\d+)|(?<!step)(?<!iter)(?<!iteration)(?<!epoch)[-_.](\d{1,5})(?:\.pt)?(?:\.trace)?\.json"
)
"""The rank in names like ``rank3``, ``worker-3`` and ``trace_3.json``; longer numbers are times."""


BaseNs: TypeAlias = Annotated[int, msgspec.Meta(ge=0, lt=1 << 62)]
"""Time to which a trace's times are relative, ns since 1970."""


class Args(msgspec.Struct, gc=False):
    """The arguments that matter."""

    correlation: Any = None
    stream: Any = None
    device: Any = None
    bytes: Any = None
    collective: Any = msgspec.field(default=None, name="Collective name")
    in_elements: Any = msgspec.field(default=None, name="In msg nelems")
    out_elements: Any = msgspec.field(default=None, name="Out msg nelems")
    in_splits: Any = msgspec.field(default=None, name="In split size")
    dtype: Any = None
    group: Any = msgspec.field(default=None, name="Process Group Name")
    group_ranks: Any = msgspec.field(default=None, name="Process Group Ranks")
    group_size: Any = msgspec.field(default=None, name="Group size")
    first_rank: Any = msgspec.field(default=None, name="Global rank start")
    rank_stride: Any = msgspec.field(default=None, name="Global rank stride")
    dims: msgspec.Raw = msgspec.field(default=msgspec.Raw(b""), name="Input Dims")
    types: msgspec.Raw = msgspec.field(default=msgspec.Raw(b""), name="Input type")


class Info(msgspec.Struct):
    """Place of the rank in its job (``distributedInfo``)."""

    rank: Rank | None = None
    world_size: RankCount | None = None
    pg_config: list[ProcessGroup] | None = None


class Device(msgspec.Struct):
    """A GPU."""

    name: str = ""


class Head(msgspec.Struct):
    """The keys of a trace beside its events that matter."""

    distributedInfo: Info | None = None  # noqa: N815 - Kineto's name
    deviceProperties: list[Device] | None = None  # noqa: N815
    baseTimeNanoseconds: BaseNs | None = None  # noqa: N815


class Event(msgspec.Struct, gc=False):
    """One event of ``traceEvents``."""

    ph: str = ""
    cat: str | None = None
    name: str = ""
    pid: Any = None
    tid: Any = None
    ts: int | float | None = None
    dur: int | float | None = None
    args: Args | None = None


def read_kineto(file: Path) -> RankTrace:
    """Read one file, the trace of one rank.

    Raises:
        InputError: not such a file, or an event has no or an impossible time; the byte or the event is named.
    """
    array = JsonArray(file, "traceEvents", Event)
    columns = _Columns(file)
    for batch in array.batches():
        columns.add(batch)
    head: Head = typed(array.head, Head, file)
    info = head.distributedInfo or Info()
    rank, size = info.rank, info.world_size
    if rank is not None and size is not None and rank >= size:
        key, expected = "distributedInfo.rank", f"a rank below world_size, which is {size}"
        raise InputError("a rank beyond the job's", file=file, key=key, given=rank, expected=expected)
    return RankTrace(
        file=file,
        rank=_rank_in_name(file) if rank is None else rank,
        world_size=size,
        device=next((device.name for device in head.deviceProperties or ()), ""),
        base_ns=columns.base_us * NS_PER_US + (head.baseTimeNanoseconds or 0),
        resolution_ps=columns.resolution_ps,
        events=columns.events(),
        groups=_groups(info),
        dropped=columns.dropped,
        rank_from_name=rank is None,
    )


class _Columns:
    """Collects the events that are kept, a batch at a time."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._names, self._tracks = Interner(), Interner()
        self._parts: list[tuple[np.ndarray[Any, Any], ...]] = []
        self._args: dict[int, dict[str, Any]] = {}
        self._rows = self._seen = 0
        self.base_us = 0
        self.resolution_ps = PS_PER_US
        self.dropped: dict[str, int] = {}

    def add(self, batch: list[Event]) -> None:
        """Keep the relevant events of a batch."""
        kinds_of, names_of, tracks_of = _KINDS, self._names.numbers, self._tracks.numbers
        kept: list[Event] = []
        kinds, names, tracks, correlations, numbers = (array("q") for _ in range(5))
        for number, event in enumerate(batch, start=self._seen):
            kind = kinds_of.get(event.cat) if event.ph == "X" else None
            if kind is None:
                self._drop(event)
                continue
            args = event.args
            track = (event.pid, event.tid)
            correlation = -1
            if args is not None:
                if kind >= DEVICE and args.stream is not None:
                    track = (event.pid if args.device is None else args.device, args.stream)
                if kind >= _RUNTIME and type(args.correlation) is int and 0 <= args.correlation < _HIGHEST:
                    correlation = args.correlation
                named = kind < _RUNTIME and has_shape(event.name)
                if named or kind == _MEMCPY or args.collective is not None:
                    where = f"event {number} ({event.name[:80]!r}) args"
                    self._args[self._rows + len(kept)] = _kept_args(args, self._file, where)
            kept.append(event)
            kinds.append(kind)
            names.append(names_of.setdefault(event.name, len(names_of)))
            tracks.append(_number_of(track, tracks_of))
            correlations.append(correlation)
            numbers.append(number)
        self._seen += len(batch)
        if kept:
            starts, durations = self._times(kept, numbers)
            columns = (kinds, names, tracks, starts, starts + durations, correlations, numbers)
            self._parts.append(tuple(np.asarray(c).astype(t) for c, t in zip(columns, _TYPES, strict=True)))
            self._rows += len(kept)

    def _drop(self, event: Event) -> None:
        what = event.cat if event.cat and event.ph == "X" else {"M": "metadata"}.get(event.ph, f"phase {event.ph}")
        self.dropped[what] = self.dropped.get(what, 0) + 1

    def _times(self, kept: list[Event], numbers: Sequence[int]) -> tuple[IntArray, IntArray]:
        """Start, relative to the first event's, and duration in ps ``[N]``."""
        starts_us = [e.ts for e in kept]
        durations_us = [e.dur for e in kept]
        if None in starts_us or None in durations_us:
            row = next(r for r, e in enumerate(kept) if e.ts is None or e.dur is None)
            missing = "ts" if kept[row].ts is None else "dur"
            raise self._error(kept[row], numbers[row], f"has no {missing}")
        starts, durations = np.array(starts_us, dtype=np.float64), np.array(durations_us, dtype=np.float64)
        if not self._parts:
            self.base_us = int(starts[0])
        starts -= self.base_us
        wrong = (durations < 0) | ~(np.abs(starts) < _LONGEST_US) | ~(durations < _LONGEST_US)
        if wrong.any():
            row = int(np.flatnonzero(wrong)[0])
            what = "a negative duration" if durations[row] < 0 else "an impossible time"
            raise self._error(kept[row], numbers[row], f"has {what}: ts {kept[row].ts}, dur {kept[row].dur}")
        if self.resolution_ps == PS_PER_US and (np.any(starts % 1.0) or np.any(durations % 1.0)):
            self.resolution_ps = PS_PER_US // NS_PER_US
        if self.resolution_ps < PS_PER_US and self.base_us >= _EXACT_US:
            self.resolution_ps = PS_PER_US // 4
        return tuple(np.rint(us * PS_PER_US).astype(np.int64) for us in (starts, durations))  # type: ignore[return-value]

    def _error(self, event: Event, number: int, message: str) -> InputError:
        longest = f"{_LONGEST_US:g} us"
        expected = f"ts within {longest} of the first event's, dur from 0 to {longest}"
        return InputError(f"event {number} ({event.name[:80]!r}) {message}", file=self._file, expected=expected)

    def events(self) -> Events:
        """All events kept."""
        kind, name, track, start, end, correlation, number = (
            concatenated((part[c] for part in self._parts), column) for c, column in enumerate(_TYPES)
        )
        names = self._names.values()
        self._parts.clear()
        return Events(names, self._tracks.values(), kind, name, track, start, end, correlation, number, self._args)


_TYPES = (np.int8, np.int32, np.int32, np.int64, np.int64, np.int64, np.int64)
"""Types of the columns kind, name, track, start, end, correlation, number."""
_RUNTIME, _MEMCPY = int(EventKind.RUNTIME), int(EventKind.MEMCPY)
_HIGHEST = 1 << 62
_LONGEST_US = 1e12
"""About twelve days: longer than any profile, and in ps still within 62 bits."""
_EXACT_US = 1 << 50
"""Time, us, from which a double resolves a quarter of a microsecond only; absolute time stamps since 1970 are later."""


def _number_of(track: tuple[Any, Any], numbers: dict[tuple[Any, Any], int]) -> int:
    """The track's number; values that cannot be keys become text."""
    try:
        return numbers.setdefault(track, len(numbers))
    except TypeError:
        return numbers.setdefault((str(track[0]), str(track[1])), len(numbers))


_NAMES = dict(zip(Args.__struct_fields__, Args.__struct_encode_fields__, strict=True))
"""Kineto's names of the arguments."""


def _kept_args(args: Args, file: Path, where: str) -> dict[str, Any]:
    """Arguments that describe a collective or a copy.

    Raises:
        InputError: one is of another type than `KeptArgs` declares.
    """
    kept = {field: value for field in KeptArgs.__struct_fields__ if (value := getattr(args, field)) is not None}
    typed(kept, KeptArgs, file, where, _NAMES)
    for field in ("dims", "types"):
        raw = getattr(args, field)
        if bytes(raw):
            try:
                kept[field] = msgspec.json.decode(raw)
            except msgspec.ValidationError as error:  # a number beyond doubles
                raise wrong_type(error, UNREAD, file, f"{where}: {_NAMES[field]}") from None
    return kept


def _rank_in_name(file: Path) -> int | None:
    found = _RANK_IN_NAME.search(file.name)
    return rank_in_name(found[1] or found[2], file) if found else None


def _groups(info: Info) -> dict[str, tuple[int, ...]]:
    """Ranks of each process group, where the profiler says."""
    return {str(group.pg_name): tuple(group.ranks) for group in info.pg_config or () if group.ranks}
