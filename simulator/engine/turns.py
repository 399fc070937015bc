"""Turns on a resource: one of several owners works, for a slice of time, then the next.

Operating systems divide a core so: a thread keeps it until it has nothing to do or, when others want it too, until its
slice is over. That differs from dividing its speed: what is shorter than a slice is not slowed down at all, it waits.
"""

from __future__ import annotations

from collections.abc import Collection

from simulator.engine.capacity import NEVER


class Turn:
    """Whose turn it is on one resource.

    Who comes queues up at the end, those who come at the same time in the order of their numbers. A slice goes on when
    an owner begins something else at the instant at which it ended something. An owner that nobody waits for begins a
    slice after the other; who comes then waits for the end of the present one.
    """

    __slots__ = ("_queue", "_since", "_slice_ps")

    def __init__(self, slice_ps: int) -> None:
        """Nobody wants it yet."""
        self._slice_ps, self._since = slice_ps, 0
        self._queue: list[int] = []

    def pass_on(self, now: int, present: Collection[int]) -> int | None:
        """Whose turn it is from ``now`` ps on.

        Args:
            now: not before that of the last call.
            present: numbers of owners that have something to do.
        """
        before, waiting = self._queue[:1], [owner for owner in self._queue[1:] if owner in present]
        contended = len(self._queue) > 1
        waiting += sorted(set(present).difference(self._queue))
        spent = now - self._since
        if not before or before[0] not in present:
            self._queue, self._since = waiting, now
        elif contended and spent >= self._slice_ps:
            self._queue, self._since = waiting + before, now
        else:
            self._queue, self._since = before + waiting, now - spent % self._slice_ps
        return self._queue[0] if self._queue else None

    @property
    def until(self) -> int:
        """When the slice is over that somebody waits for, ps; `NEVER` where nobody does."""
        return self._since + self._slice_ps if len(self._queue) > 1 else NEVER
