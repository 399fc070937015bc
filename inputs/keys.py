"""Keys of nested input, as people write them: ``tables[3].dim`` is the path ``("tables", 3, "dim")``.

A name that has dots or brackets of its own stands in quotes: ``plan['model.tables'].t0``.
"""

from __future__ import annotations

import re
from typing import TypeAlias

from inputs.errors import InputError

KeyPath: TypeAlias = tuple[str | int, ...]
"""Mapping keys and list positions (from 0) from the root of a document to a value."""

MAX_DEPTH = 64
"""Deepest nesting of input, levels; a resolved scenario needs about 10."""

_PART = re.compile(r"(?:(?P<name>[^.\[\]]+)|(?=\['))(?P<rest>(?:\[\d{1,9}\]|\['[^']+'\])*)")
_REST = re.compile(r"\[(?:(?P<index>\d+)|'(?P<quoted>[^']+)')\]")
_DOT = re.compile(r"\.(?![^\[]*'\])")
"""A dot that is not in quotes."""
_SPECIAL = frozenset(".[]")


def key_text(path: KeyPath) -> str:
    """The dotted text of a path; empty for the root."""
    text = ""
    for part in path:
        if isinstance(part, int):
            text += f"[{part}]"
        elif _SPECIAL.intersection(part):
            text += f"['{part}']"
        else:
            text += f".{part}" if text else part
    return text


def parse_key(text: str) -> KeyPath:
    """The path of a dotted text.

    Raises:
        InputError: the text is empty or a part of it is no ``name`` or ``name[3]``.
    """
    if text.count(".") + text.count("[") >= MAX_DEPTH:
        raise InputError("the key is too long", given=text, expected=f"at most {MAX_DEPTH} levels")
    path: list[str | int] = []
    for part in _DOT.split(text):
        match = _PART.fullmatch(part.strip())
        if match is None:
            raise InputError("not a key", given=text, expected="names joined by dots, such as tables[3].dim")
        if match["name"] is not None:
            path.append(match["name"])
        path.extend(int(step["index"]) if step["index"] else step["quoted"] for step in _REST.finditer(match["rest"]))
    return tuple(path)


def value_at(data: object, path: KeyPath) -> object:
    """The value at a path of nested dicts and lists; None where there is none."""
    for part in path:
        if not stands_at(data, part):
            return None
        data = data[part]  # type: ignore[index]
    return data


def stands_at(data: object, part: str | int) -> bool:
    """Whether a value is a mapping or list that has ``part``."""
    if isinstance(data, list):
        return isinstance(part, int) and 0 <= part < len(data)
    return isinstance(data, dict) and part in data
