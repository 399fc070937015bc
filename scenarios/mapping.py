"""Doing the same with many items, wherever that is done, and keeping what is done."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Protocol, TypeVar

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


class Keep(Protocol):
    """Keeps results, so that an interrupted piece of work goes on with those it has."""

    def __call__(self, question: str, work: Callable[[], Any], /) -> Any:
        """The result of ``work`` as JSON reads it back, or the kept one of the same question.

        Args:
            question: text that is the same where the results are: all that they depend on.
            work: finds a result that JSON can hold.
        """
        ...


def keep_nothing(question: str, work: Callable[[], Any], /) -> Any:  # noqa: ARG001 - a `Keep`
    """A `Keep` without memory."""
    return work()
