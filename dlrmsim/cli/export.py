"""``dlrmsim export``: runs and traces as files of other formats."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dlrmsim.cli.options import KeptRanks


def export(
    sources: Annotated[
        list[str],
        typer.Argument(help="A folder of run, import or replay, or traces of one job.", metavar="RUN|TRACE..."),
    ],
    *,
    form: Annotated[str, typer.Option("--format", metavar="chrome|chakra|parquet", help="Format to write.")],
    out: Annotated[Path, typer.Option("--out", help="Folder for the files.")],
    ranks: KeptRanks = None,
) -> None:
    """Write Chrome traces (for Perfetto and HTA), Chakra execution traces (for ASTRA-sim), or Parquet."""
    import dlrmsim
    from dlrmsim.cli.parsing import parse_ranks
    from dlrmsim.cli.printing import text_console
    from dlrmsim.cli.progress import progress_display

    with progress_display() as progress:
        done = dlrmsim.export(sources, form=form, ranks=parse_ranks(ranks), out=out, progress=progress)
    more = f" and {len(done.files) - 1:,} more" if len(done.files) > 1 else ""
    text_console().print(f"  wrote  {done.files[0]}{more}", soft_wrap=True, markup=False)
