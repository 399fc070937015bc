"""Output of commands: JSON, or text laid out with rich."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from dlrmsim.output.json_file import json_text
from reports.text_table import TextTable

if TYPE_CHECKING:  # rich is imported by the command that prints
    from rich.console import Console

UNWRAPPED_WIDTH = 1000
"""Columns when the output goes into a file or a pipe: one line stays one line."""


def text_console() -> Console:
    """A console for stdout that wraps lines only in a terminal and reads no markup (brackets, colons)."""
    from dlrmsim.cli.plain_console import PlainConsole

    return PlainConsole(width=None if sys.stdout.isatty() else UNWRAPPED_WIDTH)


def print_json(value: Any) -> None:
    """Print a value as JSON, the keys in the order they have; in ASCII where stdout has no more."""
    unicode = (sys.stdout.encoding or "ascii").lower().startswith("utf")
    sys.stdout.write(json_text(value, unicode=unicode))


def print_names(entries: Mapping[str, Mapping[str, str]]) -> None:
    """Print names and descriptions, a block per kind."""
    from rich.text import Text

    console = text_console()
    for kind, names in entries.items():
        table = TextTable(header=False, indent=2).words("", style="cyan").words("")
        for name, about in names.items():
            table.add_row(name, about)
        console.print(Text(kind, style="bold"))
        console.print(table)


def print_facts(facts: Iterable[tuple[str, str]]) -> None:
    """Print (name, value) pairs, a line each."""
    table = TextTable(header=False).words("", "")
    for name, value in facts:
        table.add_row(name, value)
    text_console().print(table)
