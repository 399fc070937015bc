"""The clock: SimPy events with three priorities within an instant.

At one instant first everything happens that was due (``NORMAL``), including what that makes due at the same instant;
then controllers decide (``CONTROL``); when nothing of either is left, shared resources are divided again (``SOLVE``).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

import simpy
from simpy.events import EventPriority

NORMAL = EventPriority(1)
CONTROL = EventPriority(2)
SOLVE = EventPriority(3)

Item = TypeVar("Item")


class Alarm(simpy.Event):
    """An event that happens by itself, ``delay`` ps from now, at the given priority, and then calls ``action``."""

    def __init__(
        self, env: simpy.Environment, delay: int, action: Callable[[], None], priority: EventPriority = NORMAL
    ) -> None:
        super().__init__(env)
        self._ok, self._value = True, None
        self.callbacks = [lambda _: action()]
        env.schedule(self, priority, delay)


class Agenda(Generic[Item]):
    """Items due at a time: one SimPy event per distinct time, however many items."""

    def __init__(self, env: simpy.Environment, act: Callable[[list[Item]], None]) -> None:
        """Call ``act`` with all items of an instant when their time has come."""
        self._env, self._act = env, act
        self._due: dict[int, list[Item]] = {}

    def add(self, time: int, item: Item) -> None:
        """Put ``item`` on the agenda for ``time`` (ps).

        Raises:
            RuntimeError: ``time`` lies in the past: the engine looked ahead too far, a fault of ours.
        """
        items = self._due.get(time)
        if items is not None:
            items.append(item)
            return
        delay = time - int(self._env.now)
        if delay < 0:
            raise RuntimeError(f"event at {time} ps registered at {self._env.now} ps: in the past")
        self._due[time] = [item]
        Alarm(self._env, delay, lambda: self._act(self._due.pop(time)))
