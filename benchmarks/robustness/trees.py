"""Mutations of trees: YAML and JSON.

A mapping is a `Pairs`, so that a key can stand twice. Places are keys and indices of nested containers.
"""

from __future__ import annotations

import copy
import json
import math
import random
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import yaml

from benchmarks.robustness.values import Change, Place, wrong_value

DEEP = 5_000
"""Levels of lists around a value."""
MANY = 2_000
"""Copies of an element."""
MOST_NODES = 200_000
"""Nodes of a tree that copies may make."""
EXPONENT = re.compile(r"^[-+]?[0-9.]+e[-+]?[0-9]+$")
OPS = ("replace", "replace", "replace", "delete", "duplicate", "rename", "cut", "swap", "nest", "repeat")
"""Operations, as often as they are drawn."""


class Pairs(list[Any]):
    """A mapping as a list of [key, value]."""


@dataclass(frozen=True, slots=True)
class Deep:
    """A value in `DEEP` levels of lists."""

    value: Any


@dataclass(frozen=True, slots=True)
class Tree:
    """YAML or JSON.

    Attributes:
        parse: reads text; mappings may be dicts.
        yaml: whether not-a-number and infinity are written as YAML has them.
        pack: compresses the bytes.
        unpack: opens the bytes.
    """

    yaml: bool = False
    pack: Callable[[bytes], bytes] = bytes
    unpack: Callable[[bytes], bytes] = bytes

    def read(self, data: bytes) -> Any:
        """The tree of a file."""
        text = self.unpack(data).decode()
        return _with_pairs(yaml.load(text, yaml.CSafeLoader) if self.yaml else json.loads(text))

    def draw(self, content: Any, random: random.Random) -> Change:
        """A change of a node; the root is one of many."""
        places = list(_places(content))
        if not places:
            return Change("replace", (), wrong_value(content, random))
        op, place = random.choice(OPS), random.choice(places)
        if op == "replace":
            return Change(op, place, wrong_value(_at(content, place), random))
        if op == "swap":
            return Change(op, place, random.choice(places))
        return Change(op, place)

    def change(self, content: Any, change: Change) -> Any:
        """The tree with a node changed."""
        if not change.place:
            return change.value
        try:
            holder = _at(content, change.place[:-1])
            _apply(content, holder, _number(holder, change.place[-1]), change)
        except (IndexError, TypeError, KeyError):
            return content
        return content

    def write(self, content: Any) -> bytes:
        """The text, an entry per line."""
        return self.pack(_text(content, 0, as_yaml=self.yaml).encode("utf-8", "surrogatepass"))


def _with_pairs(part: Any) -> Any:
    if isinstance(part, dict):
        return Pairs([key, _with_pairs(value)] for key, value in part.items())
    if isinstance(part, str) and EXPONENT.match(part):  # a number of YAML 1.2
        return float(part)
    return [_with_pairs(value) for value in part] if isinstance(part, list) else part


def _places(part: Any, place: Place = ()) -> Iterator[Place]:
    if isinstance(part, Pairs):
        for number, (key, value) in enumerate(part):
            own = (*place, key if isinstance(key, str) else number)
            yield own
            yield from _places(value, own)
    elif isinstance(part, list):
        for number, entry in enumerate(part):
            yield (*place, number)
            yield from _places(entry, (*place, number))


def _at(part: Any, place: Place) -> Any:
    for step in place:
        number = _number(part, step)
        part = part[number][1] if isinstance(part, Pairs) else part[number]
    return part


def _number(part: Any, step: int | str) -> int:
    """Index of a step of a place in a container: of the first such key in a mapping."""
    if isinstance(step, int) and isinstance(part, list):
        return step
    if not isinstance(part, Pairs):
        raise TypeError
    return next((number for number, (key, _) in enumerate(part) if key == step), len(part))


def _size(part: Any) -> int:
    """Number of nodes."""
    if isinstance(part, Pairs):
        return 1 + sum(_size(value) for _, value in part)
    return 1 + sum(map(_size, part)) if isinstance(part, list) else 1


def _set(holder: Any, number: int, value: Any) -> None:
    if isinstance(holder, Pairs):
        holder[number][1] = value
    else:
        holder[number] = value


def _apply(root: Any, holder: Any, last: int, change: Change) -> None:
    value = _at(holder, (last,))
    if change.op == "replace":
        _set(holder, last, _with_pairs(change.value))
    elif change.op == "delete":
        del holder[last]
    elif change.op == "duplicate":
        holder.insert(last, copy.deepcopy(holder[last]))
    elif change.op == "rename" and isinstance(holder, Pairs):
        holder[last][0] = f"{holder[last][0]}_x"
    elif change.op == "cut":
        _set(holder, last, value[: len(value) // 2] if isinstance(value, str | list) else None)
    elif change.op == "swap":
        other, swapped = _at(root, change.value[:-1]), _at(root, change.value)
        number = _number(other, change.value[-1])
        mine, theirs = copy.deepcopy(value), copy.deepcopy(swapped)  # one may hold the other, or be it, after a repeat
        _set(holder, last, theirs)
        _set(other, number, mine)
    elif change.op == "nest":
        _set(holder, last, Deep(value))
    elif change.op == "repeat" and not isinstance(holder, Pairs):
        copies = (MOST_NODES - _size(root)) // _size(value)
        holder[last:last] = [value] * max(0, min(MANY, copies))


def _text(part: Any, depth: int, *, as_yaml: bool) -> str:
    """Text of a node, in flow style, which YAML reads too."""
    indent = "\n" + " " * (depth + 1 if depth < 8 else 8)
    if isinstance(part, Pairs):
        entries = (f"{_key(key, as_yaml=as_yaml)}: {_text(value, depth + 1, as_yaml=as_yaml)}" for key, value in part)
        return "{" + ",".join(indent + entry for entry in entries) + "}"
    if isinstance(part, list):
        return "[" + ",".join(indent + _text(value, depth + 1, as_yaml=as_yaml) for value in part) + "]"
    if isinstance(part, Deep):
        return "[" * DEEP + _text(part.value, depth, as_yaml=as_yaml) + "]" * DEEP
    return _scalar(part, as_yaml=as_yaml)


def _key(key: object, *, as_yaml: bool) -> str:
    return _scalar(key, as_yaml=True) if as_yaml else json.dumps(str(key))


def _scalar(value: object, *, as_yaml: bool) -> str:
    if isinstance(value, float) and as_yaml:
        if not math.isfinite(value):
            return ".nan" if math.isnan(value) else ".inf" if value > 0 else "-.inf"
        text = repr(value)
        return text if "." in text else text.replace("e", ".0e")
    return json.dumps(value, default=str)
