"""Doing the same with many items, wherever that is done."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Protocol, TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")


class Map(Protocol):
    """Runs a function on many items, anywhere, yielding results as they come with the position of their item."""

    def __call__(self, function: Callable[[Item], Result], items: Sequence[Item], /) -> Iterable[tuple[int, Result]]:
        """(position in ``items``, result) in any order."""
        ...


def one_after_the_other(function: Callable[[Item], Result], items: Sequence[Item], /) -> Iterator[tuple[int, Result]]:
    """A `Map` in this process."""
    for position, item in enumerate(items):
        yield position, function(item)
