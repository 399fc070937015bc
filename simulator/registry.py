"""Registries: models chosen by name in YAML, each with a description, extendable by other distributions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib import import_module
from importlib.metadata import entry_points
from typing import Generic, TypeVar

from inputs.errors import InputError, nearest_name

T = TypeVar("T")


class Registry(Generic[T]):
    """Named entries of one kind; modules that register more and entry points are read when a name is first looked up.

    An entry point ``name = "module:object"`` of the group adds that object under its name, described by its
    ``description`` attribute or the first line of its docstring.
    """

    def __init__(
        self,
        kind: str,
        group: str,
        *,
        names_of: Callable[[str, T], Iterable[str]] = lambda name, _: (name,),
        modules: Sequence[str] = (),
        module_of: Mapping[str, str] | None = None,
    ) -> None:
        """Start an empty registry.

        Args:
            kind: noun for the entries in messages.
            group: entry-point group.
            names_of: the names under which an entry point's object is known, from (entry-point name, object).
            modules: modules that register entries when they are imported.
            module_of: modules that register one entry each, by its name; a name that is looked up loads its own alone.
        """
        self._kind, self._group, self._names_of = kind, group, names_of
        self._module_of = module_of or {}
        self._modules = (*modules, *self._module_of.values())
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

    def __contains__(self, name: str) -> bool:
        """Whether there is an item of this name."""
        if name in self._module_of:
            import_module(self._module_of[name])
        if name not in self._items:
            self._read_entry_points()
        return name in self._items

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
        if name not in self:
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
        for module in self._modules:
            import_module(module)
        for point in entry_points(group=self._group):
            item: T = point.load()
            description = getattr(item, "description", None) or (item.__doc__ or point.value).splitlines()[0]
            for name in self._names_of(point.name, item):
                self.add(name, item, description)
