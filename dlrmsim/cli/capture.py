"""``dlrmsim capture``: record a training step of your own PyTorch code, without a GPU."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def capture(
    step: Annotated[
        str,
        typer.Argument(
            metavar="FILE.py[:FUNCTION]",
            help="FUNCTION(rank, world_size) returns a step to be called; or an example of `dlrmsim list examples`.",
        ),
    ],
    *,
    world_size: Annotated[int, typer.Option("--world-size", metavar="N", min=1, help="Ranks of the job.")],
    ranks: Annotated[
        str | None,
        typer.Option("--ranks", metavar="all|0,8", help="Ranks to capture (default: all if some of them differ)."),
    ] = None,
    samples: Annotated[
        int | None, typer.Option("--samples", metavar="N", min=1, help="Samples of a step on each rank.")
    ] = None,
    indices: Annotated[
        str | None, typer.Option("--indices", metavar="LAW", help="Law of lookups: uniform, zipf(1.05), ...")
    ] = None,
    fuse: Annotated[
        str | None, typer.Option("--fuse", metavar="none|elementwise", help="Chains of kernels as one kernel each.")
    ] = None,
    cluster: Annotated[str, typer.Option("--cluster", help="Cluster of the scenario that is written.")] = "dgx_h100",
    out: Annotated[Path | None, typer.Option("--out", help="Output folder (default runs/FILE-captured).")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the job as JSON and nothing else.")] = False,
) -> None:
    """Record a training step of your own PyTorch code: every kernel and collective, without a GPU."""
    import dlrmsim
    from dlrmsim.cli.capture_headline import print_captured
    from dlrmsim.cli.parsing import parse_ranks
    from dlrmsim.cli.printing import print_json
    from dlrmsim.cli.progress import progress_display

    with progress_display() as progress:
        done = dlrmsim.capture(
            step,
            world_size=world_size,
            ranks="all" if ranks == "all" else parse_ranks(ranks),
            samples=samples,
            indices=indices,
            fuse=fuse,
            cluster=cluster,
            out=out,
            progress=progress,
        )
    if as_json:
        print_json(done.summary)
    else:
        print_captured(done.summary, done.folder)
