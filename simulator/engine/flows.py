"""Activities at work: remaining work, speeds and ends in integers.

A pure state machine, without a clock of its own: from what starts and the current time it computes what ends when. Time
is int64 picoseconds. The work of a phase that takes D ps alone is counted in units of 2^-s ps of alone time, with s
such that the total has 62 bits: the speed x is the integer ``floor(x * 2^s)`` of these units per ps. An activity alone
therefore ends after exactly D; one that shares is rounded by less than 2^-s / x of its duration (3e-9 for 10 ms at
half speed). Remaining work changes only when the own speed does; ``end = now + ceil(remaining / speed)``.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from inputs.errors import ModelRangeError
from simulator.engine.capacity import NEVER, Capacities
from simulator.engine.records import ShareObserver
from simulator.engine.sharing import SharingModel
from simulator.engine.usage import UsageTable
from simulator.operators import FloatArray
from simulator.program import IntArray

WORK_BITS = 62
_MEMO_SIZE = 64  # components up to this many activities are looked up before they are solved


def work_shift(work_ps: int) -> int:
    """The s such that ``work_ps << s`` has `WORK_BITS` bits.

    Raises:
        ModelRangeError: the phase is so long (over an hour) that speeds would be too coarse.
    """
    shift = WORK_BITS - work_ps.bit_length()
    if shift < 10:
        raise ModelRangeError(f"a phase of {work_ps} ps is too long: phases may take up to {2**52} ps alone")
    return shift


def integer_speeds(speeds: FloatArray, shifts: IntArray) -> IntArray:
    """Speeds as work units per ps, rounded down.

    Raises:
        ModelRangeError: a speed rounds to nothing (a long phase shared by thousands of others).
    """
    rates = np.floor(np.ldexp(speeds, shifts)).astype(np.int64)
    if rates.min(initial=1) < 1:
        raise ModelRangeError(f"speed {speeds.min():.3g} of a phase is too small to count in integers")
    return rates


def _numbered(values: Sequence[bytes]) -> IntArray:
    """A number for each value, the same for equal ones."""
    numbers: dict[bytes, int] = {}
    return np.array([numbers.setdefault(value, len(numbers)) for value in values], dtype=np.int64)


Token = TypeVar("Token")


class Flows(Generic[Token]):
    """The phases at work now, each known by a token."""

    def __init__(
        self,
        table: UsageTable,
        sharing: SharingModel,
        capacities: Capacities,
        observer: ShareObserver | None = None,
    ) -> None:
        """No phase at work; ``sharing`` is called for connected components of ``table``."""
        self._table, self._sharing, self._observer = table, sharing, observer
        edges = table.ptr.tolist()
        self._classes_of = [table.classes[begin:end] for begin, end in pairwise(edges)]
        self._capacities, self._state = capacities, -1
        self._left = np.ones(table.class_count)
        self._users = np.zeros(table.class_count, dtype=np.int64)
        self._memo: dict[tuple[int, bytes, bytes], IntArray] = {}
        self._set_of = _numbered([classes.tobytes() for classes in self._classes_of])
        self._connected: dict[tuple[bytes, frozenset[int]], NDArray[np.bool_]] = {}
        self._tokens: list[Token | None] = []
        self._free: list[int] = []
        self._touched: list[int] = []  # rows of phases that ended since the last solve
        self._fresh: list[int] = []  # slots of phases that started since
        self._row = np.zeros(0, dtype=np.int64)
        self._shift = np.zeros(0, dtype=np.int64)
        self._remaining = np.zeros(0, dtype=np.int64)
        self._rate = np.zeros(0, dtype=np.int64)
        self._since = np.zeros(0, dtype=np.int64)
        self._end = np.zeros(0, dtype=np.int64)

    def start(self, row: int, work_ps: int, token: Token, now: int) -> None:
        """Start ``work_ps`` of usage row ``row``; ``token`` comes back at its end. `solve` follows if `needs_solve`."""
        slot = self._slot()
        shift = work_shift(work_ps)
        self._tokens[slot] = token
        self._row[slot], self._shift[slot] = row, shift
        self._remaining[slot] = work_ps << shift
        self._rate[slot], self._since[slot], self._end[slot] = 0, now, NEVER
        self._users[self._classes(row)] += 1
        if self._capacities.state(now) == self._state and self._is_alone(row):
            self._run_alone(slot, now)
        else:
            self._fresh.append(slot)

    def next_end(self) -> int:
        """Time of the next end in ps, `NEVER` when nothing is at work."""
        return int(self._end.min(initial=NEVER))

    def pop_ended(self, now: int) -> list[Token]:
        """Remove the phases that end at ``now`` and return their tokens, in canonical order."""
        ended = np.flatnonzero(self._end == now)
        if len(ended) > 1:
            ended = ended[np.argsort(self._row[ended], kind="stable")]
        tokens = []
        for slot in ended.tolist():
            row = int(self._row[slot])
            self._users[self._classes(row)] -= 1
            self._end[slot], self._row[slot] = NEVER, -1
            if self._most_users(row) > 0:
                self._touched.append(row)
            self._free.append(slot)
            token = self._tokens[slot]
            if token is not None:
                tokens.append(token)
        return tokens

    @property
    def needs_solve(self) -> bool:
        """Whether something started or ended since the last `solve` whose resources others use."""
        return bool(self._touched or self._fresh)

    def solve(self, now: int) -> None:
        """Give every phase its speed from ``now`` on."""
        fresh, self._fresh = self._fresh, []
        touched, self._touched = self._touched, []
        touched += self._rows_with_other_capacity(now)
        for slot in fresh:
            row = int(self._row[slot])
            if self._is_alone(row):
                self._run_alone(slot, now)
            else:
                touched.append(row)
        self._share([row for row in dict.fromkeys(touched) if self._most_users(row) > 0], now)

    def next_change(self, now: int) -> int:
        """Time of the next change of capacities while something is at work, ps; `NEVER` without one."""
        return NEVER if len(self._free) == len(self._tokens) else self._capacities.next_change(now)

    def _rows_with_other_capacity(self, now: int) -> list[int]:
        """Take over the capacities of ``now``; rows at work whose speeds have changed."""
        state = self._capacities.state(now)
        if state == self._state:
            return []
        before, self._state, self._left = self._left, state, self._capacities.left(state)
        rows = [row for row in np.unique(self._row).tolist() if row >= 0]
        return [row for row in rows if not np.array_equal(before[self._classes(row)], self._left[self._classes(row)])]

    def _most_users(self, row: int) -> int:
        """Number of phases at work on the busiest resource of ``row``."""
        return int(self._users[self._classes(row)].max())

    def _is_alone(self, row: int) -> bool:
        """Whether one phase at work uses the resources of ``row``, and no other job."""
        return self._most_users(row) == 1 and bool(self._left[self._classes(row)].min() == 1.0)

    def _run_alone(self, slot: int, now: int) -> None:
        shift = int(self._shift[slot])
        self._rate[slot] = 1 << shift
        self._end[slot] = now - (-int(self._remaining[slot]) >> shift)

    def _share(self, seeds: list[int], now: int) -> None:
        if not seeds:
            return
        slots = self._component(seeds)
        if len(slots) == 0:
            return
        rates = self._rates(slots, now)
        changed = rates != self._rate[slots]
        slots, rates = slots[changed], rates[changed]
        done = self._rate[slots] * (now - self._since[slots])
        remaining = self._remaining[slots] - done
        self._remaining[slots], self._rate[slots], self._since[slots] = remaining, rates, now
        self._end[slots] = now - (-remaining // rates)

    def _rates(self, slots: IntArray, now: int) -> IntArray:
        rows = self._row[slots]
        key = (self._state, rows.tobytes(), self._shift[slots].tobytes()) if len(rows) <= _MEMO_SIZE else None
        rates = self._memo.get(key) if key else None
        if rates is None or self._observer:
            counts, classes, usage = self._table.gather(rows)
            speeds = self._sharing(counts, classes, usage / self._left[classes])
            rates = integer_speeds(speeds, self._shift[slots])
            if self._observer:
                self._observer(now, rows.tolist(), speeds.tolist())
            if key:
                self._memo[key] = rates
        return rates

    def _component(self, seeds: list[int]) -> IntArray:
        """Slots at work that are connected with the resources of the rows ``seeds``, in canonical order."""
        slots = np.flatnonzero(self._row >= 0)
        slots = slots[np.argsort(self._row[slots], kind="stable")]
        if len(slots) < 2:
            return slots
        rows = self._row[slots]
        if len(slots) > _MEMO_SIZE:
            return slots[self._connection(rows, seeds)]
        key = (self._set_of[rows].tobytes(), frozenset(self._set_of[seeds].tolist()))
        inside = self._connected.get(key)
        if inside is None:
            inside = self._connected[key] = self._connection(rows, seeds)
        return slots[inside]

    def _connection(self, rows: IntArray, seeds: list[int]) -> NDArray[np.bool_]:
        """Whether each row is connected with the resources of the rows ``seeds``."""
        counts, classes, _ = self._table.gather(rows)
        begins = np.cumsum(counts) - counts
        reached = np.zeros(self._table.class_count, dtype=np.bool_)
        for row in seeds:
            reached[self._classes(row)] = True
        size = -1
        while True:
            inside: NDArray[np.bool_] = np.logical_or.reduceat(reached[classes], begins)
            if int(inside.sum()) == size:
                return inside
            size = int(inside.sum())
            reached[classes[np.repeat(inside, counts)]] = True

    def _classes(self, row: int) -> IntArray:
        return self._classes_of[row]

    def _slot(self) -> int:
        if not self._free:
            self._grow(max(16, len(self._tokens)))
        return self._free.pop()

    def _grow(self, more: int) -> None:
        size = len(self._tokens)
        self._free = list(range(size + more - 1, size - 1, -1))
        self._tokens += [None] * more
        zeros = np.zeros(more, dtype=np.int64)
        self._row = np.concatenate([self._row, zeros - 1])
        self._end = np.concatenate([self._end, zeros + NEVER])
        self._shift = np.concatenate([self._shift, zeros])
        self._remaining = np.concatenate([self._remaining, zeros])
        self._rate = np.concatenate([self._rate, zeros])
        self._since = np.concatenate([self._since, zeros])
