"""A sharding plan as TorchRec's planner prints it: ranks, tables, imbalances, and planners compared."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

import numpy as np

from inputs.quantities import format_quantity
from reports.numbers import percent, seconds
from reports.text_table import TextTable
from scenarios.dlrm.plan_study import DlrmPlanStudy, PlannedBy, imbalance
from simulator.program import IntArray
from workloads.dlrm.model.storage import COMPUTE_KERNELS
from workloads.dlrm.sharding import PHASES, ShardingType
from workloads.graph.memory import TIERS

SHORT: dict[ShardingType, str] = {
    "table_wise": "TW",
    "column_wise": "CW",
    "row_wise": "RW",
    "table_row_wise": "TWRW",
    "table_column_wise": "TWCW",
    "grid_shard": "GRID",
    "data_parallel": "DP",
}
"""TorchRec's abbreviations."""

MOST_ROWS = 64
"""Maximum number of ranks, or tables, that are all printed; of more ranks the slowest and fastest are printed."""

ENDS = 8
"""Number of slowest and of fastest ranks that are printed of many."""

COSTLIEST = 24
"""Tables of many."""

MOST_RANKS = 3
"""Maximum number of ranges of ranks in a row of a table."""


def plan_tables(study: DlrmPlanStudy) -> list[TextTable | str]:
    """Printed tables in their order."""
    parts: list[TextTable | str] = [headline(study), rank_table(study), table_table(study), imbalance_table(study)]
    if study.compared:
        parts.append(comparison_table(study.compared))
    return parts


def headline(study: DlrmPlanStudy) -> str:
    """Job, planner, tables by type, time."""
    resolved, plan = study.resolved, study.plan
    kinds = plan.sharding_types
    types = ", ".join(f"{kinds.count(kind)} {kind}" for kind in SHORT if kind in kinds)
    names = plan.compute_kernels
    kernels = ", ".join(f"{names.count(kernel)} {kernel}" for kernel in COMPUTE_KERNELS if kernel in names)
    elsewhere = f"; kernels: {kernels}" if set(names) - {"fused", "dense"} else ""
    scaled = f", rows scaled by {plan.rows_scale:.4f}" if plan.rows_scale < 1 else ""
    return (
        f"{resolved.name}: {len(plan.tables):,} tables on {plan.world_size:,} ranks, "
        f"{plan.local_world_size} per node, planned by {plan.planner}{scaled}\n"
        f"  sharded as {types}{elsewhere}; an iteration takes {seconds(study.iteration_time_s)}"
    )


def shown_ranks(study: DlrmPlanStudy) -> Sequence[int]:
    """All ranks, or the slowest and fastest of many, by rank."""
    count = study.plan.world_size
    if count <= MOST_ROWS:
        return range(count)
    order = np.argsort(study.statistics.perf_s, kind="stable")
    return sorted({int(rank) for rank in (*order[:ENDS], *order[-ENDS:])})


def shards_in_words(study: DlrmPlanStudy, rank: int) -> str:
    """``TW: 3 CW: 2``."""
    return " ".join(f"{SHORT[kind]}: {count[rank]}" for kind, count in study.statistics.shards.items() if count[rank])


def rank_table(study: DlrmPlanStudy) -> TextTable:
    """A row per rank."""
    found, capacity, ranks = study.statistics, study.capacity_bytes, shown_ranks(study)
    made = TextTable()
    if len(ranks) < study.plan.world_size:
        made.title = f"the {ENDS} slowest and fastest of {study.plan.world_size:,} ranks"
    made.numbers("rank", "HBM", "DDR", "perf", *PHASES, "input bytes", "output bytes").words("shards")
    for rank in ranks:
        times = (seconds(float(s)) for s in (found.perf_s[rank], *found.phases_s[rank]))
        sizes = (format_quantity(float(b[rank]), "bytes") for b in (found.input_bytes, found.output_bytes))
        made.add_row(
            str(rank),
            _filled(float(found.hbm_bytes[rank]), capacity["hbm"]),
            _filled(float(found.ddr_bytes[rank]), capacity["ddr"]),
            *times,
            *sizes,
            shards_in_words(study, rank),
        )
    return made


