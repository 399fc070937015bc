"""Units of programs that run several times with other durations."""

from __future__ import annotations

from collections.abc import Hashable

from simulator.engine.units import Units, compile_units
from simulator.lowered import LoweredGroup


class UnitsMemory:
    """Units compiled so far.

    Units follow from the order of tasks, and from which of them are activities, controlled or private; durations and
    resources do not count. Groups that share the arrays of their dependencies have the same order.
    """

    def __init__(self) -> None:
        """Nothing is known."""
        self._known: dict[Hashable, tuple[LoweredGroup, Units]] = {}

    def units(self, number: int, group: LoweredGroup, private: frozenset[int]) -> Units:
        """The units of group ``number`` of a program; ``private`` as for `compile_units`."""
        key = (number, private, group.activity_tasks.tobytes())
        known = self._known.get(key)
        if known is not None and _same_order(known[0], group):
            return known[1]
        units = compile_units(group, private)
        self._known[key] = (group, units)
        return units


def _same_order(one: LoweredGroup, other: LoweredGroup) -> bool:
    names = ("dep_ptr", "dep_task", "dep_lag", "stream_of", "streams")
    return all(getattr(one, name) is getattr(other, name) for name in names)
