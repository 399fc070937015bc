"""Programs of iterations that consist of several passes, each over a micro-batch.

Generators record one pass after the other and count the waits of a task in passes; which task of which iteration that
is follows here. Tasks of passes after the first have the number of the pass in their names.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from simulator.program import IntArray, Program, ProgramBuilder, Stream
from simulator.work import Work


class PassBuilder:
    """Builds the program of an iteration pass by pass."""

    def __init__(self, ranks: IntArray, streams: Sequence[Stream | str], passes: int, name: str = "iteration") -> None:
        """Start an iteration of ``passes`` passes; the first one is open. ``name`` is the program's."""
        self._builder = ProgramBuilder(name, ranks, streams)
        self._passes = passes
        self._pass = 0
        self._names: list[str] = []
        self._numbers: list[dict[str, int]] = [{}]
        self._links: list[tuple[int, int, str, int]] = []

    @property
    def first_pass(self) -> bool:
        """Whether the open pass is the first of the iteration."""
        return self._pass == 0

    @property
    def last_pass(self) -> bool:
        """Whether the open pass is the last of the iteration."""
        return self._pass == self._passes - 1

    def next_pass(self) -> None:
        """Close a pass and open the next one."""
        self._pass += 1
        self._numbers.append({})

    def task(self, name: str, stream: str, work: Work, *, after: Iterable[int] = (), section: str) -> int:
        """Append a task of the open pass; returns its number in the program."""
        shown = name if self._pass == 0 else f"{name}_pass_{self._pass}"
        task = self._builder.task(shown, stream, work, after=after, section=section)
        self._names.append(name)
        self._numbers[-1][name] = task
        return task

    def depend(self, task: int, on: int | str, *, lag: int = 0) -> None:
        """Let ``task``, of the open pass, wait for a task of ``lag`` passes before.

        ``on`` is that task as the open pass has it, or its name where it is recorded later or not in every pass; parts
        that a pass lacks are not waited for.

        Raises:
            ValueError: the other task would be of a later pass.
        """
        if lag < 0:
            raise ValueError(f"{self._names[task]} waits for {on} of a later pass")
        name = on if isinstance(on, str) else self._names[on]
        self._links.append((task, self._pass, name, lag))

    def build(self) -> Program:
        """The program of the iteration.

        Raises:
            KeyError: a task waits for one that no pass has.
        """
        for task, number, name, lag in self._links:
            if not any(name in numbers for numbers in self._numbers):
                raise KeyError(name)
            iterations, there = divmod(number - lag, self._passes)
            if name in self._numbers[there]:
                self._builder.depend(task, self._numbers[there][name], lag=-iterations)
        return self._builder.build()
