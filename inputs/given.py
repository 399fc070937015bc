"""What was given, as a message shows it: in the words of YAML and short."""

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


def shown(value: object) -> str | int | float:
    """A value of a document for a message: ``true``, ``nothing (null)``, ``a list of 3 items``, text cut short."""
    if isinstance(value, bool):
        return Plain("true" if value else "false")
    if value is None:
        return Plain("nothing (null)")
    if isinstance(value, dict):
        return Plain(_mapping(value))
    if isinstance(value, list):
        return Plain(f"a list of {len(value)} item{'' if len(value) == 1 else 's'}")
    if isinstance(value, float) and not math.isfinite(value):
        return Plain(f".{value}" if value > 0 or math.isnan(value) else "-.inf")
    return _cut(value) if isinstance(value, str) else Plain(_cut(str(value)))


def _mapping(value: dict[object, object]) -> str:
    if not value:
        return "an empty mapping"
    keys = [_cut(str(key)) for key in list(value)[:MAX_KEYS]]
    more = ", ..." if len(value) > MAX_KEYS else ""
    return f"a mapping with {'key' if len(value) == 1 else 'keys'} {', '.join(keys)}{more}"


def _cut(text: str) -> str:
    return text if len(text) <= MAX_LENGTH else text[: MAX_LENGTH - 3] + "..."
