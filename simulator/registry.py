"""Registries: models chosen by name in YAML, each with a description, extendable by other distributions."""

from __future__ import annotations

from importlib.metadata import entry_points
from typing import Generic, TypeVar

from inputs.errors import InputError, nearest_name

T = TypeVar("T")


class Registry(Generic[T]):
    """Named things of one kind; entry points of ``group`` are added when a name is first looked up.

    An entry point ``name = "module:object"`` adds that object under its name, or several when it is a mapping.
    """

    def __init__(self, kind: str, group: str) -> None:
        """Start an empty registry of ``kind`` (for messages) fed by the entry-point ``group``."""
        self._kind, self._group = kind, group
        self._items: dict[str, T] = {}
        self._descriptions: dict[str, str] = {}
        self._entry_points_read = False

    def add(self, name: str, item: T, description: str) -> T:
        """Register ``item``; returns it.

        Raises:
            ValueError: the name is taken.
        """
        if name in self._items:
            raise ValueError(f"{self._kind} {name!r} is registered twice")
        self._items[name], self._descriptions[name] = item, description
        return item

    def names(self) -> list[str]:
        """All names, sorted."""
        self._read_entry_points()
        return sorted(self._items)

    def items(self) -> list[tuple[str, T]]:
        """All (name, item), sorted by name."""
        return [(name, self._items[name]) for name in self.names()]

    def description(self, name: str) -> str:
        """One line about ``name``."""
        self.get(name)
        return self._descriptions[name]

    def get(self, name: str, *, key: str | None = None) -> T:
        """The item of this name.

        Raises:
            InputError: there is none; the message has the nearest name and ``key``, where the name was written.
        """
        if name not in self.names():
            raise InputError(
                f"no such {self._kind}",
                key=key,
                given=name,
                expected=f"one of {', '.join(self.names())}",
                nearest=nearest_name(name, self._items),
            )
        return self._items[name]

    def _read_entry_points(self) -> None:
        if self._entry_points_read:
            return
        self._entry_points_read = True
        for point in entry_points(group=self._group):
            item = point.load()
            self.add(point.name, item, getattr(item, "description", "") or f"from {point.value}")
