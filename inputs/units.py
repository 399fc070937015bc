"""Units: what each dimension accepts, as text and factor to SI.

B is a byte, b a bit (B/8), decimal prefixes are powers of 1000, binary prefixes (Ki, Mi...) powers of 1024
(IEC 80000-13).
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from inputs.errors import nearest_name

_DECIMAL = {"k": 1e3, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15, "E": 1e18}
_BINARY = {f"{letter}i": 1024.0 ** (power + 1) for power, letter in enumerate("KMGTP")}
_QUANTITY = re.compile(r"(?P<number>[+-]?(?:[\d_]+\.?[\d_]*|\.\d[\d_]*)(?:[eE][+-]?\d+)?)\s*(?P<unit>.*)", re.ASCII)
_MAX_TEXT = 100  # characters; longer text is no quantity


@dataclass(frozen=True, slots=True)
class Dimension:
    """A kind of quantity.

    Attributes:
        words: noun for the quantity in messages.
        base: the SI unit written back; empty when plain numbers are the normal form.
        units: accepted unit text -> factor to SI; the empty text is present where plain numbers are accepted.
        scale: units for people, ascending.
        shown: the units that messages list.
        example: a valid value.
        maximum: the largest possible value, SI: far beyond any machine, and exact in the engine's picoseconds.
        binary_scale: the same in powers of 1024, where that is usual.
        whole: only whole numbers make sense.
    """

    words: str
    base: str
    units: dict[str, float]
    scale: tuple[str, ...]
    shown: tuple[str, ...]
    example: str
    maximum: float
    binary_scale: tuple[str, ...] = ()
    whole: bool = False

    def described(self) -> str:
        """Description of the accepted values."""
        units = f" with a unit ({', '.join(self.shown)})" if self.shown else ""
        return f"{self.words}{units}, such as {self.example}"

    def range_in_words(self, least: float, most: float) -> str:
        """The range from ``least`` to ``most``, SI: ``from 1 kB/s to 1,000 PB/s``."""
        return f"from {self._in_words(least)} to {self._in_words(most)}"

    def _in_words(self, value: float) -> str:
        """A limit in the largest fitting unit, all digits."""
        unit = next((unit for unit in reversed(self.scale) if value >= self.units[unit]), self.base)
        number = value / self.units[unit]
        digits = f"{number:,.0f}" if number.is_integer() else f"{number:f}".rstrip("0")
        return f"{digits} {unit}" if unit else digits

    def nearest_unit(self, number: str, unit: str) -> str | None:
        """The quantity with the closest accepted unit."""
        known = [name for name in self.units if name]
        same = [name for name in known if name.casefold() == unit.casefold()]
        near = same[0] if same else nearest_name(unit, known)
        return f"{number} {near}" if near else None


def split_quantity(text: str) -> tuple[str | None, str]:
    """Number and unit of a quantity, both as text; the number is None when there is none."""
    match = _QUANTITY.fullmatch(text.strip()) if len(text) <= _MAX_TEXT else None
    if match is None or not re.search(r"\d", match["number"]):
        return None, ""
    return match["number"], match["unit"]


def read_number(text: str) -> float:
    """The float of a number that `split_quantity` found; inf when it is too large for a float."""
    return float(text.replace("_", ""))


def _prefixed(unit: str, *, binary: bool = False) -> dict[str, float]:
    prefixes = {"": 1.0, **_DECIMAL, **(_BINARY if binary else {})}
    return {f"{prefix}{unit}": factor for prefix, factor in prefixes.items()}


def _per_second(units: dict[str, float]) -> dict[str, float]:
    return {f"{unit}/s": factor for unit, factor in units.items()}


def _bits(unit: str, suffix: str) -> dict[str, float]:
    return {f"{name}{suffix}": factor / 8 for name, factor in _prefixed(unit).items()}


_BYTES = _prefixed("B", binary=True)
_BANDWIDTHS = {**_per_second(_BYTES), **_bits("b", "/s"), **_bits("bit", "/s"), **_bits("b", "ps")}
_TIMES = {
    "ps": 1e-12, "ns": 1e-9, "us": 1e-6, "\u00b5s": 1e-6, "\u03bcs": 1e-6, "ms": 1e-3, "s": 1.0,
    "min": 60.0, "h": 3600.0,
}  # fmt: skip
_FLOPS = _prefixed("FLOP")
_RATES = {**_per_second(_FLOPS), **_prefixed("FLOPS"), **_per_second(_prefixed("OP")), **_prefixed("OPS")}

DIMENSIONS: dict[str, Dimension] = {
    "bytes": Dimension(
        words="an amount of data",
        base="B",
        units={**_BYTES, "": 1.0},
        scale=("B", "kB", "MB", "GB", "TB", "PB", "EB"),
        binary_scale=("B", "KiB", "MiB", "GiB", "TiB", "PiB"),
        shown=("B", "kB", "MB", "GB", "TB", "KiB", "MiB", "GiB", "TiB"),
        example="64 MiB",
        maximum=1e18,
    ),
    "bytes_per_s": Dimension(
        words="a bandwidth",
        base="B/s",
        units=_BANDWIDTHS,
        scale=("B/s", "kB/s", "MB/s", "GB/s", "TB/s", "PB/s", "EB/s"),
        binary_scale=("B/s", "KiB/s", "MiB/s", "GiB/s", "TiB/s", "PiB/s"),
        shown=("B/s", "kB/s", "MB/s", "GB/s", "TB/s", "GiB/s", "Mb/s", "Gb/s", "Tb/s"),
        example="25 GB/s",
        maximum=1e18,
    ),
    "s": Dimension(
        words="a duration",
        base="s",
        units=_TIMES,
        scale=("ps", "ns", "us", "ms", "s"),
        shown=("ps", "ns", "us", "ms", "s", "min", "h"),
        example="3 us",
        maximum=1e6,
    ),
    "flops": Dimension(
        words="a number of floating point operations",
        base="FLOP",
        units=_FLOPS,
        scale=("FLOP", "kFLOP", "MFLOP", "GFLOP", "TFLOP", "PFLOP", "EFLOP"),
        shown=("FLOP", "MFLOP", "GFLOP", "TFLOP", "PFLOP"),
        example="638 MFLOP",
        maximum=1e24,
    ),
    "flops_per_s": Dimension(
        words="a compute rate",
        base="FLOP/s",
        units=_RATES,
        scale=("FLOP/s", "kFLOP/s", "MFLOP/s", "GFLOP/s", "TFLOP/s", "PFLOP/s", "EFLOP/s"),
        shown=("FLOP/s", "GFLOP/s", "TFLOP/s", "PFLOP/s", "TOP/s"),
        example="156 TFLOP/s",
        maximum=1e21,
    ),
    "hertz": Dimension(
        words="a frequency",
        base="Hz",
        units=_prefixed("Hz"),
        scale=("Hz", "kHz", "MHz", "GHz"),
        shown=("Hz", "kHz", "MHz", "GHz"),
        example="1.41 GHz",
        maximum=1e12,
    ),
    "count": Dimension(
        words="a whole number",
        base="",
        units={"": 1.0},
        scale=("",),
        shown=(),
        example="128",
        maximum=2.0**53,
        whole=True,
    ),
    "fraction": Dimension(
        words="a fraction",
        base="",
        units={"": 1.0, "%": 0.01},
        scale=("",),
        shown=(),
        example="0.7 or 70 %",
        maximum=1.0,
    ),
}
"""All dimensions by name."""
