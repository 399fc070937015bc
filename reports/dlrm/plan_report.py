"""The page of a sharding plan: memory, work and traffic of every rank; every table; planners compared."""

from __future__ import annotations

from typing import Any

import numpy as np

from inputs.quantities import format_quantity
from reports.dlrm.plan_tables import SHORT, costliest, cut_in_words, ranks_in_words, shards_in_words, stored_in_words
from reports.markup import Cell, Markup, PageSection, TableRow, number, strong, table, tile
from reports.numbers import percent, seconds
from reports.plan_page import chart_card, iteration_tile, page_of_plan, quantity_tile
from scenarios.dlrm.plan_study import DlrmPlanStudy, PlannedBy, imbalance
from workloads.dlrm.sharding import PHASES

MOST_ROWS = 4096
"""Maximum number of rows, ranks or tables, in a table of the page; charts draw all ranks."""


def render_plan(study: DlrmPlanStudy, version: str) -> str:
    """The page, self-contained and offline."""
    return page_of_plan(
        study.resolved,
        version,
        title="sharding plan",
        headline=_headline(study),
        findings=[_finding(study)],
        tiles=_tiles(study),
        facts=[
            ("Ranks", f"{study.plan.world_size:,}, {study.plan.local_world_size} per node"),
            ("Planner", study.plan.planner),
        ],
        script="plan.js",
        sections=_sections(study),
    )


def _headline(study: DlrmPlanStudy) -> Markup:
    worst = imbalance(study.statistics.perf_s)["max_over_mean"]
    return strong(
        "{} tables on {} ranks: the slowest rank has {} of the mean work.",
        f"{len(study.plan.tables):,}",
        f"{study.plan.world_size:,}",
        percent(worst),
    )


def _finding(study: DlrmPlanStudy) -> str:
    """Time of the plan and, in a comparison of planners, its gain over the next plan."""
    found = [(row.planner, row.iteration_time_s) for row in study.compared if row.iteration_time_s is not None]
    takes = f"An iteration takes {seconds(study.iteration_time_s)} with this plan"
    if not found:
        return f"{takes}."
    fastest = f"{takes}, the fastest of {len(found)}, found by {found[0][0]}"
    slower = next(((name, time) for name, time in found if time > study.iteration_time_s), None)
    if slower is None:
        return f"{fastest}; all take the same."
    return f"{fastest}; the next one, of {slower[0]}, takes {percent(slower[1] / study.iteration_time_s - 1.0)} longer."


def _tiles(study: DlrmPlanStudy) -> tuple[str, ...]:
    found = study.statistics
    fullest = float(found.hbm_bytes.max())
    share = percent(fullest / study.capacity_bytes["hbm"])
    slowest = int(found.perf_s.argmax())
    return (
        iteration_tile(study.iteration_time_s, "simulated with this plan"),
        quantity_tile("Fullest HBM", format_quantity(fullest, "bytes"), f"{share} of its capacity"),
        tile("Slowest rank", str(slowest), "", f"{seconds(float(found.perf_s[slowest]))} of table work"),
        *(
            tile(f"{name.capitalize()} imbalance", f"{imbalance(values)['max_over_mean']:.3f}", "", "max / mean")
            for name, values in found.measured().items()
            if name in ("perf", "output")
        ),
    )


def _sections(study: DlrmPlanStudy) -> tuple[PageSection, ...]:
    charts = [
        (
            "work",
            "Work of ranks",
            "Seconds of tables in each phase: the costs that planners balance.",
        ),
        ("memory", "Memory of ranks", "Everything in device memory; the line is the usable memory."),
        ("exchange", "Bytes of ranks", f"Indices received and {_vectors(study)} sent in an iteration."),
        ("shards", "Shards of ranks", "Number of shards of each sharding type."),
    ]
    if study.compared:
        charts.insert(0, ("planners", "Planners", "Time of an iteration, simulated with each planner's plan."))
    sections = [PageSection(a, title, title, lede, chart_card(a)) for a, title, lede in charts]
    listed = _listed(study)
    cut = study.plan.world_size > len(listed)
    title = f"The slowest {MOST_ROWS:,} of {study.plan.world_size:,} ranks" if cut else "All ranks"
    ranks = PageSection("ranks", title, title, "", _rank_table(study, listed), {"plan": _payload(study)})
    tables = PageSection("tables", _tables_title(study), "Tables", _TABLES_LEDE, _table_table(study))
    compared = (
        [PageSection("compared", "All planners", "All planners", "", _planner_table(study))] if study.compared else []
    )
    return (*sections, tables, ranks, *compared)


