"""YAML files with the line of every key.

A `Document` is plain data beside a map from key paths to lines, so that any later check can say where a value stands.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from inputs.errors import InputError
from inputs.given import Plain, shown
from inputs.keys import KeyPath, key_text, parse_key, value_at
from inputs.sourced import GIVEN
from inputs.yaml_nodes import YamlNode, compose

MAX_FILE_BYTES = 16 * 2**20
"""Largest file read, bytes: a resolved scenario with its plan is a few MiB."""


@dataclass(frozen=True, slots=True)
class Document:
    """Contents of a YAML file with their lines.

    Attributes:
        data: the mapping at the root: dicts, lists and scalars.
        lines: path of every value -> the line (from 1) of its key or list item.
        file: path that it was read from.
        overrides: paths set from outside the file -> the text that set them (``--set a.b=1``).
    """

    data: dict[str, object]
    lines: dict[KeyPath, int]
    file: Path
    overrides: dict[KeyPath, str] = field(default_factory=dict)

    def where(self, path: KeyPath) -> tuple[str, int | None]:
        """File and line of the value at ``path``, or of the closest value around it that exists.

        A value that ``--set`` gave, or that exists only because of it, is at (``--set KEY=VALUE``, None).
        """
        for end in range(len(path), 0, -1):
            if path[:end] in self.overrides:
                return self.overrides[path[:end]], None
            if path[:end] in self.lines:
                return str(self.file), self.lines[path[:end]]
            made = [text for key, text in self.overrides.items() if key[:end] == path[:end]]
            if made:
                return made[0], None
        return str(self.file), self.lines.get(())

    def error(
        self,
        path: KeyPath,
        message: str,
        *,
        given: object = None,
        expected: str | None = None,
        nearest: str | None = None,
        others: Sequence[InputError] = (),
    ) -> InputError:
        """An `InputError` about the value at ``path``, with its file, line and key."""
        file, line = self.where(path)
        key = key_text(path) or None
        return InputError(
            message, file=file, line=line, key=key, given=given, expected=expected, nearest=nearest, others=others
        )

    def replaced(self, path: KeyPath, value: object) -> Document:
        """A copy with plain data at ``path``, such as the contents of a file that ``path`` names."""
        data = copy.deepcopy(self.data)
        _put(data, path, value, key_text(path))
        return replace(self, data=data)

    def set(self, dotted_key: str, value_text: str) -> Document:
        """A copy in which one key has another value, as ``--set KEY=VALUE`` asks.

        Args:
            dotted_key: such as ``workload.global_batch_size`` or ``tables[3].dim``; mappings on the way are made.
            value_text: YAML: a scalar, or a list or mapping in flow style.

        Raises:
            InputError: the key or the value cannot be read, or a part of the key is below something else.
        """
        origin = f"--set {dotted_key}={value_text}"
        try:
            path = parse_key(dotted_key)
            node = compose(value_text, origin)
        except InputError as error:
            raise InputError(error.message, file=origin, given=error.given, expected=error.expected) from None
        data = copy.deepcopy(self.data)
        _put(data, path, None if node is None else _expand(node, (), {}), origin)
        keep = {p: line for p, line in self.lines.items() if p[: len(path)] != path}
        overrides = {p: text for p, text in self.overrides.items() if p[: len(path)] != path}
        return replace(self, data=data, lines=keep, overrides={**overrides, path: origin})


def load_yaml(path: Path) -> Document:
    """Read a YAML file.

    Raises:
        InputError: it is missing, no file, not readable, too large, not UTF-8, or what `parse_yaml` refuses.
    """
    try:
        with path.open("rb") as file:
            raw = file.read(MAX_FILE_BYTES + 1)  # a pipe or device has no size to ask for
    except FileNotFoundError:
        raise InputError("no such file", file=path, expected="a YAML file") from None
    except IsADirectoryError:
        raise InputError("this is a folder", file=path, expected="a YAML file") from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise InputError(f"cannot be read: {reason}", file=path, expected="a YAML file") from None
    if len(raw) > MAX_FILE_BYTES:
        raise InputError("the file is too large", file=path, expected=f"at most {MAX_FILE_BYTES:,} bytes")
    return parse_yaml(_decode(raw, path), path)


def parse_yaml(text: str, file: Path) -> Document:
    """Read YAML text; ``file`` is its name in messages.

    Raises:
        InputError: empty, no mapping, duplicate keys, tags, merge keys, keys that are no text, aliases without end,
            too deep, a second document, or a syntax error; with file and line.
    """
    node = compose(text.removeprefix("\ufeff"), file)
    if node is None or node.value is None:
        raise InputError("the file is empty", file=file, line=1, expected="a mapping: lines of the form 'key: value'")
    if not isinstance(node.value, dict):
        given = "a list" if isinstance(node.value, list) else repr(node.value)
        raise InputError(
            f"the file holds {given[:60]}", file=file, line=node.line, expected="a mapping: lines 'key: value'"
        )
    lines: dict[KeyPath, int] = {(): node.line}
    data = _expand(node, (), lines)
    return Document(data if isinstance(data, dict) else {}, lines, file)


def _decode(raw: bytes, path: Path) -> str:
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        raise InputError(
            "the file is not UTF-8 text",
            file=path,
            line=line,
            given=Plain(f"byte 0x{raw[error.start]:02x}"),
            expected="UTF-8",
        ) from None


def _expand(node: YamlNode, path: KeyPath, lines: dict[KeyPath, int]) -> object:
    """Plain data of a node; fills ``lines``. Depth and size are bounded by `compose`."""
    if isinstance(node.value, dict):
        data = {}
        for key, (line, child) in node.value.items():
            lines[*path, key] = line
            data[key] = _expand(child, (*path, key), lines)
        return data
    if isinstance(node.value, list):
        items = []
        for index, child in enumerate(node.value):
            lines[*path, index] = child.line
            items.append(_expand(child, (*path, index), lines))
        return items
    return node.value


def _put(data: dict[str, object], path: KeyPath, value: object, origin: str) -> None:
    """Set the value at ``path``, making mappings on the way."""
    holder: object = data
    for depth, part in enumerate(path[:-1]):
        if isinstance(holder, dict) and holder.get(part) is None and isinstance(path[depth + 1], str):
            holder[part] = {}
        _check_fits(holder, path, depth, origin)
        holder = value_at(holder, (part,))
    _check_fits(holder, path, len(path) - 1, origin)
    if isinstance(holder, dict) and path[-1] == "value" and "source" in holder:
        holder.update(GIVEN, note="")  # the source belongs to the replaced value
    holder[path[-1]] = value  # type: ignore[index]  # a list or dict with such a place: just checked


def _check_fits(holder: object, path: KeyPath, depth: int, origin: str) -> None:
    """Raise `InputError` unless part ``depth`` of ``path`` is a place of ``holder``."""
    part, above = path[depth], key_text(path[:depth]) or None
    if isinstance(part, str) and not isinstance(holder, dict):
        message = f"not a mapping, so it has no key {part!r}"
        raise InputError(message, file=origin, key=above, given=shown(holder), expected="a key of the file")
    if isinstance(part, int) and not isinstance(holder, list):
        raise InputError("not a list", file=origin, key=above, given=shown(holder), expected="a list, or no position")
    if isinstance(part, int) and isinstance(holder, list) and part >= len(holder):
        last = len(holder) - 1
        expected = f"a position from 0 to {last}" if holder else "no position: the list is empty"
        raise InputError("no such item", file=origin, key=above, given=part, expected=expected)
