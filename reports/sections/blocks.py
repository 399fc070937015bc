"""Section of the time of kernels by block of the network."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from reports.markup import PageSection, TableRow, number, table
from reports.numbers import percent, seconds
from scenarios.block_times import BlockTimes

HEAD = ("block", "parameters", "forward", "computed again", "backward, update", "in all", "share")
"""Columns: a block's parameters of one copy of the weights, then seconds of an iteration."""


def blocks_section(blocks: Sequence[BlockTimes]) -> PageSection:
    """A row for each block of the network, and their sum."""
    whole_s = sum(block.all_s for block in blocks)
    total = BlockTimes(
        "in all",
        sum(block.parameters for block in blocks),
        sum(block.forward_s for block in blocks),
        sum(block.again_s for block in blocks),
        sum(block.backward_s for block in blocks),
    )
    rows = [*(_row(block, whole_s) for block in blocks), _row(total, whole_s, style="total")]
    known = bool(total.parameters)
    left_out = "exchanges, waits, and copies of weights and gradients" if known else "exchanges and waits"
    return PageSection(
        anchor="blocks",
        title="Blocks of the network",
        short="Blocks",
        lede=f"Kernels of an iteration by block, mean over ranks, each alone on its GPU: without {left_out}.",
        body=table(HEAD, rows, numbers=range(1, 7)) if known else _without_parameters(rows),
    )


def _without_parameters(rows: Sequence[TableRow]) -> str:
    """The table of blocks whose parameters are unknown."""
    kept = [replace(row, cells=(row.cells[0], *row.cells[2:])) for row in rows]
    return table((HEAD[0], *HEAD[2:]), kept, numbers=range(1, 6))


def _row(block: BlockTimes, whole_s: float, style: str = "") -> TableRow:
    times = (block.forward_s, block.again_s, block.backward_s, block.all_s)
    share = block.all_s / whole_s if whole_s else 0.0
    return TableRow(
        (
            block.block,
            number(f"{block.parameters:,}" if block.parameters else "", block.parameters),
            *(number(seconds(time) if time else "", time) for time in times),
            number(percent(share), share, share=100 * share),
        ),
        style=style,
    )
