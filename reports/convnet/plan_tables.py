"""Tables on the terminal: comparison of plans for the blocks of a network, and the blocks of the best plan."""

from __future__ import annotations

from inputs.quantities import format_quantity
from reports.numbers import counted, percent, seconds
from reports.text_table import TextTable
from scenarios.convnet.out_of_core import BASELINES, TITLES_OF_DECISIONS, CopiedBytes
from scenarios.convnet.plan_study import ConvnetPlanStudy, PlanCompared

CAPTION = (
    "input: the tensor that the block reads; inside: other tensors that its backward pass reads; times: of kernels, "
    "and of a copy of all its tensors one way, alone"
)


def plan_tables(study: ConvnetPlanStudy) -> list[TextTable | str]:
    """Printed parts in their order."""
    return [headline(study), compared_table(study), blocks_table(study)]


def headline(study: ConvnetPlanStudy) -> str:
    """Printed lines: job, plan, and its time compared with other plans."""
    return "\n  ".join((title(study), f"{finding(study)}.", f"{extent(study)}."))


def title(study: ConvnetPlanStudy) -> str:
    """Job and device."""
    resolved = study.resolved
    images = f"{resolved.local_batch_size:,} images a GPU on {counted(resolved.world_size, 'GPUs')}"
    return f"{resolved.name}: {resolved.model.name}, {images} of {resolved.cluster.name}"


def finding(study: ConvnetPlanStudy) -> str:
    """Decisions of the plan, its time, and the times of the other plans over it."""
    best = study.best
    time_s = best.iteration_time_s or 0.0
    counts = ", ".join(
        f"{best.plan.decisions.count(decision)} {words}"
        for decision, words in TITLES_OF_DECISIONS.items()
        if decision in best.plan.decisions
    )
    others = [
        f"{(found.iteration_time_s or 0.0) / time_s:.2f} times as long with {BASELINES[found.name]}"
        for found in study.compared
        if found.name in BASELINES and found.iteration_time_s is not None
    ]
    return f"an iteration takes {seconds(time_s)} with blocks {counts}{'; ' if others else ''}{', '.join(others)}"


def extent(study: ConvnetPlanStudy) -> str:
    """Number of plans that the search estimated and simulated."""
    if not study.estimated:
        return "the plan is the scenario's own"
    return f"{study.estimated:,} plans estimated, {study.simulated} simulated"


def name_of(found: PlanCompared) -> str:
    """Name of a plan in words."""
    return BASELINES.get(found.name, {"karma": "karma: planned by block"}.get(found.name, "the scenario's own plan"))


def time_of(found: PlanCompared) -> str:
    """Iteration time of a plan, or its missing memory."""
    if found.iteration_time_s is None:
        return f"lacks {format_quantity(found.lacking_bytes, 'bytes')}"
    return seconds(found.iteration_time_s)


def rate_of(study: ConvnetPlanStudy, found: PlanCompared) -> float:
    """Images per second of a plan that was simulated."""
    return study.resolved.global_batch_size / (found.iteration_time_s or float("inf"))


def compared_table(study: ConvnetPlanStudy) -> TextTable:
    """A row for each plan."""
    made = TextTable(title="plans with one decision for all blocks except the last, and the plan", caption="")
    made.words("plan").numbers("iteration", "images/s", "over the plan", "blocks in memory", "to the host", "copied")
    for found in study.compared:
        ran = found.iteration_time_s is not None
        made.add_row(
            name_of(found),
            time_of(found),
            f"{rate_of(study, found):,.0f}" if ran else "",
            f"{(found.iteration_time_s or 0.0) / (study.best.iteration_time_s or 1.0):.2f}" if ran else "",
            format_quantity(found.job.schedule.peak_bytes, "bytes"),
            format_quantity(found.job.schedule.out_bytes, "bytes"),
            format_quantity(CopiedBytes.of(found.job).both, "bytes"),
            style="bold" if found is study.best else "",
        )
    return made


def blocks_table(study: ConvnetPlanStudy) -> TextTable:
    """A row for each block of the plan."""
    made = TextTable(title="blocks of the plan, by their last layers", caption=CAPTION)
    made.words("block up to", "decision").numbers("input", "inside", "forward", "backward", "copy")
    for row in rows_of(study):
        made.add_row(*row)
    return made


def rows_of(study: ConvnetPlanStudy) -> list[tuple[str, ...]]:
    """Cells of each block: name, decision, bytes, and times."""
    job = study.best.job
    return [
        (
            block.last,
            TITLES_OF_DECISIONS[decision],
            format_quantity(sizes.input, "bytes"),
            format_quantity(sizes.inner, "bytes"),
            *(seconds(time) for time in times),
        )
        for block, decision, sizes, times in zip(
            job.blocks, job.plan.decisions, job.sizes, study.block_times_s, strict=True
        )
    ]


def device_share(study: ConvnetPlanStudy) -> str:
    """Peak memory of blocks as a share of the room for blocks."""
    return percent(study.best.job.schedule.peak_bytes / study.best.job.room_bytes)
