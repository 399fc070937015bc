"""``dlrmsim sweep``: simulate a scenario at many sizes, print and draw how it scales."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer


class ScalingChoice(StrEnum):
    """What stays the same while the cluster grows."""

    weak = "weak"
    strong = "strong"


def sweep(
    scenario: Annotated[str, typer.Argument(help="A shipped scenario (see `list scenarios`) or a YAML file.")],
    *,
    over: Annotated[str, typer.Option("--over", metavar="KEY=SIZES", help="Sizes, e.g. nodes=1,2,4,...,512.")],
    scaling: Annotated[
        ScalingChoice, typer.Option("--scaling", help="weak keeps the local batch, strong the global one.")
    ] = ScalingChoice.weak,
    settings: Annotated[
        list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Change a key. Repeatable.")
    ] = None,
    out: Annotated[Path | None, typer.Option("--out", help="Output folder (default runs/NAME-SCALING-HASH8).")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the rows as JSON and nothing else.")] = False,
    workers: Annotated[int | None, typer.Option("--workers", min=1, help="Processes (default: one per core).")] = None,
    executor: Annotated[
        str | None, typer.Option("--executor", metavar="dask://HOST:PORT", help="Use a dask cluster.")
    ] = None,
) -> None:
    """Simulate a scenario at many sizes and say how it scales, what bounds it, and where it does not fit."""
    from dlrmsim.cli.printing import print_json, text_console
    from dlrmsim.cli.progress import progress_display
    from dlrmsim.verbs import sweep as sweeping
    from reports.tables import scaling_table

    plan = sweeping.plan_sweep(scenario, over, scaling.value, settings or [])
    with progress_display() as progress:
        swept = sweeping.sweep(plan, out=out, workers=workers, executor=executor, progress=progress)
    if as_json:
        print_json({"name": plan.base.name, "scaling": plan.scaling, "points": swept.rows})
        return
    text_console().print(scaling_table(swept.study.ordered))
    typer.echo(f"  report  {swept.folder / 'scaling.html'}")
