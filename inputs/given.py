"""A given value as a message shows it: in the words of YAML and short."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

MAX_LENGTH = 80
"""Longest text shown, characters."""
MAX_KEYS = 5
"""Most keys of a mapping shown."""
MAX_NAMES = 8
"""Most names of a list shown."""
_UNSEEN = re.compile(
    r"[\x00-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u2069\ufeff\ud800-\udfff\ufff9-\ufffb]"
)
"""Characters that a terminal or a browser obeys instead of showing: controls, marks of direction, half surrogates."""


def printable(text: str, keep: str = "") -> str:
    r"""The text with each character that would not be shown as its escape: an escape character is ``\x1b``.

    Args:
        keep: characters to leave as they are, such as line ends.
    """
    return _UNSEEN.sub(lambda found: found[0] if found[0] in keep else _escaped(found[0]), text)


def json_escaped(text: str) -> str:
    r"""JSON text with the same characters as JSON's escapes, ``\u001b``; the values are the same."""
    return _UNSEEN.sub(lambda found: "\n" if found[0] == "\n" else f"\\u{ord(found[0]):04x}", text)


def _escaped(character: str) -> str:
    return character.encode("unicode_escape").decode("ascii")


class Plain(str):
    """Text that messages show without quotes."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


def listed(names: Sequence[str], most: int = MAX_NAMES) -> str:
    """The first ``most`` names, and the number of further ones."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


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