def table_table(study: DlrmPlanStudy) -> TextTable:
    """A row per table, the costliest first."""
    plan, found, kernels = study.plan, study.tables, study.plan.compute_kernels
    many = len(plan.tables) > MOST_ROWS
    made = TextTable(
        title=f"the {COSTLIEST} costliest of {len(plan.tables):,} tables" if many else "costliest tables first"
    )
    made.caption = "times are sums over the ranks of a table"
    made.words("table").numbers("rows", "dim").words("cut", "ranks", "kernel").numbers("bytes", "perf", *PHASES)
    for table in costliest(study, COSTLIEST if many else MOST_ROWS):
        times = (seconds(float(s)) for s in (found.perf_s[table], *found.phases_s[table]))
        made.add_row(
            plan.tables.names[table],
            f"{plan.tables.rows[table]:,}",
            str(plan.tables.dim[table]),
            cut_in_words(study, table),
            ranks_in_words(found.ranks[table], plan.world_size),
            kernels[table],
            stored_in_words(study, table),
            *times,
        )
    return made


def costliest(study: DlrmPlanStudy, most: int) -> list[int]:
    """The ``most`` costliest tables, by descending cost."""
    return [int(table) for table in np.argsort(-study.tables.perf_s, kind="stable")[:most]]


def cut_in_words(study: DlrmPlanStudy, table: int) -> str:
    """Sharding type of a table, and the number of its column ranges: ``CW 4``."""
    pieces = int(study.tables.pieces[table])
    return SHORT[study.plan.sharding_types[table]] + (f" {pieces}" if pieces > 1 else "")


def ranks_in_words(ranks: IntArray, world_size: int) -> str:
    """``all``, or runs of ranks: ``0-7, 12, 15 and 9 more``."""
    if len(ranks) == world_size:
        return "all"
    grouped = groupby(enumerate(ranks.tolist()), lambda pair: pair[1] - pair[0])
    runs = [[rank for _, rank in run] for _, run in grouped]
    shown = ", ".join(str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs[:MOST_RANKS])
    more = sum(len(run) for run in runs[MOST_RANKS:])
    return f"{shown} and {more} more" if more else shown


def stored_in_words(study: DlrmPlanStudy, table: int) -> str:
    """Bytes of a table over all ranks; outside device memory with the tier."""
    held = [(tier, float(study.tables.stored_bytes[tier][table])) for tier in TIERS]
    found = [_bytes(size) if tier == "hbm" else f"{_bytes(size)} {tier}" for tier, size in held if size > 0]
    return " + ".join(found) or "0"


def _bytes(value: float) -> str:
    return format_quantity(float(value), "bytes")


def _filled(used: float, capacity: float) -> str:
    return f"{format_quantity(used, 'bytes')} ({percent(used / capacity)})"


def imbalance_table(study: DlrmPlanStudy) -> TextTable:
    """Imbalance of each quantity."""
    made = TextTable().words("imbalance")
    made.numbers("max / mean", "total variation", "KL divergence", "fullest rank")
    for name, values in study.statistics.measured().items():
        measures = imbalance(values)
        made.add_row(
            name,
            f"{measures['max_over_mean']:.3f}",
            f"{measures['total_variation']:.4f}",
            f"{measures['kl_divergence']:.5f}",
            str(int(values.argmax())),
        )
    return made


def comparison_table(compared: Sequence[PlannedBy]) -> TextTable:
    """A row per planner, fastest first."""
    made = TextTable().words("planner").numbers("iteration", "fullest HBM", "perf max / mean").words("tables")
    for row in compared:
        kinds, worst = row.tables_by_type, row.imbalance
        if row.iteration_time_s is None or row.max_hbm_bytes is None or worst is None or kinds is None:
            made.add_row(row.planner, "", "", "", row.message, style="yellow")
            continue
        made.add_row(
            row.planner,
            seconds(row.iteration_time_s),
            format_quantity(row.max_hbm_bytes, "bytes"),
            f"{worst['perf']:.3f}",
            " ".join(f"{SHORT[kind]}: {kinds[kind]}" for kind in SHORT if kind in kinds),
        )
    return made
