"""``dlrmsim sweep``: simulate a scenario at many sizes, print and draw how it scales."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from dlrmsim.cli.options import Fresh, Scenario, Settings, Workers, refuse, say_taken_over
from inputs.errors import InputError


class ScalingChoice(StrEnum):
    """Quantity that stays the same while the cluster grows."""

    weak = "weak"
    strong = "strong"


def sweep(
    scenario: Scenario,
    *,
    over: Annotated[list[str], typer.Option("--over", metavar="KEY=SIZES", help="Sizes, e.g. nodes=1,2,4,...,512.")],
    scaling: Annotated[
        ScalingChoice, typer.Option("--scaling", help="weak keeps the local batch, strong the global one.")
    ] = ScalingChoice.weak,
    settings: Settings = None,
    out: Annotated[Path | None, typer.Option("--out", help="Output folder (default runs/NAME-SCALING-HASH8).")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the rows as JSON and nothing else.")] = False,
    remedies: Annotated[
        bool, typer.Option("--remedies", help="Print memory tiers and settings that help for sizes that do not fit.")
    ] = False,
    workers: Workers = None,
    executor: Annotated[
        str | None, typer.Option("--executor", metavar="dask://HOST:PORT", help="Use a dask cluster.")
    ] = None,
    fresh: Fresh = False,
) -> None:
    """Simulate a scenario at many sizes and say how it scales, what bounds it, and where it does not fit."""
    import dlrmsim
    from dlrmsim.cli.printing import print_json, text_console
    from dlrmsim.cli.progress import progress_display
    from reports.tables import scaling_report

    if len(over) > 1:
        expected = "one list of sizes; values of other keys by --set, a sweep for each"
        raise InputError("several keys to sweep over", file="--over", given=" ".join(over), expected=expected)
    if executor is not None:
        refuse("with --executor", {"--workers": workers})
    if as_json:
        refuse("with --json", {"--remedies": remedies or None})
    with progress_display() as progress:
        done = dlrmsim.sweep(
            scenario,
            over=over[0],
            scaling=scaling.value,
            settings=settings or (),
            workers=workers,
            executor=executor,
            out=out,
            fresh=fresh,
            progress=progress,
        )
    say_taken_over(done.taken_over)
    if as_json:
        print_json({"name": done.plan.base.name, "scaling": done.plan.scaling, "points": done.rows})
        return
    console = text_console()
    for part in scaling_report(done.study, remedies=remedies):
        console.print(part)
    console.print(f"  report  {done.folder / 'scaling.html'}", soft_wrap=True)
