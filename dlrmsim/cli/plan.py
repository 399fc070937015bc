"""``dlrmsim plan``: make a sharding plan, print what it does to every rank, write it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def plan(
    scenario: Annotated[str, typer.Argument(help="A shipped scenario (see `list scenarios`) or a YAML file.")],
    *,
    planner: Annotated[
        str | None, typer.Option("--planner", metavar="NAME", help="Plan with this one (see `list planners`).")
    ] = None,
    settings: Annotated[
        list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Change a key. Repeatable.")
    ] = None,
    compare: Annotated[bool, typer.Option("--compare", help="Plan with every planner and compare.")] = False,
    out: Annotated[Path | None, typer.Option("--out", help="Write plan.json, statistics.json and plan.html.")] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print plan and statistics as JSON and nothing else.")
    ] = False,
) -> None:
    """Shard the tables of a scenario and say what every rank holds, computes, receives and sends."""
    from dlrmsim.cli.printing import print_json, text_console
    from dlrmsim.cli.progress import progress_display
    from dlrmsim.verbs import plan as planning
    from reports.plan_tables import plan_tables

    request = planning.PlanRequest(scenario, settings or (), planner, compare=compare, out=out)
    with progress_display() as progress:
        study = planning.plan(request, progress)
    if as_json:
        print_json(planning.as_json(study))
        return
    console = text_console()
    for part in plan_tables(study):
        console.print(part)
    if out is None:
        console.print("  nothing was written: --out DIR writes plan.json and a page", style="dim")
    else:
        console.print(f"  plan  {out / planning.PLAN_FILE}\n  page  {out / planning.PAGE_FILE}", soft_wrap=True)
