"""Patterns of names: ``*`` is any text, ``?`` any character, ``[ab]`` one of several (`fnmatch`)."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from fnmatch import translate


@dataclass(frozen=True, slots=True)
class Pattern:
    """A pattern that whole names fit."""

    text: str
    _compiled: re.Pattern[str] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Compile the pattern with a group for each star."""
        parts = [translate(part).removeprefix("(?s:").removesuffix(r")\Z") for part in self.text.split("*")]
        object.__setattr__(self, "_compiled", re.compile("(.*?)".join(parts), re.DOTALL))

    @property
    def stars(self) -> int:
        """Number of its stars."""
        return self._compiled.groups

    def fits(self, name: str) -> bool:
        """Whether the whole name fits."""
        return self._compiled.fullmatch(name) is not None

    def texts(self, name: str) -> tuple[str, ...] | None:
        """Text of a name that stands for each star; None where the name does not fit."""
        found = self._compiled.fullmatch(name)
        return None if found is None else found.groups()
