"""``dlrmsim init``: a commented scenario to start from."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer


def init(
    file: Annotated[Path | None, typer.Argument(help="File to create (default: print it).")] = None,
) -> None:
    """Write a scenario that says everything it can, with comments."""
    from dlrmsim import formats

    if file is None:
        sys.stdout.write(formats.scenario_template())
        return
    formats.write_scenario_template(file)
    typer.echo(f"wrote {file}; next: dlrmsim run {file}")
