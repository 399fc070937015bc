"""Sets of ranks within a group: a slice where they are evenly spaced (all ranks, a node, a rail), else numbers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeAlias

import numpy as np

from simulator.program import IntArray

Members: TypeAlias = slice | IntArray


def run_begins(ordered: IntArray) -> IntArray:
    """First index of each run of equal numbers; ``ordered`` has equal numbers beside each other."""
    new = np.ones(len(ordered), dtype=np.bool_)
    np.not_equal(ordered[1:], ordered[:-1], out=new[1:])
    return np.flatnonzero(new)


def run_lengths(begins: IntArray, count: int) -> IntArray:
    """Lengths of the runs that begin there; the last one ends at ``count``."""
    lengths = np.empty_like(begins)
    np.subtract(begins[1:], begins[:-1], out=lengths[:-1])
    lengths[-1:] = count - begins[-1:]
    return lengths


def size_of(members: Members) -> int:
    """Number of members."""
    if isinstance(members, slice):
        return len(range(members.start, members.stop, members.step))
    return len(members)


def compact(numbers: IntArray) -> Members:
    """``numbers`` (ascending) as a slice if they are evenly spaced."""
    if len(numbers) == 1:
        return slice(int(numbers[0]), int(numbers[0]) + 1, 1)
    step = int(numbers[1] - numbers[0])
    if int(numbers[-1] - numbers[0]) == step * (len(numbers) - 1) and bool(np.all(np.diff(numbers) == step)):
        return slice(int(numbers[0]), int(numbers[-1]) + 1, step)
    return numbers


def join(parts: list[Members], everyone: Members) -> Members:
    """The union of disjoint sets; ``everyone`` itself when that is what it is."""
    if sum(size_of(part) for part in parts) == size_of(everyone):
        return everyone
    if len(parts) == 1:
        return parts[0]
    arrays = [np.arange(p.start, p.stop, p.step) if isinstance(p, slice) else p for p in parts]
    return np.concatenate(arrays)


def by_value(members: IntArray, values: IntArray) -> Iterator[tuple[int, IntArray]]:
    """Each distinct value, ascending, with the members that have it, in their order."""
    if len(values) and (values == values[0]).all():
        yield int(values[0]), members
        return
    for value in np.unique(values).tolist():
        yield value, members[values == value]


def pick(column: IntArray, members: Members, values: IntArray | int) -> None:
    """Write ``values`` for ``members`` into ``column``."""
    column[members] = values
