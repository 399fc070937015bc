"""``dlrmsim fetch-traces``: get the public traces the tests know."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dlrmsim.cli.terminal import print_line


def fetch_traces(
    *,
    out: Annotated[Path, typer.Option("--out", help="Folder for the traces.")] = Path("public_traces"),
    source: Annotated[str | None, typer.Option("--from", metavar="URL", help="Address of repositories.")] = None,
) -> None:
    """Fetch public traces into a folder, each checked against the sha256 of the manifest. Needs internet access."""
    from traces.public import SOURCE, fetch

    for found in fetch(out, source or SOURCE):
        trace = found.trace
        where = trace.path or f"{trace.folder} (an archive or another name: get it by hand)"
        print_line(f"{found.status:8}  {trace.file}  {trace.licence}  {trace.repository} {where}")
    print_line(f"tests that need them: DLRMSIM_TRACES={out} make test")
