"""Output of commands: JSON, or text laid out with rich."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # rich is imported by the command that prints
    from rich.console import Console

UNWRAPPED_WIDTH = 1000
"""Columns when the output goes into a file or a pipe: one line stays one line."""


def text_console() -> Console:
    """A console for stdout that wraps for a terminal only."""
    from rich.console import Console

    return Console(highlight=False, width=None if sys.stdout.isatty() else UNWRAPPED_WIDTH)


def print_json(value: Any) -> None:
    """Print a value as JSON, the keys in the order they have."""
    sys.stdout.write(json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False) + "\n")


def print_names(entries: Mapping[str, Mapping[str, str]]) -> None:
    """Print names and descriptions, a block per kind."""
    from rich.table import Table
    from rich.text import Text

    console = text_console()
    for kind, names in entries.items():
        table = Table(box=None, show_header=False, padding=(0, 2, 0, 2))
        table.add_column(style="cyan", no_wrap=True)
        table.add_column()
        for name, about in names.items():
            table.add_row(name, Text(about))
        console.print(Text(kind, style="bold"))
        console.print(table)


def print_facts(facts: Iterable[tuple[str, str]]) -> None:
    """Print (name, value) pairs, a line each."""
    from rich.table import Table

    table = Table(box=None, show_header=False, padding=(0, 2, 0, 0))
    for name, value in facts:
        table.add_row(name, value)
    text_console().print(table)
