"""``dlrmsim what-if``: some keys of a scenario changed, with its plan or with a plan of its own."""

from __future__ import annotations

from typing import Annotated

import typer

from dlrmsim.cli.options import AsJson, Scenario, Settings
from dlrmsim.cli.terminal import print_line


def what_if(
    scenario: Scenario,
    *,
    changes: Annotated[
        list[str],
        typer.Option("--change", metavar="KEY=VALUE", help="Try a change; together: 'A=1 and B=2'. Repeatable."),
    ],
    own_plan: Annotated[bool, typer.Option("--own-plan", help="Plan each changed job again.")] = False,
    settings: Settings = None,
    as_json: AsJson = False,
) -> None:
    """Simulate a scenario, and then each change of it by itself, with the plan of the scenario.

    A change that is wrong or does not fit is a row with its reason; exit code 2 or 3 if all are.
    """
    import dlrmsim
    from dlrmsim.cli.printing import print_json
    from dlrmsim.cli.progress import progress_display
    from inputs.quantities import format_quantity
    from scenarios.what_if import in_rows

    with progress_display() as progress:
        found = dlrmsim.what_if(
            scenario, changes=changes, plan="own" if own_plan else "kept", settings=settings or (), progress=progress
        )
    rows = in_rows(found)
    if as_json:
        print_json({"name": found.base.resolved.name, "answers": rows})
        return
    width = max(len(" and ".join(row["settings"])) for row in rows)
    for row in rows:
        name = " and ".join(row["settings"]) or found.base.resolved.name
        if row["iteration_time_s"] is None:
            print_line(f"{name:{width}}  {row['refusal'].splitlines()[0]}")
            continue
        change = "" if not row["settings"] else f"{-100 * row['gain']:+8.1f} % time per sample, {_PLANS[row['plan']]}"
        print_line(f"{name:{width}}  {format_quantity(row['iteration_time_s'], 's'):>9}{change}")


_PLANS = {"kept": "same plan", "own": "a plan of its own"}
