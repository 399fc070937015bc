"""``dlrmsim collective``: nccl-tests' table for a modelled cluster."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from dlrmsim.cli.options import refuse
from dlrmsim.cli.terminal import print_line


class PlacementChoice(StrEnum):
    """Placement of ranks on nodes."""

    block = "block"
    round_robin = "round_robin"
    random = "random"


def collective(
    cluster: Annotated[str, typer.Argument(help="A shipped cluster (see `list clusters`) or a YAML file.")],
    *,
    op: Annotated[str, typer.Option("--op", help="all_reduce, all_gather, reduce_scatter, all_to_all, broadcast...")],
    ranks: Annotated[str, typer.Option("--ranks", metavar="N[,N...]", help="Numbers of ranks, e.g. 8,16,64.")],
    sizes: Annotated[
        str, typer.Option("--bytes", metavar="LOW..HIGH", help="nccl-tests' sizes, e.g. 1KiB..1GiB or 1MiB,4MiB.")
    ] = "1KiB..1GiB",
    ranks_per_node: Annotated[
        int | None, typer.Option("--ranks-per-node", metavar="K", help="Ranks in use on each node (default: all).")
    ] = None,
    placement: Annotated[
        PlacementChoice, typer.Option("--placement", help="Placement of ranks on nodes.")
    ] = PlacementChoice.block,
    seed: Annotated[
        int | None, typer.Option("--seed", min=0, help="Seed of a random placement.", show_default="0")
    ] = None,
    algorithm: Annotated[str | None, typer.Option("--algorithm", help="Force one (see `list collectives`).")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print nccl-tests' JSON and nothing else.")] = False,
    plot: Annotated[
        Path | None, typer.Option("--plot", metavar="FILE", help="Write a page: busbw and time over size.")
    ] = None,
) -> None:
    """Print how long a collective takes at each size, as nccl-tests would."""
    import dlrmsim
    from dlrmsim.cli.printing import print_json, text_console
    from reports.collective_table import LINE_WIDTH, collective_lines, narrow_tables

    if placement is not PlacementChoice.random:
        refuse("without --placement random", {"--seed": seed})
    found = dlrmsim.collective(
        cluster,
        op=op,
        ranks=ranks,
        sizes=sizes,
        ranks_per_node=ranks_per_node,
        placement=placement.value,
        seed=seed or 0,
        algorithm=algorithm,
        out=plot,
    )
    if as_json:
        print_json(found.to_dict())
        return
    console = text_console()
    shown = collective_lines if console.width >= LINE_WIDTH else narrow_tables
    for part in shown(found.cluster.name, found.tables, found.intervals):
        console.print(part)
    if plot is not None:
        print_line(f"# page: {plot}")
