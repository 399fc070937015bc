"""Keys of nested input, as people write them: ``tables[3].dim`` is the path ``("tables", 3, "dim")``."""

from __future__ import annotations

import re
from typing import TypeAlias

from inputs.errors import InputError

KeyPath: TypeAlias = tuple[str | int, ...]
"""Mapping keys and list positions (from 0) from the root of a document to a value."""

_PART = re.compile(r"(?P<name>[^.\[\]]+)(?P<indices>(?:\[\d{1,9}\])*)")
_INDEX = re.compile(r"\d+")


def key_text(path: KeyPath) -> str:
    """The dotted text of a path; empty for the root."""
    text = ""
    for part in path:
        if isinstance(part, int):
            text += f"[{part}]"
        else:
            text += f".{part}" if text else part
    return text


def parse_key(text: str) -> KeyPath:
    """The path of a dotted text.

    Raises:
        InputError: the text is empty or a part of it is no ``name`` or ``name[3]``.
    """
    path: list[str | int] = []
    for part in text.split("."):
        match = _PART.fullmatch(part.strip())
        if match is None:
            raise InputError("not a key", given=text, expected="names joined by dots, such as tables[3].dim")
        path.append(match["name"])
        path.extend(int(index) for index in _INDEX.findall(match["indices"]))
    return tuple(path)
