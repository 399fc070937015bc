"""The page of a plan for blocks: device memory over the iteration, comparison of plans, the blocks."""

from __future__ import annotations

from typing import Any

from inputs.quantities import format_quantity
from reports.convnet.plan_tables import (
    CAPTION,
    device_share,
    extent,
    finding,
    name_of,
    rate_of,
    rows_of,
    time_of,
    title,
)
from reports.markup import PageSection, TableRow, number, strong, table, tile
from reports.plan_page import chart_card, gpus, iteration_tile, page_of_plan, quantity_tile, sentence
from scenarios.convnet.out_of_core import CopiedBytes
from scenarios.convnet.plan_study import ConvnetPlanStudy


def render_plan(study: ConvnetPlanStudy, version: str) -> str:
    """The page, self-contained and offline."""
    resolved = study.resolved
    return page_of_plan(
        resolved,
        version,
        title="plan of blocks",
        headline=strong("{}", title(study)),
        findings=[sentence(finding(study)), sentence(extent(study))],
        tiles=_tiles(study),
        facts=[
            gpus(resolved),
            ("Images", f"{resolved.local_batch_size:,} an iteration and GPU"),
            ("Weights", "in host memory" if study.best.job.weights == "swap" else "in device memory"),
        ],
        script="blocks.js",
        sections=_sections(study),
    )


def _tiles(study: ConvnetPlanStudy) -> tuple[str, ...]:
    best = study.best
    peak = format_quantity(best.job.schedule.peak_bytes, "bytes")
    copied = format_quantity(CopiedBytes.of(best.job).both, "bytes")
    return (
        iteration_tile(best.iteration_time_s, "simulated with this plan"),
        tile("Throughput", f"{rate_of(study, best):,.0f}", "images/s", "over all GPUs"),
        quantity_tile("Blocks in memory", peak, f"at most, {device_share(study)} of their room"),
        quantity_tile("Copied", copied, "an iteration and GPU, both ways"),
    )


def _sections(study: ConvnetPlanStudy) -> tuple[PageSection, ...]:
    lede = "Device memory of blocks on the first GPU in a run with the plan; the line is the room for blocks."
    over_time, payload = "Memory over time", {"plan": _payload(study)}
    one = "The plan, and plans with one decision for all blocks except the last block, which stays."
    return (
        PageSection("memory", over_time, over_time, lede, chart_card("memory"), payload),
        PageSection("compared", "Plans", "Plans beside each other", one, _compared(study)),
        PageSection("blocks", "Blocks", "Blocks of the plan", sentence(CAPTION), _blocks(study)),
    )


def _payload(study: ConvnetPlanStudy) -> dict[str, Any]:
    return {
        "moments": [{"s": at.seconds, "gb": at.bytes / 1e9, "step": at.step} for at in study.curve],
        "room": study.best.job.room_bytes / 1e9,
    }


def _compared(study: ConvnetPlanStudy) -> str:
    rows = []
    for found in study.compared:
        time_s, schedule, copied = found.iteration_time_s, found.job.schedule, CopiedBytes.of(found.job).both
        rate, over = rate_of(study, found), (time_s or 0.0) / (study.best.iteration_time_s or 1.0)
        rows.append(
            TableRow(
                (
                    name_of(found),
                    number(time_of(found), time_s or float("inf")),
                    number(f"{rate:,.0f}" if time_s else "", rate),
                    number(f"{over:.2f}" if time_s else "", over),
                    number(format_quantity(schedule.peak_bytes, "bytes"), schedule.peak_bytes),
                    number(format_quantity(schedule.out_bytes, "bytes"), schedule.out_bytes),
                    number(format_quantity(copied, "bytes"), copied),
                )
            )
        )
    head = ("plan", "iteration", "images/s", "over the plan", "blocks in memory", "to the host", "copied")
    return table(head, rows, numbers=range(1, 7))


def _blocks(study: ConvnetPlanStudy) -> str:
    job = study.best.job
    rows = []
    for cells, sizes, times in zip(rows_of(study), job.sizes, study.block_times_s, strict=True):
        values = (sizes.input, sizes.inner, *times)
        rows.append(TableRow((*cells[:2], *map(number, cells[2:], values))))
    head = ("block up to", "decision", "input", "inside", "forward", "backward", "copy")
    return table(head, rows, numbers=range(2, 7))
