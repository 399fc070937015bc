"""Series of numbers with an ellipsis: ``1,2,4,...,64`` and ``8,16,24,...,64``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from decimal import Decimal
from fractions import Fraction
from itertools import pairwise

from inputs.errors import InputError
from inputs.units import read_number, split_quantity

ELLIPSIS = "..."
MAX_VALUES = 64
"""Values of a key at most."""

_EXPECTED = "numbers in equal steps or ratios and the last one, e.g. 1,2,4,...,64 or 8,16,24,...,64"
_SHOWN = 12
"""Significant digits of a value of a series that no decimal number equals."""
_SMALLEST, _LARGEST = 1e-100, 1e100
"""Numbers of a series are between these, or 0: exact arithmetic on others takes long."""


def continued(parts: Sequence[str], key: str) -> list[str]:
    """The values of a list, with those that an ellipsis stands for.

    Three numbers or more are continued by their equal steps, else by their equal ratios. Two numbers have both: the
    ratio goes first if it is a whole number, and equal steps where it does not lead to the last number.

    Args:
        parts: texts between the commas.
        key: for messages.

    Raises:
        InputError: the ellipsis is not before the last number, or the numbers before it do not lead to that.
    """
    if ELLIPSIS not in parts:
        return list(parts)
    read = [_quantity(part) for part in parts if part != ELLIPSIS]
    known = [found for found in read if found is not None]
    units = {unit for _, unit in known}
    in_place = parts.index(ELLIPSIS) == len(parts) - 2 and parts.count(ELLIPSIS) == 1 and len(parts) > 3
    if not in_place or len(known) < len(read) or len(units) > 1:
        raise InputError("not a series", file="--over", key=key, given=",".join(parts), expected=_EXPECTED)
    *numbers, last = [number for number, _ in known]
    (unit,) = units
    between = [_text(number, unit) for number in _between(numbers, last, key, ",".join(parts))]
    return [*parts[:-2], *between, parts[-1]]


def _between(numbers: Sequence[Fraction], last: Fraction, key: str, given: str) -> list[Fraction]:
    """Numbers of the series between ``numbers`` and ``last``."""
    near: list[Fraction] = []
    for factor, step in _laws(numbers[-3:]):
        found: list[Fraction] = []
        number = numbers[-1] * factor + step
        while len(found) < MAX_VALUES and number != last and (number < last) == (number > numbers[-1]):
            found.append(number)
            number = number * factor + step
        if number == last:
            return found
        if len(found) < MAX_VALUES:
            near += [*found[-1:], number]
    if not list(_laws(numbers[-3:])):
        message = "the numbers before '...' have neither equal steps nor equal ratios"
        raise InputError(message, file="--over", key=key, given=given, expected=_EXPECTED)
    ends = " or ".join(_text(number, "") for number in dict.fromkeys(near)) or f"one of the first {MAX_VALUES} numbers"
    message = f"the series does not reach {_text(last, '')}"
    raise InputError(message, file="--over", key=key, given=given, expected=f"a last value of {ends}")


def _laws(numbers: Sequence[Fraction]) -> Iterator[tuple[Fraction, Fraction]]:
    """Factor and step of each series that the last two or three numbers may be of."""
    steps = {after - before for before, after in pairwise(numbers)} - {Fraction(0)}
    ratios = {after / before for before, after in pairwise(numbers) if before}
    by_step = [(Fraction(1), step) for step in steps if len(steps) == 1]
    by_ratio = [(ratio, Fraction(0)) for ratio in ratios if len(ratios) == 1 and ratio > 0 and ratio != 1]
    if len(numbers) > 2:
        yield from by_step or by_ratio
        return
    yield from (law for law in by_ratio if 1 in (law[0].denominator, law[0].numerator))
    yield from by_step


def _quantity(text: str) -> tuple[Fraction, str] | None:
    """Number and unit of a text; None if it is no number."""
    number, unit = split_quantity(text)
    size = abs(read_number(number or "nan"))
    if number is None or not (size == 0.0 or _SMALLEST < size < _LARGEST):
        return None
    return Fraction(Decimal(number) if size else 0), unit


def _text(number: Fraction, unit: str) -> str:
    """The number as people write it."""
    decimal = Decimal(number.numerator) / Decimal(number.denominator)
    shown = str(number.numerator) if number.denominator == 1 else f"{decimal:.{_SHOWN}g}"
    return f"{shown} {unit}".strip()
