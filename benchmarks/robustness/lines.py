"""Mutations of bytes, of lines and of command lines."""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise

from benchmarks.robustness.values import NUMBERS, TEXTS, Change, as_text, wrong_value

JUNK = (b"\0", b"\xff\xfe", b"{", b'"', b"\n\n", b"\t", b"\x80" * 9, b"\x1b[31m", b"- ")
"""Bytes that are put in."""
NUMBER = re.compile(rb"(?<![\w.])-?\d+(?:\.\d+)?(?![\w.])")
LINE_OPS = (*("number",) * 4, "delete line", "duplicate line", "swap lines", "cut", "flip", "insert", "empty", "twice")


@dataclass(frozen=True, slots=True)
class Bytes:
    """Any file as bytes and lines; places are numbers of lines, bytes or numbers in the text.

    Attributes:
        unpack: opens the bytes.
        pack: compresses them.
    """

    unpack: Callable[[bytes], bytes] = bytes
    pack: Callable[[bytes], bytes] = bytes

    def read(self, data: bytes) -> bytes:
        """The bytes."""
        return self.unpack(data)

    def draw(self, content: bytes, random: random.Random) -> Change:
        """A change of a number, a line or a byte."""
        op, lines = random.choice(LINE_OPS), content.count(b"\n") + 1
        if op == "number":
            numbers = len(NUMBER.findall(content))
            return Change(op, (random.randrange(max(1, numbers)),), random.choice([*NUMBERS, "x", "", "-0"]))
        if op in ("delete line", "duplicate line", "swap lines"):
            return Change(op, (random.randrange(lines),), random.randrange(lines) if op == "swap lines" else None)
        if op == "insert":
            return Change(op, (random.randrange(len(content) + 1),), random.choice(JUNK))
        return Change(op, (random.randrange(max(1, len(content))),), random.randrange(8) if op == "flip" else None)

    def change(self, content: bytes, change: Change) -> bytes:
        """The bytes with one change."""
        at = int(change.place[0])
        if change.op in ("delete line", "duplicate line", "swap lines"):
            return _change_lines(content.split(b"\n"), at, change)
        if change.op == "number":
            return _change_number(content, at, str(change.value).encode())
        if change.op == "insert":
            return content[:at] + bytes(change.value) + content[at:]
        if change.op == "flip" and at < len(content):
            return content[:at] + bytes([content[at] ^ (1 << change.value)]) + content[at + 1 :]
        return {"cut": content[:at], "empty": b"", "twice": content + content}.get(change.op, content)

    def write(self, content: bytes) -> bytes:
        """The bytes."""
        return self.pack(content)


def _change_lines(lines: list[bytes], at: int, change: Change) -> bytes:
    if at < len(lines):
        if change.op == "delete line":
            del lines[at]
        elif change.op == "duplicate line":
            lines.insert(at, lines[at])
        elif change.value < len(lines):
            lines[at], lines[change.value] = lines[change.value], lines[at]
    return b"\n".join(lines)


def _change_number(content: bytes, at: int, value: bytes) -> bytes:
    for number, found in enumerate(NUMBER.finditer(content)):
        if number == at:
            return content[: found.start()] + value + content[found.end() :]
    return content


ARGUMENT_OPS = (*("replace",) * 5, *("value",) * 4, "delete", "duplicate", "swap", "misspell")
FORBIDDEN = ("--help", "-h")
"""Arguments that end a command before it reads anything."""


@dataclass(frozen=True, slots=True)
class Arguments:
    """A command line, an argument per line of its file; the subcommand stays."""

    def read(self, data: bytes) -> list[str]:
        """The arguments."""
        return data.decode().split("\n")

    def draw(self, content: list[str], random: random.Random) -> Change:
        """A change of an argument or of the part behind its ``=``."""
        if len(content) == 1:  # the subcommand
            return Change("duplicate", (0,))
        op, at = random.choice(ARGUMENT_OPS), random.randrange(1, len(content))
        if op == "value":
            valued = [number for number, text in enumerate(content) if "=" in text or _is_value(content, number)]
            at = random.choice(valued) if valued else at
            return Change(op, (at,), as_text(wrong_value(content[at].rpartition("=")[2], random)))
        if op == "replace":
            return Change(op, (at,), random.choice([*NUMBERS, *TEXTS, "a" * 5000, "--", "=", "a=b=c", ","]))
        return Change(op, (at,), random.randrange(1, len(content)) if op == "swap" else None)

    def change(self, content: list[str], change: Change) -> list[str]:
        """The arguments with one change."""
        at = int(change.place[0])
        if at >= len(content):
            return content
        if change.op == "delete":
            del content[at]
        elif change.op == "duplicate":
            content.insert(at, content[at])
        elif change.op == "swap" and change.value < len(content):
            content[at], content[change.value] = content[change.value], content[at]
        elif change.op == "misspell":
            content[at] = content[at][:-1] + "x"
        elif change.op == "value":
            head, mark, _ = content[at].rpartition("=")
            content[at] = head + mark + change.value
        elif change.op == "replace":
            content[at] = change.value
        return content

    def write(self, content: list[str]) -> bytes:
        """The arguments, without characters that no argument can have or that would end it."""
        return "\n".join(text.replace("\n", " ").replace("\0", "") for text in content).encode()


def _is_value(content: list[str], number: int) -> bool:
    """Whether an argument follows an option."""
    return any(
        later == number and content[earlier].startswith("--") and not content[later].startswith("--")
        for earlier, later in pairwise(range(len(content)))
    )
