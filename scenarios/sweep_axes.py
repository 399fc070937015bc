"""Keys and values of a sweep, as ``--over KEY=VALUES`` states them: one of the keys is the axis, the others make lines.

The axis is the number of nodes or ranks where it is swept, else the last key whose values are all numbers, else the
last key. Every combination of values of the other keys is a line.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from math import isfinite, prod

from inputs.errors import InputError
from inputs.keys import KeyPath, key_text, parse_key
from inputs.units import read_number, split_quantity
from scenarios.changes import SIZE
from scenarios.sweep_series import MAX_VALUES, continued

MAX_POINTS = 1024
"""Points of a sweep at most: the product of the numbers of values."""

EXPECTED = "KEY=VALUE,VALUE,..., e.g. nodes=1,2,4,...,512 or workload.framework=pytorch,neo"
_OPENING, _CLOSING, _QUOTES = "[{(", "]})", "'\""


@dataclass(frozen=True, slots=True)
class Axis:
    """A swept key.

    Attributes:
        key: dotted, as `inputs.keys.key_text` writes it.
        values: `[V]` values as ``--set`` takes them; numbers of an axis ascend.
        numbers: `[V]` the values in their common unit; None: not all are numbers.
        unit: the common unit of the numbers; empty: none.
    """

    key: str
    values: tuple[str, ...]
    numbers: tuple[float, ...] | None = None
    unit: str = ""

    @property
    def path(self) -> KeyPath:
        """Path of the key."""
        return parse_key(self.key)

    @property
    def is_size(self) -> bool:
        """Whether it is the number of nodes or ranks."""
        return self.path in SIZE

    def setting(self, place: int) -> str:
        """The value at a place as ``KEY=VALUE``."""
        return f"{self.key}={self.values[place]}"

    def cell(self, place: int) -> float | str:
        """The value at a place in a table: a number where all values are numbers without a unit."""
        if self.numbers is None or self.unit:
            return self.values[place]
        whole = all(number.is_integer() for number in self.numbers)
        return int(self.numbers[place]) if whole else self.numbers[place]

    def ascending(self) -> Axis:
        """The axis with its numbers in ascending order; as it is without numbers."""
        if self.numbers is None:
            return self
        order = sorted(range(len(self.values)), key=self.numbers.__getitem__)
        values, numbers = tuple(self.values[n] for n in order), tuple(self.numbers[n] for n in order)
        return Axis(self.key, values, numbers, self.unit)


@dataclass(frozen=True, slots=True)
class Grid:
    """All combinations of the values of some keys.

    Attributes:
        across: the swept size, or else the key on the axis of charts.
        beside: keys whose combinations are lines.
    """

    across: Axis
    beside: tuple[Axis, ...] = ()

    @property
    def axes(self) -> tuple[Axis, ...]:
        """All keys, the axis last."""
        return (*self.beside, self.across)

    @property
    def lines(self) -> list[tuple[int, ...]]:
        """Place of the value of each key beside the axis, for each line."""
        return list(product(*(range(len(axis.values)) for axis in self.beside)))

    def short(self, axis: Axis) -> str:
        """The end of a key that no other key of the sweep has: ``strategy`` of ``workload.strategy``.

        Keys of other sections have two names at least: ``precision.dense``.
        """
        path, others = axis.path, [other.path for other in self.axes if other is not axis]
        for length in range(1 if path[0] == "workload" else min(2, len(path)), len(path) + 1):
            if not isinstance(path[-length], int) and all(other[-length:] != path[-length:] for other in others):
                return key_text(path[-length:])
        return axis.key

    def line_name(self, line: Sequence[int]) -> str:
        """Name of a line: words that no other key has stand alone, other values behind the end of their key."""
        parts = []
        for axis, place in zip(self.beside, line, strict=True):
            value = axis.values[place]
            elsewhere = any(value in other.values for other in self.axes if other is not axis)
            alone = value[:1].isalpha() and value not in ("true", "false", "null") and not elsewhere
            parts.append(value if alone else f"{self.short(axis)}={value}")
        return ", ".join(parts)


def parse_grid(over: Sequence[str]) -> Grid:
    """Read the keys and values of a sweep.

    Args:
        over: ``KEY=VALUES`` each, values separated by commas; ``...`` between numbers continues them.

    Raises:
        InputError: an entry is no such list, a key or value stands twice, or there are too many values or points.
    """
    axes = [_axis(text) for text in over]
    if not axes:
        raise InputError("nothing to sweep over", file="--over", expected=EXPECTED)
    for place, axis in enumerate(axes):
        if any(axis.path == other.path for other in axes[:place]):
            raise InputError(
                "the key is swept twice",
                file="--over",
                key=axis.key,
                given=over[place],
                expected="one list for each key",
            )
    sizes = [axis for axis in axes if axis.is_size]
    if len(sizes) > 1:
        given = " and ".join(axis.key for axis in sizes)
        raise InputError("two keys of the size", file="--over", given=given, expected="one of nodes and world_size")
    points = prod(len(axis.values) for axis in axes)
    if points > MAX_POINTS:
        raise InputError("too many points", file="--over", given=points, expected=f"at most {MAX_POINTS:,}")
    across = (sizes or [axis for axis in axes if axis.numbers] or axes)[-1]
    return Grid(across.ascending(), tuple(axis for axis in axes if axis is not across))


def _axis(text: str) -> Axis:
    """The key and values of one entry."""
    name, equals, listed = text.partition("=")
    if not equals or not name.strip():
        raise InputError("not a key to sweep over", file="--over", given=text, expected=EXPECTED)
    try:
        key = key_text(parse_key(name.strip()))
    except InputError as error:
        raise InputError(error.message, file="--over", given=name, expected=error.expected) from None
    parts = _split(listed)
    if not all(parts):
        message = "an empty list" if parts == [""] else "an empty value"
        raise InputError(message, file="--over", key=key, given=text, expected=EXPECTED)
    values = continued(parts, key)
    if len(values) > MAX_VALUES:
        raise InputError("too many values", file="--over", key=key, given=len(values), expected=f"at most {MAX_VALUES}")
    read = [split_quantity(value) for value in values]
    numbers, units = tuple(read_number(number or "nan") for number, _ in read), {unit for _, unit in read}
    numeric = len(units) == 1 and all(map(isfinite, numbers))
    axis = Axis(key, tuple(values), numbers, units.pop()) if numeric else Axis(key, tuple(values))
    distinct = axis.numbers or axis.values
    twice = next((value for place, value in enumerate(axis.values) if distinct[place] in distinct[:place]), None)
    if twice is not None:
        raise InputError("a value stands twice", file="--over", key=key, given=twice, expected="each value once")
    if axis.is_size:
        _check_sizes(axis, text)
    return axis


def _check_sizes(axis: Axis, text: str) -> None:
    """Raise `InputError` unless the values are whole numbers from 1 on that ascend."""
    whole = all(value.isascii() and value.isdecimal() for value in axis.values)
    if not whole or list(axis.numbers or ()) != sorted(axis.numbers or ()) or "0" in axis.values:
        expected = f"whole numbers, e.g. {axis.key}=1,2,4,...,512"
        raise InputError("not a list of ascending sizes", file="--over", given=text, expected=expected)


def _split(text: str) -> list[str]:
    """Parts between the commas that are neither in brackets nor in quotes."""
    parts, depth, quote = [""], 0, ""
    for character in text:
        if quote:
            quote = "" if character == quote else quote
        elif character in _QUOTES:
            quote = character
        else:
            depth += (character in _OPENING) - (character in _CLOSING)
        if character == "," and depth <= 0 and not quote:
            parts.append("")
        else:
            parts[-1] += character
    return [part.strip() for part in parts]
