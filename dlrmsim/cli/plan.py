"""``dlrmsim plan``: find the placement of a job on its ranks, print its effects, write it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dlrmsim.cli.options import Fresh, Scenario, Settings, refuse, say_taken_over

if TYPE_CHECKING:  # loaded by the command
    from dlrmsim.verbs.plan import PlanResult


def plan(
    scenario: Scenario,
    *,
    planner: Annotated[
        str | None, typer.Option("--planner", metavar="NAME", help="Plan with this one (see `list planners`).")
    ] = None,
    search: Annotated[
        str | None,
        typer.Option("--search", metavar="NAME", help="strategies: the fastest strategies of layers by level."),
    ] = None,
    settings: Settings = None,
    compare: Annotated[
        bool, typer.Option("--compare", help="Compare more plans, such as those of all planners, and take the fastest.")
    ] = False,
    out: Annotated[Path | None, typer.Option("--out", help="Write plan.json, statistics.json and plan.html.")] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print plan and statistics as JSON and nothing else.")
    ] = False,
    fresh: Fresh = False,
) -> None:
    """Place a job on its ranks: tables of a DLRM, the division of a transformer, or blocks of a convnet out of core."""
    import dlrmsim
    from dlrmsim.cli.printing import print_json
    from dlrmsim.cli.progress import progress_display

    if not compare:
        refuse("without --compare", {"--fresh": fresh or None})
    with progress_display() as progress:
        done = dlrmsim.plan(
            scenario,
            planner=planner,
            search=search,
            compare=compare,
            settings=settings or (),
            out=out,
            fresh=fresh,
            progress=progress,
        )
    say_taken_over(done.taken_over)
    if as_json:
        print_json(done.to_dict())
    else:
        _print(done)


def _print(done: PlanResult) -> None:
    """Print the tables of a plan, notes, and the paths of written files."""
    from dlrmsim.cli.printing import text_console
    from reports.plans import tables_of_plan

    console = text_console()
    for part in tables_of_plan(done.study):
        console.print(part)
    for note in done.study.resolved.notes:
        console.print(f"  note  {note}")
    if done.folder is None:
        console.print("  nothing was written: --out DIR writes plan.json and a page", style="dim")
    else:
        console.print(f"  plan  {done.folder / 'plan.json'}\n  page  {done.folder / 'plan.html'}", soft_wrap=True)
