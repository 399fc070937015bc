"""A given value as a message shows it: in the words of YAML and short."""

from __future__ import annotations

import math

MAX_LENGTH = 80
"""Longest text shown, characters."""
MAX_KEYS = 5
"""Most keys of a mapping shown."""


class Plain(str):
    """Text that messages show without quotes."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


def shown(value: object) -> str:
    """A value of a document for a message: ``true``, ``nothing (null)``, ``a list of 3 items``, text cut short."""
    if isinstance(value, str):
        return value if isinstance(value, Plain) else cut(value)
    return Plain(_in_yaml_words(value))


def _in_yaml_words(value: object) -> str:
    if value is None:
        return "nothing (null)"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, dict):
        return _mapping(value)
    if isinstance(value, list):
        return f"a list of {len(value)} item{'' if len(value) == 1 else 's'}"
    if isinstance(value, float) and not math.isfinite(value):
        return "-.inf" if value < 0 else f".{value}"
    return cut(str(value))


def _mapping(value: dict[object, object]) -> str:
    if not value:
        return "an empty mapping"
    keys = [cut(str(key)) for key in list(value)[:MAX_KEYS]]
    more = ", ..." if len(value) > MAX_KEYS else ""
    return f"a mapping with {'key' if len(value) == 1 else 'keys'} {', '.join(keys)}{more}"


def cut(text: str, length: int = MAX_LENGTH) -> str:
    """The beginning of a text that is too long for a message."""
    return text if len(text) <= length else text[: length - 3] + "..."
