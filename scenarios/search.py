"""Best-first search: choices in the order of their least times, each simulated, until no choice can be faster.

The search simulates a choice that fits into the memory of every rank. A choice that does not fit may come again with
less memory. The search ends when the least time of the next choice exceeds the best simulated time: no remaining choice
can be faster.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush
from typing import Generic, Protocol, TypeVar

import numpy as np

MOST_SIMULATED, LEAST_SIMULATED, SIMULATED_RANKS = 128, 32, 8192
"""Limit of simulated choices: a total number of ranks, within a smallest and a largest number of choices. A choice
takes 50 ms on 8 ranks, and one to four seconds on 256 ranks (``llama3_70b_3d_256`` on a 2.5 GHz core)."""


def most_simulated(world_size: int) -> int:
    """Largest number of simulated choices."""
    return max(LEAST_SIMULATED, min(MOST_SIMULATED, SIMULATED_RANKS // world_size))


class Looked(Protocol):
    """A choice with its memory."""

    @property
    def fits(self) -> bool:
        """Whether every rank has room."""
        ...

    @property
    def iteration_time_s(self) -> float | None:
        """Iteration time of a run, seconds; None: the choice was not simulated, or its run was stopped."""
        ...


ChoiceT = TypeVar("ChoiceT")
LookedT = TypeVar("LookedT", bound=Looked)
LookedT_co = TypeVar("LookedT_co", bound=Looked, covariant=True)


class SearchSpace(Protocol[ChoiceT, LookedT_co]):
    """Choices of a job, their least times and memory."""

    def choices(self) -> Iterable[ChoiceT]:
        """All choices."""
        ...

    def least_s(self, choice: ChoiceT) -> float:
        """Lower bound of the iteration time, seconds."""
        ...

    def looked_at(self, choice: ChoiceT, *, own: bool = False) -> LookedT_co:
        """A choice with its memory, not simulated; ``own``: whether it is the scenario's choice."""
        ...

    def again(self, choice: ChoiceT) -> ChoiceT | None:
        """The choice with less memory; None: no such choice exists."""
        ...


@dataclass(slots=True)
class BestFirst(Generic[ChoiceT, LookedT]):
    """Search among the choices of a space, and its results.

    Attributes:
        own: choice of the scenario; it comes first.
        simulated: simulated choices.
        refused: choices that do not fit even with their least memory, and choices whose runs are refused.
        slower: number of choices that cannot be faster than the fastest choice.
        left: number of choices that could be faster, and were not simulated.
        count: number of all choices: the space, the scenario's own, and `add`; the sum of the four above.
    """

    space: SearchSpace[ChoiceT, LookedT]
    own: ChoiceT
    simulated: list[LookedT] = field(default_factory=list)
    refused: list[LookedT] = field(default_factory=list)
    slower: int = 0
    left: int = 0
    count: int = 0
    _queue: list[tuple[float, int, ChoiceT]] = field(default_factory=list)

    @property
    def best_s(self) -> float:
        """Shortest iteration time so far."""
        return min((found.iteration_time_s or np.inf for found in self.simulated), default=np.inf)

    @property
    def bounded(self) -> list[tuple[float, ChoiceT]]:
        """Remaining choices with their least times, ascending."""
        return [(least_s, choice) for least_s, _, choice in sorted(self._queue, key=lambda entry: entry[:2])]

    def run(self, simulate: Callable[[LookedT], LookedT], *, most: int, further: bool) -> None:
        """Search.

        Args:
            simulate: function that adds the results of a run, or the reason why it cannot run, to a choice.
            most: largest number of simulated choices.
            further: whether to go on, up to ``most``, with choices that cannot be the fastest.
        """
        self._take(*self._start(), simulate)
        while self._queue and len(self.simulated) < most and (further or self._queue[0][0] < self.best_s):
            self._take(*self._next(), simulate)
        self.slower = sum(least_s >= self.best_s for least_s, *_ in self._queue)
        self.left = len(self._queue) - self.slower

    def in_order(self) -> Iterator[LookedT]:
        """Choices other than the scenario's own, by their least times; a choice that does not fit may come again."""
        self._start()
        while self._queue:
            yield self._next()[0]

    def add(self, choice: ChoiceT, simulate: Callable[[LookedT], LookedT]) -> None:
        """Add a further choice, and simulate it if it fits."""
        self.count += 1
        self._take(self.space.looked_at(choice), False, simulate)

    def _start(self) -> tuple[LookedT, bool]:
        """Queue all other choices; returns the scenario's own choice, and whether it comes again."""
        space = self.space
        others = [choice for choice in space.choices() if choice != self.own]
        self._queue = [(space.least_s(choice), number, choice) for number, choice in enumerate(others)]
        heapify(self._queue)
        self.count = len(others) + 1
        found = space.looked_at(self.own, own=True)
        return found, self._comes_again(found, self.own, len(others))

    def _next(self) -> tuple[LookedT, bool]:
        """Take the choice with the shortest least time from the queue; returns it, and whether it comes again."""
        _, number, choice = heappop(self._queue)
        found = self.space.looked_at(choice)
        return found, self._comes_again(found, choice, number)

    def _comes_again(self, found: LookedT, choice: ChoiceT, number: int) -> bool:
        """Whether a choice that does not fit is queued with less memory, or is then the scenario's own."""
        again = None if found.fits else self.space.again(choice)
        if again is None:
            return False
        if again == self.own:
            self.count -= 1
        else:
            heappush(self._queue, (self.space.least_s(again), number, again))
        return True

    def _take(self, found: LookedT, again: bool, simulate: Callable[[LookedT], LookedT]) -> None:
        """Simulate a choice, or record it as refused if it cannot run, or does not fit and does not come again."""
        if found.fits:
            found = simulate(found)
            (self.simulated if found.fits else self.refused).append(found)
        elif not again:
            self.refused.append(found)
