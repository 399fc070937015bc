"""``dlrmsim sweep``: simulate a scenario with many values of its keys, print and draw the results."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dlrmsim.cli.options import Fresh, Scenario, Settings, Workers, refuse, say_taken_over

if TYPE_CHECKING:  # loaded by the command
    from dlrmsim.verbs.sweep import SweepResult


class ScalingChoice(StrEnum):
    """Quantity that stays the same while the cluster grows."""

    weak = "weak"
    strong = "strong"


Scaling = Annotated[
    ScalingChoice | None,
    typer.Option("--scaling", help="weak (default) keeps the local batch, strong the global one."),
]
OVER = "Values of a key, e.g. nodes=1,2,4,...,512. Repeatable: all combinations."


def sweep(
    scenario: Scenario,
    *,
    over: Annotated[list[str], typer.Option("--over", metavar="KEY=VALUES", help=OVER)],
    scaling: Scaling = None,
    settings: Settings = None,
    out: Annotated[
        Path | None, typer.Option("--out", help="Output folder (default runs/NAME-KEYS-SCALING-HASH8).")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the rows as JSON and nothing else.")] = False,
    remedies: Annotated[
        bool, typer.Option("--remedies", help="Print memory tiers and settings that help for points that do not fit.")
    ] = False,
    workers: Workers = None,
    executor: Annotated[
        str | None, typer.Option("--executor", metavar="dask://HOST:PORT", help="Use a dask cluster.")
    ] = None,
    fresh: Fresh = False,
) -> None:
    """Simulate a scenario at many sizes, or with values of any keys; print what bounds it and where it fails.

    dlrmsim sweep tf_resnet50 --over workload.strategy=grpc_ps,horovod_nccl --over nodes=1,2,4,...,64

    The number of nodes or ranks is the axis of the charts, else the last key whose values are numbers. Every
    combination of values of the other keys is a line.
    """
    import dlrmsim
    from dlrmsim.cli.printing import print_json
    from dlrmsim.cli.progress import progress_display

    if executor is not None:
        refuse("with --executor", {"--workers": workers})
    if as_json:
        refuse("with --json", {"--remedies": remedies or None})
    with progress_display() as progress:
        done = dlrmsim.sweep(
            scenario,
            over=over,
            scaling=None if scaling is None else scaling.value,
            settings=settings or (),
            workers=workers,
            executor=executor,
            out=out,
            fresh=fresh,
            progress=progress,
        )
    say_taken_over(done.taken_over)
    if as_json:
        print_json(done.to_dict())
    else:
        _print(done, remedies=remedies)


def _print(done: SweepResult, *, remedies: bool) -> None:
    """Print the tables of a sweep, and the path of its report."""
    from dlrmsim.cli.printing import text_console
    from reports.tables import scaling_report

    console = text_console()
    console.print(*scaling_report(done.study, remedies=remedies), sep="\n")
    console.print(f"  report  {done.folder / 'scaling.html'}", soft_wrap=True)
