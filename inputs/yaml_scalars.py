"""Meaning of plain (unquoted) YAML scalars: the core schema of YAML 1.2, without the surprises of YAML 1.1.

Only ``true`` and ``false`` are booleans (``on``, ``yes``, ``no`` are text), ``1e9`` is a number, ``12:30:00`` and
``2026-11-21`` are text. Digits may be grouped with underscores, as in Python.
"""

from __future__ import annotations

import re
from typing import TypeAlias

Scalar: TypeAlias = str | int | float | bool | None

MAX_DIGITS = 300
"""Longest whole number read; more digits than any 64-bit float has (about 308), fewer than Python refuses (4300)."""

_WORDS: dict[str, bool | float | None] = {
    "": None, "~": None, "null": None, "Null": None, "NULL": None,
    "true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False,
    ".nan": float("nan"), ".NaN": float("nan"), ".NAN": float("nan"),
    ".inf": float("inf"), "+.inf": float("inf"), "-.inf": -float("inf"),
}  # fmt: skip
_NUMBERS = frozenset("+-.0123456789")
"""First characters of numbers."""
_DIGITS = r"\d+(?:_\d+)*"
_INT = re.compile(rf"[-+]?{_DIGITS}", re.ASCII)
_HEX = re.compile(r"0x[0-9a-fA-F]+", re.ASCII)
_FLOAT = re.compile(rf"[-+]?(?:{_DIGITS}(?:\.(?:{_DIGITS})?)?|\.{_DIGITS})(?:[eE][-+]?\d+)?", re.ASCII)


def plain_scalar(text: str) -> Scalar:
    """The value of an unquoted scalar.

    A number in exponent form that is whole (``1e9``, ``1.5e9``) is an int, so that it can be a count.

    Raises:
        ValueError: a whole number has more than `MAX_DIGITS` digits.
    """
    if text in _WORDS:
        return _WORDS[text]
    if text[0] not in _NUMBERS:
        return text
    if _INT.fullmatch(text) or _HEX.fullmatch(text):
        if len(text) > MAX_DIGITS:
            raise ValueError(f"a number of {len(text)} digits")
        return int(text, 16) if text.startswith("0x") else int(text)
    if _FLOAT.fullmatch(text):
        return _number(text)
    return text


def _number(text: str) -> int | float:
    number = float(text)
    return int(number) if "e" in text.lower() and number.is_integer() and abs(number) < 2**63 else number
