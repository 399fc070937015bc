"""What commands print: JSON, or text laid out with rich."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from typing import Any


def print_json(value: Any) -> None:
    """Print a value as JSON, the keys in the order they have."""
    sys.stdout.write(json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False) + "\n")


def print_names(entries: Mapping[str, Mapping[str, str]]) -> None:
    """Print names and descriptions, a block per kind."""
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    console = Console(highlight=False)
    for kind, names in entries.items():
        table = Table(box=None, show_header=False, padding=(0, 2, 0, 2))
        table.add_column(style="cyan", no_wrap=True)
        table.add_column()
        for name, about in names.items():
            table.add_row(name, escape(about))
        console.print(f"[bold]{kind}[/bold]")
        console.print(table)
