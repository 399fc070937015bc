"""``dlrmsim replay``: run imported traces in the engine."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def replay(
    traces: Annotated[list[Path], typer.Argument(help="Traces of one job.", metavar="TRACE...")],
    *,
    cluster: Annotated[
        str | None, typer.Option("--cluster", help="Collectives on this cluster (default: as measured).")
    ] = None,
    ranks: Annotated[str | None, typer.Option("--ranks", metavar="0,5,9", help="Keep these ranks only.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
) -> None:
    """Run traces in the engine, as measured or with the collectives of a simulated cluster."""
    from dlrmsim import api, replaying
    from dlrmsim.cli.printing import print_json
    from reports.numbers import seconds

    found = replaying.replay(traces, cluster, api.parse_ranks(ranks))
    if as_json:
        print_json(found)
        return
    where = f"on {cluster}" if cluster else "as measured"
    typer.echo(f"{found['format']}, {found['ranks']:,} of {found['world_size']:,} ranks, {where}")
    typer.echo(f"  takes     {seconds(found['makespan_s'])}")
    if "measured_makespan_s" in found:
        typer.echo(f"  measured  {seconds(found['measured_makespan_s'])}")
    if "largest_error_s" in found:
        typer.echo(f"  largest difference of a task's end  {seconds(found['largest_error_s'])}")
    for gap in found["gaps"]:
        typer.echo(f"  gap       {gap['count']:,} {gap['what']}")
