"""YAML text to a tree of nodes that know their line, refusing constructs that an input file does not need.

Built from parser events, so that nothing is constructed before it is checked: tags never make objects, and aliases
stay references (with the size they would expand to) until the whole is known to be small.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import NoReturn, TypeAlias, cast

import yaml

from inputs.errors import InputError
from inputs.keys import MAX_DEPTH, key_text
from inputs.yaml_scalars import MAX_DIGITS, Scalar, plain_scalar

MAX_NODES = 250_000
"""Most values in one document, aliases expanded, so that any is read or refused within 2 s; a resolved scenario with a
plan of 1,000 tables has 30,000."""
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


@dataclass(slots=True)
class YamlNode:
    """A scalar, list or mapping; not frozen, because a document has hundreds of thousands.

    Attributes:
        value: the scalar, the items, or key -> (line of the key, node).
        line: first line, from 1.
        size: number of values in it with aliases expanded, itself included.
        height: levels of nesting below it.
    """

    value: Scalar | list[YamlNode] | dict[str, tuple[int, YamlNode]]
    line: int
    size: int = 1
    height: int = 0


def compose(text: str, file: Path | str) -> YamlNode | None:
    """The root node of the one document in ``text``; None when there is none.

    Raises:
        InputError: syntax, duplicate keys, tags, merge keys, keys that are no text, recursion, too many or too deep
            values, or a second document; with file and line.
    """
    return _composed(text, file) if len(text) > REMEMBERED_LENGTH else _remembered(text, file)


REMEMBERED_LENGTH = 100_000
"""Characters of the longest text whose nodes are kept: files that ship are read again for every change of a job."""


def _composed(text: str, file: Path | str) -> YamlNode | None:
    bad = _UNPRINTABLE.search(text)
    if bad:
        line = text.count("\n", 0, bad.start()) + 1
        message = "a character that text files do not contain"
        raise InputError(message, file=file, line=line, given=bad.group(), expected="text in UTF-8")
    try:
        return _Composer(text, file).document()
    except yaml.MarkedYAMLError as error:
        raise _syntax_error(error, text, file) from None
    except yaml.YAMLError as error:
        raise InputError(f"not valid YAML: {error}", file=file, expected="lines of the form 'key: value'") from None


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


_ANCHORED = "an alias of a value that stands before it, with &NAME"


class _Composer:
    """One pass over the parser's events."""

    def __init__(self, text: str, file: Path | str) -> None:
        self._next: Callable[[], yaml.Event] = _LOADER(text).get_event
        self._file = file
        self._path: list[str | int] = []
        """Place of the value that is read."""
        self._count = 0
        self._anchors: dict[str, YamlNode | None] = {}  # None: still open

    def document(self) -> YamlNode | None:
        self._next()  # start of stream
        if isinstance(self._next(), yaml.StreamEndEvent):
            return None
        root = self._node(self._next())
        self._next()  # end of document
        after = self._next()
        if not isinstance(after, yaml.StreamEndEvent):
            self._refuse(after, "a second document starts here", expected="one document in a file")
        return root

    def _node(self, event: yaml.Event) -> YamlNode:
        self._count += 1
        if self._count > MAX_NODES:
            self._refuse(event, f"more than {MAX_NODES:,} values", expected="a smaller file")
        if type(event) is yaml.ScalarEvent and event.tag is None and event.anchor is None:  # nearly all of them
            return YamlNode(self._scalar(event), _line(event))
        if len(self._path) > MAX_DEPTH:
            del self._path[SHOWN_DEPTH:]
            self._refuse(event, f"nested deeper than {MAX_DEPTH} levels", expected=f"at most {MAX_DEPTH}")
        node = self._alias(event) if isinstance(event, yaml.AliasEvent) else self._started(cast("_Start", event))
        self._check_extent(event, node)
        return node

    def _started(self, start: _Start) -> YamlNode:
        """The value that begins with an event."""
        if start.tag is not None:
            tag = start.tag.replace("tag:yaml.org,2002:", "!!")
            self._refuse(start, "YAML tags are not accepted", given=tag, expected="a plain value without a tag")
        if start.anchor is not None:
            self._anchors[start.anchor] = None
        if isinstance(start, yaml.ScalarEvent):
            node = YamlNode(self._scalar(start), _line(start))
        else:
            node = self._list(start) if isinstance(start, yaml.SequenceStartEvent) else self._mapping(start)
        if start.anchor is not None:
            self._anchors[start.anchor] = node
        return node

    def _alias(self, event: yaml.AliasEvent) -> YamlNode:
        if event.anchor not in self._anchors:
            self._refuse(event, "an alias without an anchor", given=f"*{event.anchor}", expected=_ANCHORED)
        node = self._anchors[event.anchor]
        if node is None:
            self._refuse(event, "an alias that contains itself", given=f"*{event.anchor}", expected=_ANCHORED)
        return node

    def _scalar(self, event: yaml.ScalarEvent) -> Scalar:
        if event.style:
            return str(event.value)
        try:
            return plain_scalar(event.value)
        except ValueError as error:
            self._refuse(event, str(error), expected=f"at most {MAX_DIGITS}")

    def _list(self, start: yaml.Event) -> YamlNode:
        items: list[YamlNode] = []
        while not isinstance(event := self._next(), yaml.SequenceEndEvent):
            self._path.append(len(items))
            items.append(self._node(event))
            self._path.pop()
        return _collection(items, items, _line(start))

    def _mapping(self, start: yaml.Event) -> YamlNode:
        entries: dict[str, tuple[int, YamlNode]] = {}
        while not isinstance(event := self._next(), yaml.MappingEndEvent):
            key = self._key(event)
            self._path.append(key)
            if key in entries:
                message = f"the key stands twice, first in line {entries[key][0]}"
                self._refuse(event, message, expected="each key once")
            entries[key] = (_line(event), self._node(self._next()))
            self._path.pop()
        return _collection(entries, [node for _, node in entries.values()], _line(start))

    def _key(self, event: yaml.Event) -> str:
        if not isinstance(event, yaml.ScalarEvent) or event.tag is not None:
            self._refuse(event, "a key that is no plain text", expected="a name")
        key = self._scalar(event)
        if not isinstance(key, str):
            self._refuse(event, "a key that is no text", given=event.value, expected="a name (put it in quotes)")
        if key == "<<" and not event.style:
            self._refuse(event, "merge keys are not supported", given=key, expected="the keys written out")
        return key

    def _check_extent(self, event: yaml.Event, node: YamlNode) -> None:
        if node.size > MAX_NODES:
            self._refuse(event, f"more than {MAX_NODES:,} values, aliases expanded", expected="a smaller file")
        if len(self._path) + node.height > MAX_DEPTH:
            message = f"nested deeper than {MAX_DEPTH} levels, aliases expanded"
            self._refuse(event, message, expected=f"at most {MAX_DEPTH}")

    def _refuse(
        self, event: yaml.Event, message: str, *, given: str | None = None, expected: str | None = None
    ) -> NoReturn:
        key = key_text(tuple(self._path)) or None
        raise InputError(message, file=self._file, line=_line(event), key=key, given=given, expected=expected)


def _collection(
    value: list[YamlNode] | dict[str, tuple[int, YamlNode]], children: list[YamlNode], line: int
) -> YamlNode:
    size = 1 + sum(child.size for child in children)
    height = 1 + max((child.height for child in children), default=0)
    return YamlNode(value, line, size, height)


def _line(event: yaml.Event) -> int:
    mark = event.start_mark
    return mark.line + 1 if mark else 1
