"""``dlrmsim init``: a commented scenario to start from."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from dlrmsim.cli.terminal import print_line


def init(
    file: Annotated[Path | None, typer.Argument(help="File to create (default: print it).")] = None,
    *,
    model: Annotated[bool, typer.Option("--model", help="Write model.yaml and tables.csv beside it, too.")] = False,
    kind: Annotated[str | None, typer.Option(help="Kind of workload (see `list workloads`).")] = None,
) -> None:
    """Write a scenario that says everything it can, with comments."""
    from dlrmsim import formats
    from inputs.errors import InputError

    if file is None and model:
        raise InputError(
            "a model needs a scenario beside it", key="--model", expected="FILE, e.g. init my.yaml --model"
        )
    if file is None:
        sys.stdout.write(formats.scenario_template(kind=kind))
        return
    written = formats.write_templates(file, model=model, kind=kind)
    print_line(f"wrote {', '.join(map(str, written))}; next: dlrmsim run {file}")
