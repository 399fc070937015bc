"""YAML text to a tree of nodes that know their line, refusing constructs that an input file does not need.

Built from parser events, so that nothing is constructed before it is checked: tags never make objects, and aliases
stay references (with the size they would expand to) until the whole is known to be small.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import NoReturn, TypeAlias, cast

import yaml

from inputs.errors import InputError
from inputs.keys import MAX_DEPTH, KeyPath, key_text
from inputs.yaml_scalars import MAX_DIGITS, Scalar, plain_scalar

MAX_NODES = 500_000
"""Most values in one document, aliases expanded: a plan of 100,000 shards fits."""
SHOWN_DEPTH = 5
"""Levels of the key that a message about too deep nesting shows."""

_Start: TypeAlias = yaml.ScalarEvent | yaml.CollectionStartEvent
_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_UNPRINTABLE = re.compile("[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")

_ADVICE: dict[str, str] = {
    "mapping values are not allowed": "one 'key: value' in a line, and quotes around text that contains ': '",
    "could not find expected ':'": "a ':' and a blank after the key",
    "did not find expected key": "the same indentation for all keys of a mapping",
    "did not find expected '-' indicator": "the same indentation for all items of a list",
    "did not find expected ',' or": "a comma or the closing bracket",
    "unexpected end of stream": "the closing quote",
    "cannot start any token": "quotes around text that begins with a special character",
    "did not find expected alphabetic": "quotes around text that begins with & or *",
    "undefined tag handle": "quotes around text that begins with !",
    "unknown escape character": "single quotes around text with a backslash",
}
"""A part of the parser's message -> what helps."""


@dataclass(frozen=True, slots=True)
class Node:
    """A scalar, list or mapping.

    Attributes:
        value: the scalar, the items, or key -> (line of the key, node).
        line: first line, from 1.
        size: number of values in it with aliases expanded, itself included.
        height: levels of nesting below it.
    """

    value: Scalar | list[Node] | dict[str, tuple[int, Node]]
    line: int
    size: int = 1
    height: int = 0


def compose(text: str, file: Path | str) -> Node | None:
    """The root node of the one document in ``text``; None when there is none.

    Raises:
        InputError: syntax, duplicate keys, tags, merge keys, keys that are no text, recursion, too many or too deep
            values, or a second document; with file and line.
    """
    return _composed(text, file) if len(text) > REMEMBERED_LENGTH else _remembered(text, file)


REMEMBERED_LENGTH = 100_000
"""Characters of the longest text whose nodes are kept: files that ship are read again for every change of a job."""


def _composed(text: str, file: Path | str) -> Node | None:
    bad = _UNPRINTABLE.search(text)
    if bad:
        line = text.count("\n", 0, bad.start()) + 1
        raise InputError("a character that text files do not contain", file=file, line=line, given=bad.group())
    try:
        return _Composer(text, file).document()
    except yaml.MarkedYAMLError as error:
        raise _syntax_error(error, text, file) from None
    except yaml.YAMLError as error:
        raise InputError(f"not valid YAML: {error}", file=file) from None


_remembered = lru_cache(maxsize=512)(_composed)


def _syntax_error(error: yaml.MarkedYAMLError, text: str, file: Path | str) -> InputError:
    mark = error.problem_mark or error.context_mark
    lines = text.rstrip().split("\n")
    line = min(mark.line + 1, len(lines)) if mark else 1  # the parser's end of file may lie behind the last line
    given = lines[line - 1].rstrip()
    problem = error.problem or error.context or "it cannot be read"
    expected = next((advice for words, advice in _ADVICE.items() if words in problem), None)
    if "\t" in given[: len(given) - len(given.lstrip())]:
        problem, expected = "a tab in the indentation", "spaces"
    begin = error.context_mark.line + 1 if error.context_mark else line
    since = f" (in the value that begins in line {begin})" if begin != line else ""
    return InputError(f"not valid YAML: {problem}{since}", file=file, line=line, given=given or None, expected=expected)


