"""Process groups of a captured rank, and families of groups that divide the ranks among themselves.

A rank knows the groups that it creates, also without being a member. Groups of one size that follow each other and
share no rank are one family, such as the groups of a mesh dimension; it becomes a communicator, its groups instances.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

WORLD = "world"
"""Communicator of all ranks."""

Members = tuple[int, ...]


@dataclass(slots=True)
class GroupFamily:
    """Groups that share no rank.

    Attributes:
        groups: members of each, in the order of the process group.
    """

    name: str
    groups: list[Members] = field(default_factory=list)
    known: set[int] = field(default_factory=set)

    def takes(self, members: Members) -> bool:
        """Whether a group can be one of the family."""
        alike = not self.groups or len(self.groups[0]) == len(members)
        return alike and self.known.isdisjoint(members)


class GroupBook:
    """Groups that a rank creates."""

    def __init__(self, world_size: int) -> None:
        """Start with the group of all ranks."""
        self.world_size = world_size
        everyone = tuple(range(world_size))
        self.families = [GroupFamily(WORLD, [everyone], set(everyone))]
        self._family_of: dict[str, GroupFamily] = {}
        self._members: dict[str, Members] = {}

    def created(self, name: str | None, members: Sequence[int], description: str | None) -> None:
        """Note a group.

        Args:
            name: the process group's name; None where the rank is no member.
            description: the process group's description, such as ``mesh_tp``.
        """
        ranks = tuple(members)
        last = self.families[-1]
        label = _label(description)
        if last.name == WORLD or not last.takes(ranks) or (label and not last.name.startswith(label)):
            last = GroupFamily(self._unique(label or "group"))
            self.families.append(last)
        last.groups.append(ranks)
        last.known |= set(ranks)
        if name is not None:
            self._family_of[name], self._members[name] = last, ranks

    def communicator(self, name: str) -> str:
        """Communicator of a process group."""
        return self._family_of[name].name if name in self._family_of else WORLD

    def members(self, name: str) -> Members:
        """Ranks of a process group, in its order."""
        return self._members.get(name, self.families[0].groups[0])

    def communicators(self) -> Iterator[tuple[str, tuple[Members, ...]]]:
        """Name and groups of each family."""
        for family in self.families:
            yield family.name, tuple(family.groups)

    def _unique(self, label: str) -> str:
        names = {family.name for family in self.families}
        found = label if label != "group" and label not in names else f"{label}_{len(self.families)}"
        while found in names:
            found += "_"
        return found


def _label(description: str | None) -> str:
    """A name from the description of a group; empty where it has none."""
    if not description or description in ("undefined", "default_pg"):
        return ""
    return description.removeprefix("mesh_")
