"""``dlrmsim import``: read measured traces, print their analysis and their gaps."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dlrmsim.cli.options import KeptRanks, Report, Whole, refuse


def import_traces(
    traces: Annotated[
        list[str], typer.Argument(help="Traces of one job, usually one per rank, or their folder.", metavar="TRACE...")
    ],
    *,
    out: Annotated[Path | None, typer.Option("--out", help="Folder for summary, timeline and page.")] = None,
    ranks: KeptRanks = None,
    op: Annotated[str | None, typer.Option("--op", help="Operation of nccl-tests' logs that do not name it.")] = None,
    whole: Whole = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print summary.json and nothing else.")] = False,
    report: Report = None,
) -> None:
    """Import traces: Kineto, PyTorch execution trace, Chakra, nccl-tests logs, our own timeline.parquet."""
    import dlrmsim
    from dlrmsim.cli.import_headline import print_import
    from dlrmsim.cli.parsing import parse_ranks
    from dlrmsim.cli.printing import print_json
    from dlrmsim.cli.progress import progress_display

    if out is None:
        refuse("without --out", {"--report/--no-report": report})
    with progress_display() as progress:
        written, kept = report is not False, parse_ranks(ranks)
        done = dlrmsim.import_traces(traces, ranks=kept, op=op, whole=whole, report=written, out=out, progress=progress)
    if as_json:
        print_json(done.summary)
    else:
        print_import(done)