class _Composer:
    """One pass over the parser's events."""

    def __init__(self, text: str, file: Path | str) -> None:
        self._events: Iterator[yaml.Event] = yaml.parse(text, Loader=_LOADER)
        self._file = file
        self._anchors: dict[str, Node | None] = {}  # None: still open

    def document(self) -> Node | None:
        next(self._events)  # start of stream
        if isinstance(next(self._events), yaml.StreamEndEvent):
            return None
        root = self._node(next(self._events), ())
        next(self._events)  # end of document
        after = next(self._events)
        if not isinstance(after, yaml.StreamEndEvent):
            self._refuse(after, (), "a second document starts here", expected="one document in a file")
        return root

    def _node(self, event: yaml.Event, path: KeyPath) -> Node:
        if len(path) > MAX_DEPTH:
            self._refuse(event, path[:SHOWN_DEPTH], f"nested deeper than {MAX_DEPTH} levels")
        if isinstance(event, yaml.AliasEvent):
            return self._alias(event, path)
        start = cast("_Start", event)  # no other event begins a value
        if start.tag is not None:
            tag = start.tag.replace("tag:yaml.org,2002:", "!!")
            self._refuse(start, path, "YAML tags are not accepted", given=tag, expected="a plain value without a tag")
        if start.anchor is not None:
            self._anchors[start.anchor] = None
        node = self._value(start, path)
        self._check_extent(start, path, node)
        if start.anchor is not None:
            self._anchors[start.anchor] = node
        return node

    def _value(self, event: _Start, path: KeyPath) -> Node:
        if isinstance(event, yaml.ScalarEvent):
            return Node(self._scalar(event, path), _line(event))
        return self._list(event, path) if isinstance(event, yaml.SequenceStartEvent) else self._mapping(event, path)

    def _alias(self, event: yaml.AliasEvent, path: KeyPath) -> Node:
        if event.anchor not in self._anchors:
            self._refuse(event, path, "an alias without an anchor", given=f"*{event.anchor}")
        node = self._anchors[event.anchor]
        if node is None:
            self._refuse(event, path, "an alias that contains itself", given=f"*{event.anchor}")
        return node

    def _scalar(self, event: yaml.ScalarEvent, path: KeyPath) -> Scalar:
        if event.style:
            return str(event.value)
        try:
            return plain_scalar(event.value)
        except ValueError as error:
            self._refuse(event, path, str(error), expected=f"at most {MAX_DIGITS}")

    def _list(self, start: yaml.Event, path: KeyPath) -> Node:
        items: list[Node] = []
        while not isinstance(event := next(self._events), yaml.SequenceEndEvent):
            items.append(self._node(event, (*path, len(items))))
        return _collection(items, items, _line(start))

    def _mapping(self, start: yaml.Event, path: KeyPath) -> Node:
        entries: dict[str, tuple[int, Node]] = {}
        while not isinstance(event := next(self._events), yaml.MappingEndEvent):
            key = self._key(event, path)
            if key in entries:
                message = f"the key stands twice, first in line {entries[key][0]}"
                self._refuse(event, (*path, key), message, expected="each key once")
            entries[key] = (_line(event), self._node(next(self._events), (*path, key)))
        return _collection(entries, [node for _, node in entries.values()], _line(start))

    def _key(self, event: yaml.Event, path: KeyPath) -> str:
        if not isinstance(event, yaml.ScalarEvent) or event.tag is not None:
            self._refuse(event, path, "a key that is no plain text", expected="a name")
        key = self._scalar(event, path)
        if not isinstance(key, str):
            self._refuse(event, path, "a key that is no text", given=event.value, expected="a name (put it in quotes)")
        if key == "<<" and not event.style:
            self._refuse(event, path, "merge keys are not supported", given=key, expected="the keys written out")
        return key

    def _check_extent(self, event: yaml.Event, path: KeyPath, node: Node) -> None:
        if node.size > MAX_NODES:
            self._refuse(event, path, f"more than {MAX_NODES:,} values, aliases expanded")
        if len(path) + node.height > MAX_DEPTH:
            self._refuse(event, path, f"nested deeper than {MAX_DEPTH} levels, aliases expanded")

    def _refuse(
        self, event: yaml.Event, path: KeyPath, message: str, *, given: str | None = None, expected: str | None = None
    ) -> NoReturn:
        key = key_text(path) or None
        raise InputError(message, file=self._file, line=_line(event), key=key, given=given, expected=expected)


def _collection(value: list[Node] | dict[str, tuple[int, Node]], children: list[Node], line: int) -> Node:
    size = 1 + sum(child.size for child in children)
    height = 1 + max((child.height for child in children), default=0)
    return Node(value, line, size, height)


def _line(event: yaml.Event) -> int:
    mark = event.start_mark
    return mark.line + 1 if mark else 1
