"""Units and tables of usage of programs that run several times with other times."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import numpy as np

from simulator.engine.units import Units, compile_units
from simulator.engine.usage import UsageTable, compiled_phases, usage_of
from simulator.equality import same
from simulator.lowered import Background, LoweredGroup, LoweredProgram, Phase

MOST_TABLES = 4
"""Number of tables of usage that are remembered: some MB each for thousands of ranks."""


class ProgramMemory:
    """Units and tables of usage compiled so far.

    Units follow from the order of tasks, and from which of them are activities, controlled or private; durations and
    resources do not count. Groups that share the arrays of their dependencies have the same order. A table follows
    from the shares of resources that phases and other jobs take; times do not count.
    """

    def __init__(self) -> None:
        """Nothing is known."""
        self._units: dict[Hashable, tuple[LoweredGroup, Units]] = {}
        self._tables: list[tuple[Sequence[Phase], tuple[Background, ...], UsageTable]] = []

    def units(self, number: int, group: LoweredGroup, private: frozenset[int]) -> Units:
        """The units of group ``number`` of a program; ``private`` as for `compile_units`."""
        key = (number, private, group.activity_tasks.tobytes())
        known = self._units.get(key)
        if known is not None and _same_order(known[0], group):
            return known[1]
        units = compile_units(group, private)
        self._units[key] = (group, units)
        return units

    def usage(self, program: LoweredProgram) -> UsageTable:
        """The table of usage of a program."""
        compiled, phases = compiled_phases(program.activities)
        for known, background, table in self._tables:
            if same(background, program.background) and _same_shares(known, phases, program, table):
                return table.of_phases(compiled)
        table = usage_of(compiled, phases, program)
        self._tables = [(phases, program.background, table), *self._tables[: MOST_TABLES - 1]]
        return table


def _same_order(one: LoweredGroup, other: LoweredGroup) -> bool:
    names = ("dep_ptr", "dep_task", "dep_lag", "stream_of", "streams")
    return all(getattr(one, name) is getattr(other, name) for name in names)


def _same_shares(one: Sequence[Phase], other: Sequence[Phase], program: LoweredProgram, table: UsageTable) -> bool:
    """Whether phases take the same shares of the same resources, one by one, out of as many resources."""
    return (
        len(one) == len(other)
        and len(table.class_of) == program.resource_count
        and all(
            (a.resources is b.resources or np.array_equal(a.resources, b.resources))
            and (a.usage is b.usage or np.array_equal(a.usage, b.usage))
            for a, b in zip(one, other, strict=True)
        )
    )
