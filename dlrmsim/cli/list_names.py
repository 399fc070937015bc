"""``dlrmsim list``: the names that can be used."""

from __future__ import annotations

from typing import Annotated

import typer


def list_names(
    kind: Annotated[str | None, typer.Argument(help="Only this kind, e.g. clusters or models.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """List the scenarios, models, clusters, algorithms... that ship, with what each is."""
    from dlrmsim import catalogs
    from dlrmsim.cli.printing import print_json, print_names

    entries = catalogs.list_names(kind)
    if as_json:
        print_json(entries)
    else:
        print_names(entries)
