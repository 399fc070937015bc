"""Values of JSON against the types that a format declares: one message with place, given and expected value."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

import msgspec

from inputs.errors import InputError
from inputs.given import shown

UNREAD = object()
"""Stands for a value that could not be read without types."""
_MISSING = re.compile(r"Object missing required field `(.*)`")
_SAID = re.compile(r"(?P<what>.*?)(?:, got `(?P<got>.*?)`)?(?: - at `(?P<path>.*)`)?$", re.DOTALL)
_STEP = re.compile(r"\.(?P<key>[^.\[\]]+)|\[(?P<index>\d+)\]")


def typed(value: object, kind: Any, file: Path, where: str = "", names: Mapping[str, str] | None = None) -> Any:
    """The value as an instance of a msgspec type.

    Args:
        file: its name in messages.
        where: the place of the value in the file, such as ``event 3 ('gemm')``; empty for the whole file.
        names: keys of the file, where ``value`` has others.

    Raises:
        InputError: it is none; with its key.
    """
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        raise wrong_type(error, value, file, where, names=names or {}, kind=kind) from None


def wrong_type(
    error: msgspec.ValidationError,
    value: object,
    file: Path,
    where: str = "",
    skip: int = 0,
    names: Mapping[str, str] = MappingProxyType({}),
    kind: Any = None,
) -> InputError:
    """The message of a type that is not the declared one.

    Args:
        value: the value that was read, without types; `UNREAD` for none.
        skip: steps of the error's path that lead to ``value``.
        names: keys of the file, where ``value`` has others.
        kind: the type that the error's path starts from, for the names that it allows.
    """
    said = _SAID.match(str(error))
    what, path = (said["what"], said["path"] or "") if said else (str(error), "")
    steps = list(_STEP.finditer(path))[skip:]
    key = "".join(f".{names.get(step['key'], step['key'])}" if step["key"] else step[0] for step in steps)
    for step in steps:
        if step["key"] is not None and isinstance(value, dict) and step["key"] in value:
            value = value[step["key"]]
        elif step["index"] is not None and isinstance(value, list) and int(step["index"]) < len(value):
            value = value[int(step["index"])]
    expected = _in_words(what) if what.startswith("Expected ") else _EXPECTED.get(what)
    if what.startswith("Invalid enum value"):
        expected = _names_allowed(kind, steps)
    missing = _MISSING.match(what)
    message = f"the key {missing[1]} is missing" if missing else "wrong value" if expected else what
    place = ": ".join(part for part in (where, key.removeprefix(".")) if part)
    given = None if value is UNREAD or missing else shown(value)
    return InputError(message, file=file, key=place or None, given=given, expected=expected)


def _names_allowed(kind: Any, steps: Sequence[re.Match[str]]) -> str:
    """The names that a type allows at the end of a path."""
    at: Any = None if kind is None else msgspec.inspect.type_info(kind)
    for step in steps:
        fields = {field.encode_name: field.type for field in getattr(at, "fields", ())}
        at = fields.get(step["key"]) if step["key"] else getattr(at, "item_type", None)
    values = getattr(at, "values", ())
    return f"one of {', '.join(map(str, values))}" if values else "one of the names of this format"


_EXPECTED = {"Number out of range": "a finite number"}
"""Expected values by the message of msgspec about a wrong one."""
_WORDS = {
    "int": "a whole number", "float": "a number", "str": "text", "bool": "true or false", "array": "a list",
    "object": "a mapping", "null": "nothing (null)",
}  # fmt: skip


def _in_words(what: str) -> str:
    """``Expected `int | null` `` as ``a whole number or nothing (null)``."""
    text = what.removeprefix("Expected ")
    found = re.match(r"`([^`]*)`(.*)", text)
    if found is None:
        return text
    kinds = dict.fromkeys(_WORDS.get(kind, kind) for kind in found[1].split(" | "))
    return f"{' or '.join(kinds)}{found[2]}"
