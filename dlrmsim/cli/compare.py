"""``dlrmsim compare``: differences between two runs or traces."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from dlrmsim.cli.options import refuse

ROWS = 20
"""Number of printed rows."""


def compare(
    first: Annotated[Path, typer.Argument(help="A folder that run or import wrote, or a trace.")],
    second: Annotated[Path, typer.Argument(help="Another.")],
    *,
    as_json: Annotated[bool, typer.Option("--json", help="Print all rows as JSON.")] = False,
    rows: Annotated[int | None, typer.Option("--rows", min=1, help="Rows to print.", show_default=str(ROWS))] = None,
) -> None:
    """Print the iteration, its parts and its operators of two runs or traces, what changed most first."""
    import dlrmsim
    from dlrmsim.cli.printing import print_json, text_console
    from reports.comparison import comparison_table

    if as_json:
        refuse("with --json", {"--rows": rows})
    found = dlrmsim.compare(first, second).differences
    if as_json:
        print_json([asdict(row) | {"change_s": row.change_s} for row in found])
    else:
        text_console().print(comparison_table(found, (first.name, second.name), rows or ROWS))
