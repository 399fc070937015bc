"""``dlrmsim measure``: train a scenario on this machine and write down how long its iterations take."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from dlrmsim.cli.options import Scenario, Settings


class DeviceChoice(StrEnum):
    """Device to train on."""

    cpu = "cpu"
    cuda = "cuda"


def measure(
    scenario: Scenario,
    *,
    ranks: Annotated[
        int | None, typer.Option("--ranks", metavar="N", min=1, help="Processes; overrides the scenario's world_size.")
    ] = None,
    iterations: Annotated[int, typer.Option("--iterations", metavar="K", min=1, help="Iterations to time.")] = 50,
    out: Annotated[Path | None, typer.Option("--out", help="Output folder (default runs/NAME-HASH8-measured).")] = None,
    settings: Settings = None,
    data: Annotated[
        Path | None, typer.Option("--data", metavar="FILE", help="Clicks in Criteo's format (default: synthetic).")
    ] = None,
    device: Annotated[
        DeviceChoice | None, typer.Option("--device", help="Default: cuda where every rank has a GPU.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print measured.json and nothing else.")] = False,
) -> None:
    """Train a scenario with the reference trainer (PyTorch) and time its iterations."""
    import dlrmsim
    from dlrmsim.cli.headline import print_measured
    from dlrmsim.cli.printing import print_json
    from dlrmsim.cli.progress import progress_display

    with progress_display() as progress:
        done = dlrmsim.measure(
            scenario,
            settings=settings or (),
            ranks=ranks,
            iterations=iterations,
            data=data,
            device=device,
            out=out,
            progress=progress,
        )
    if as_json:
        print_json(done.summary)
    else:
        print_measured(done.summary, done.folder)
