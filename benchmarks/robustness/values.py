"""Wrong values in place of right ones, and the interface of everything that mutates a file."""

from __future__ import annotations

import json
import math
import random
import re
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

Place: TypeAlias = tuple[int | str, ...]
"""Place of a change in a content, such as indices of nested containers or row and column."""
QUANTITY = re.compile(r"^([-+]?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?)(\s*[A-Za-z%/]*)$")
"""A number with or without a unit."""
LONG = 10_000
"""Characters of a long text."""
MOST_SHOWN = 60
"""Characters of a value that a description shows."""


@dataclass(frozen=True, slots=True)
class Change:
    """A single mutation: what is done, where, and with which value."""

    op: str
    place: Place = ()
    value: Any = None

    def __str__(self) -> str:
        """Description such as ``replace 3.1 by nan``."""
        where = ".".join(map(str, self.place))
        value = "" if self.value is None and self.op != "replace" else f" {self.value!r}"
        return f"{self.op} {where}{value if len(value) <= MOST_SHOWN else value[:MOST_SHOWN] + '...'}".strip()


class Form(Protocol):
    """A form of content, such as a tree or a table: read, changed, written.

    A change applies to any content of the form: where its place no longer exists, the content stays as it is. Thus
    mutations can be left out one by one.
    """

    def read(self, data: bytes) -> Any:
        """Content of valid bytes."""

    def draw(self, content: Any, random: random.Random) -> Change:
        """A change that the content allows."""

    def change(self, content: Any, change: Change) -> Any:
        """The changed content; the given one may be reused."""

    def write(self, content: Any) -> bytes:
        """Bytes of a content."""


def wrong_value(value: object, draw: random.Random) -> Any:
    """Value of another kind, size or sign than a valid one; numbers in a text keep their unit, or lose it."""
    if isinstance(value, str) and (found := QUANTITY.match(value)):
        number, unit = found.groups()
        wrong = draw.choice([*NUMBERS, f"-{number}", "0"])
        return draw.choice([f"{wrong}{unit}", f"{wrong}{unit}", f"{number} parsec", f"{wrong}", float(number)])
    if isinstance(value, bool) or not isinstance(value, int | float):
        return draw.choice([*ANYTHING, [value], {"value": value}, str(value)])
    same_kind: list[Any] = [-value, value * 10**6, value / 3, 0, 1e18, 2**31, 2**63, 10**30, *_FLOATS]
    return draw.choice([*same_kind, *same_kind, *ANYTHING, str(value), [value], {"value": value}])


_FLOATS = (math.nan, math.inf, -math.inf, 1e308, 1e-300, -1, 0.5)
NUMBERS = ("nan", "inf", "-inf", "1e308", "1e999", "1e-300", "-1", "0", "0.5", "1e18", "9223372036854775808", "1e9")
"""Wrong numbers as text."""
TEXTS = ("", "x", "é\u2028日本", "[bold]a[/b]", "\x1b[31mred", "a\nb", "null", "../..", "%s{}", "0x10")
"""Wrong texts; ``LONG`` letters come to these."""
ANYTHING: tuple[Any, ...] = (None, True, -1, 0, 1e308, math.nan, [], {}, *TEXTS, "a" * LONG, [[]], [None], {"": None})
"""Values of any kind."""


def as_text(value: object) -> str:
    """A value as the text of a cell, a line or an argument."""
    if isinstance(value, str):
        return value
    return "" if value is None else str(value) if isinstance(value, int | float) else json.dumps(value)
