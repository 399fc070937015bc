"""Quantities with units: text such as ``25 GB/s`` to SI numbers and back.

B is a byte, b a bit, GB 1e9 bytes, GiB 2^30 bytes. Units are case-sensitive, because B and b differ.
The annotated types (`Bytes`, `Seconds`...) are fields of `inputs.model.Strict` models: SI floats that people write with
a unit, and that are written back as exact text (``1555000000000 B/s``), so that what was resolved can be read again.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated, Any, TypeAlias

from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, core_schema

from inputs.errors import InputError
from inputs.model import problem
from inputs.units import DIMENSIONS, Dimension, read_number, split_quantity

RANGE_MARK = ".."

MAX_RANKS = 1_048_576
"""Ranks of the largest job, some ten times the GPUs of the largest training clusters."""
MAX_SEED = 2**63 - 1


def parse_quantity(text: object, dimension: str, least: float = 0.0, most: float | None = None) -> float:
    """The SI value of a quantity.

    Args:
        text: ``"25 GB/s"``; a plain number where the dimension allows it (bytes, count, fraction).
        dimension: a key of `inputs.units.DIMENSIONS`: ``bytes``, ``bytes_per_s``, ``s``, ``flops``, ``flops_per_s``,
            ``hertz``, ``count``, ``fraction``.
        least: smallest value, SI.
        most: largest value, SI; None: the dimension's.

    Raises:
        InputError: no number, no or an unknown unit, not finite, or out of range.
    """
    kind = DIMENSIONS[dimension]
    most = kind.maximum if most is None else most
    value = _with_unit(text, kind) if isinstance(text, str) else _plain(text, kind)
    _check(value, kind, least, most, text)
    return value


def _check(value: float, kind: Dimension, least: float, most: float, given: object) -> None:
    """Raise `InputError` unless an SI value is finite, in range, and whole where the dimension is."""
    if not math.isfinite(value):
        raise InputError("not a finite number", given=given, expected=kind.range_in_words(least, most))
    if not least <= value <= most:
        raise InputError("impossible value", given=given, expected=kind.range_in_words(least, most))
    if kind.whole and not value.is_integer():
        raise InputError("not a whole number", given=given, expected=kind.described())


def _with_unit(text: str, kind: Dimension) -> float:
    number, unit = split_quantity(text)
    if number is None:
        raise InputError("not a quantity", given=text, expected=kind.described())
    factor = kind.units.get(unit)
    if factor is None:
        message = f"unknown unit {unit!r}" if unit else "the unit is missing"
        raise InputError(message, given=text, expected=kind.described(), nearest=kind.nearest_unit(number, unit))
    return read_number(number) * factor


def _plain(number: object, kind: Dimension) -> float:
    if isinstance(number, bool) or not isinstance(number, int | float):
        raise InputError("not a quantity", given=number, expected=kind.described())
    if "" not in kind.units:
        raise InputError("the unit is missing", given=number, expected=kind.described())
    try:
        return float(number)
    except OverflowError:
        return math.inf


def format_quantity(value: float, dimension: str, *, binary: bool = False) -> str:
    """A quantity for people: three significant digits and a fitting unit, ``1.56 TB/s``, ``3.20 ms``.

    Args:
        value: number in SI.
        dimension: a key of `inputs.units.DIMENSIONS`.
        binary: bytes in KiB, MiB, GiB... (memory) instead of kB, MB, GB.
    """
    kind = DIMENSIONS[dimension]
    if dimension == "count":
        return f"{value:,.0f}"
    if dimension == "fraction":
        return f"{100 * value:.3g} %"
    scale = kind.binary_scale if binary and kind.binary_scale else kind.scale
    unit = _fitting(value, kind, scale) if value and math.isfinite(value) else kind.base
    return f"{_three_digits(value / kind.units[unit])} {unit}"


def _fitting(value: float, kind: Dimension, scale: tuple[str, ...]) -> str:
    """The largest unit of which there is at least one; 999.6 kB is rounded to 1.00 MB, not to 1000 kB."""
    fitting = [unit for unit in scale if abs(value) >= 0.9995 * kind.units[unit]]
    return fitting[-1] if fitting else scale[0]


def _three_digits(number: float) -> str:
    if not math.isfinite(number) or number == 0:
        return f"{number:g}"
    decimals = 2 - math.floor(math.log10(abs(float(f"{number:.2e}"))))
    return f"{number:,.{max(decimals, 0)}f}" if decimals <= 6 else f"{number:.3g}"


def exact_text(value: float, dimension: str) -> str | float | int:
    """A quantity as it can be read again without loss: ``1555000000000 B/s``; plain where no unit is needed."""
    number = int(value) if float(value).is_integer() and abs(value) < 2**63 else float(value)
    unit = DIMENSIONS[dimension].base
    return f"{number!r} {unit}" if unit else number


def parse_range(text: str, dimension: str = "bytes") -> tuple[float, float]:
    """The SI ends of ``1KiB..1GiB``; a single quantity is a range of itself.

    Raises:
        InputError: an end is no quantity, or the range is empty.
    """
    first, mark, last = text.partition(RANGE_MARK)
    low = parse_quantity(first.strip(), dimension)
    high = parse_quantity(last.strip(), dimension) if mark else low
    if low > high:
        raise InputError("the range is empty", given=text, expected="the smaller end first, such as 1KiB..1GiB")
    return low, high


@dataclass(frozen=True, slots=True)
class Quantity:
    """Marks a number of a model as a quantity: ``Annotated[float, Quantity("bytes_per_s", 1e3, 1e15)]``.

    Attributes:
        dimension: a key of `inputs.units.DIMENSIONS`.
        least: smallest value, SI.
        most: largest value, SI; None: the dimension's.
    """

    dimension: str
    least: float = 0.0
    most: float | None = None

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        """Read text with a unit; write exact text to JSON."""
        writer = core_schema.plain_serializer_function_ser_schema(self._write, when_used="json")
        return core_schema.no_info_before_validator_function(self._read, handler(source), serialization=writer)

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        """JSON schema of the values that a YAML file may hold."""
        kind = DIMENSIONS[self.dimension]
        type_name = "integer" if kind.whole else "number"
        types: Any = ["string", type_name] if kind.base and "" in kind.units else "string" if kind.base else type_name
        limits = {"minimum": self.least, "maximum": self.most or kind.maximum} if "" in kind.units else {}
        return {"type": types, "description": kind.described(), **limits}

    def described(self) -> str:
        """Description of the accepted values."""
        return DIMENSIONS[self.dimension].described()

    def check(self, value: float) -> None:
        """Check a number in SI that stands in a table without its unit; raises as `parse_quantity`."""
        kind = DIMENSIONS[self.dimension]
        _check(float(value), kind, self.least, kind.maximum if self.most is None else self.most, value)

    def _read(self, value: object) -> float:
        kind = DIMENSIONS[self.dimension]
        if isinstance(value, str) and not kind.base and split_quantity(value)[1] not in kind.units.keys() - {""}:
            raise problem("wrong type", expected=kind.described())  # a number in quotes is text
        try:
            number = parse_quantity(value, self.dimension, self.least, self.most)
        except InputError as error:
            raise problem(error.message, expected=error.expected, nearest=error.nearest) from None
        return int(number) if kind.whole else number

    def _write(self, value: float) -> str | float | int:
        return exact_text(value, self.dimension)


Bytes: TypeAlias = Annotated[float, Quantity("bytes")]
"""An amount of data, bytes; a plain number is accepted."""
BytesPerSecond: TypeAlias = Annotated[float, Quantity("bytes_per_s")]
"""A bandwidth, bytes per second; bits per second (Gb/s) are converted."""
Seconds: TypeAlias = Annotated[float, Quantity("s")]
"""A duration, seconds."""
FlopsPerSecond: TypeAlias = Annotated[float, Quantity("flops_per_s")]
"""A compute rate, floating point (or integer) operations per second."""
Hertz: TypeAlias = Annotated[float, Quantity("hertz")]
"""A frequency, hertz."""
Count: TypeAlias = Annotated[int, Quantity("count")]
"""A whole number, 0 included; ``1e9`` is accepted."""
Fraction: TypeAlias = Annotated[float, Quantity("fraction")]
"""A fraction from 0 to 1; ``70 %`` is accepted."""
RankNumber: TypeAlias = Annotated[int, Quantity("count", 0, MAX_RANKS - 1)]
"""Number of a rank, from 0."""
RankCount: TypeAlias = Annotated[int, Quantity("count", 1, MAX_RANKS)]
"""Number of ranks of a job."""