def _vectors(study: DlrmPlanStudy) -> str:
    """Vectors of the forward exchange; vectors of sequences are not summed."""
    return "unpooled vectors" if study.plan.tables.unpooled.any() else "pooled vectors"


def _payload(study: DlrmPlanStudy) -> dict[str, Any]:
    found = study.statistics
    return {
        "phases": {phase: (1e3 * found.phases_s[:, k]).tolist() for k, phase in enumerate(PHASES)},
        "hbm": (found.hbm_bytes / 1e9).tolist(),
        "capacity": study.capacity_bytes["hbm"] / 1e9,
        "input": (found.input_bytes / 1e6).tolist(),
        "output": (found.output_bytes / 1e6).tolist(),
        "shards": {SHORT[kind]: count.tolist() for kind, count in found.shards.items()},
        "planners": [
            {"name": row.planner, "ms": 1e3 * row.iteration_time_s}
            for row in study.compared
            if row.iteration_time_s is not None
        ],
    }


def _listed(study: DlrmPlanStudy) -> list[int]:
    """Ranks of the table: all, or those with most to do, in order."""
    slowest = np.argsort(-study.statistics.perf_s, kind="stable")[:MOST_ROWS]
    return [int(rank) for rank in np.sort(slowest)]


def _rank_table(study: DlrmPlanStudy, ranks: list[int]) -> str:
    head = ("rank", "HBM", "DDR", "perf", *PHASES, "input bytes", "output bytes", "shards")
    return table(head, [_rank_row(study, rank) for rank in ranks], numbers=range(10))


def _rank_row(study: DlrmPlanStudy, rank: int) -> TableRow:
    found = study.statistics
    sizes = [
        number(format_quantity(float(b[rank]), "bytes"), float(b[rank])) for b in (found.hbm_bytes, found.ddr_bytes)
    ]
    times = [number(seconds(float(s)), float(s)) for s in (found.perf_s[rank], *found.phases_s[rank])]
    moved = [
        number(format_quantity(float(b[rank]), "bytes"), float(b[rank]))
        for b in (found.input_bytes, found.output_bytes)
    ]
    return TableRow((number(str(rank), rank), *sizes, *times, *moved, shards_in_words(study, rank)))


_TABLES_LEDE = (
    "Times are the costs that planners balance, summed over the ranks of a table. Bytes are weights, "
    "optimizer state and caches on all ranks."
)


def _tables_title(study: DlrmPlanStudy) -> str:
    count = len(study.plan.tables)
    return "All tables" if count <= MOST_ROWS else f"The costliest {MOST_ROWS:,} of {count:,} tables"


def _table_table(study: DlrmPlanStudy) -> str:
    head = ("table", "rows", "dim", "cut", "ranks", "kernel", "bytes", "perf", *PHASES)
    kernels = study.plan.compute_kernels
    shown = costliest(study, MOST_ROWS)
    return table(head, [_table_row(study, of, kernels[of]) for of in shown], numbers=(1, 2, *range(6, 12)))


def _table_row(study: DlrmPlanStudy, of_table: int, kernel: str) -> TableRow:
    tables, found = study.plan.tables, study.tables
    rows, dim, ranks = int(tables.rows[of_table]), int(tables.dim[of_table]), found.ranks[of_table]
    held = sum(float(of[of_table]) for of in found.stored_bytes.values())
    times = (found.perf_s[of_table], *found.phases_s[of_table])
    return TableRow(
        (
            tables.names[of_table],
            number(f"{rows:,}", rows),
            number(str(dim), dim),
            cut_in_words(study, of_table),
            Cell(ranks_in_words(ranks, study.plan.world_size), int(ranks[0])),
            kernel,
            number(stored_in_words(study, of_table), held),
            *(number(seconds(float(time)), float(time)) for time in times),
        )
    )


def _planner_table(study: DlrmPlanStudy) -> str:
    head = ("planner", "iteration", "fullest HBM", "perf max / mean", "tables")
    return table(head, [_planner_row(row) for row in study.compared], numbers=range(1, 4))


def _planner_row(row: PlannedBy) -> TableRow:
    fullest, worst, kinds = row.max_hbm_bytes, row.imbalance, row.tables_by_type
    if row.iteration_time_s is None or fullest is None or worst is None or kinds is None:
        return TableRow((row.planner, "", "", "", Cell(row.message, style="wide")))
    return TableRow(
        (
            row.planner,
            number(seconds(row.iteration_time_s), row.iteration_time_s),
            number(format_quantity(fullest, "bytes"), fullest),
            number(f"{worst['perf']:.3f}", worst["perf"]),
            ", ".join(f"{kinds[kind]} {kind}" for kind in SHORT if kind in kinds),
        )
    )
