"""Patterns of names: ``*`` is any text, ``?`` any character, ``[a-c]`` a character of a range, ``[!a]`` any other."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from inputs.errors import InputError

_PART = re.compile(r"\*|\?|\[!?[^\]]+\]|.", re.DOTALL)
"""A star, a question mark, characters in brackets, or any character."""


@dataclass(frozen=True, slots=True)
class NamePattern:
    """A pattern for whole names."""

    text: str
    _compiled: re.Pattern[str] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Compile the pattern with a group for each star.

        Raises:
            InputError: a range in brackets runs backwards.
        """
        try:
            compiled = re.compile("".join(map(_expression, _PART.findall(self.text))), re.DOTALL)
        except re.error:
            expected = "ranges in ascending order, such as [0-3]"
            raise InputError("not a pattern of names", given=self.text, expected=expected) from None
        object.__setattr__(self, "_compiled", compiled)

    @property
    def stars(self) -> int:
        """Number of stars."""
        return self._compiled.groups

    def fits(self, name: str) -> bool:
        """Whether the whole name matches."""
        return self._compiled.fullmatch(name) is not None

    def texts(self, name: str) -> tuple[str, ...] | None:
        """Text of a name for each star; None if the name does not match."""
        found = self._compiled.fullmatch(name)
        return None if found is None else found.groups()


def _expression(part: str) -> str:
    """The regular expression of a part of a pattern."""
    if part in {"*", "?"}:
        return "(.*?)" if part == "*" else "."
    if len(part) > 1:
        inside = re.sub(r"([\\\[&~|^])", r"\\\1", part[1:-1].removeprefix("!"))
        return f"[{'^' if part[1] == '!' else ''}{inside}]"
    return re.escape(part)
