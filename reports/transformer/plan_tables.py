"""Tables on the terminal: simulated divisions of a transformer, and divisions that do not fit."""

from __future__ import annotations

from collections.abc import Iterator

from inputs.quantities import format_quantity
from reports.numbers import percent, seconds
from reports.text_table import TextTable
from scenarios.transformer.plan_study import TransformerPlanStudy
from scenarios.transformer.search import DivisionFound

MOST_REFUSED = 8
"""Largest number of rows in the table of divisions that do not fit; the nearest to fitting are printed."""

SIZES = ("tensor", "pipeline", "context", "data")
HEAD = (*SIZES, "virtual", "micro-batches", "sharding", "recompute")
"""Columns of a division: sizes of groups, virtual stages, number x sequences of micro-batches, and choices."""

CAPTION = (
    "memory: of the fullest GPU; bubble: share in which a stage waits were stages equal and messages free, "
    "(p - 1) / (v m + p - 1); exposed: share of the iteration with communication and no computation, "
    "waits for other stages included; times are times of runs"
)


def plan_tables(study: TransformerPlanStudy) -> list[TextTable | str]:
    """Printed parts in their order."""
    parts: list[TextTable | str] = [headline(study), simulated_table(study)]
    if study.refused:
        parts.append(refused_table(study))
    return [*parts, f"  {command(study)}"]


def headline(study: TransformerPlanStudy) -> str:
    """Job, fastest division, its gain, and the extent of the search."""
    return "\n  ".join((title(study), finding(study), extent(study)))


def title(study: TransformerPlanStudy) -> str:
    """Job and fastest division."""
    resolved = study.resolved
    return f"{resolved.name}: {resolved.model.name} on {resolved.world_size:,} GPUs, fastest as {in_words(study.best)}"


def finding(study: TransformerPlanStudy) -> str:
    """Time of the fastest division, and of the scenario's own."""
    best, own = study.best, study.own
    takes = f"an iteration takes {seconds(best.iteration_time_s or 0.0)}"
    if own is None:
        return f"{takes}; the scenario's own division does not fit"
    if own is best or own.iteration_time_s == best.iteration_time_s:
        return f"{takes}; the scenario's own division is the fastest"
    saved = 1.0 - (best.iteration_time_s or 0.0) / (own.iteration_time_s or 1.0)
    return f"{takes}, {percent(saved)} less than {seconds(own.iteration_time_s or 0.0)} as the scenario divides it"


def extent(study: TransformerPlanStudy) -> str:
    """Numbers of divisions that were simulated, that do not fit, and that cannot be faster."""
    found = [
        f"{study.count:,} divisions",
        f"{len(study.simulated)} simulated (at most {study.most})",
        f"{len(study.refused):,} without room",
        f"{study.slower:,} cannot be faster: their kernels and exchanges alone take longer",
    ]
    if study.left:
        found.append(f"{study.left:,} left that might be faster")
    return "; ".join(found)


def in_words(found: DivisionFound) -> str:
    """Groups of a division with more than one rank, its shards and recomputation."""
    groups = " x ".join(f"{getattr(found, name)} {name}" for name in SIZES if getattr(found, name) > 1) or "one rank"
    shards = "" if found.sharding == "none" else f", sharding {found.sharding}"
    virtual = "" if found.virtual_stages == 1 else f" ({found.virtual_stages} virtual stages)"
    sites = f", sites {sites_in_words(found)}" if found.site_order else ""
    return f"{groups}{virtual}{shards}, recompute {found.recompute}{sites}"


def sites_in_words(found: DivisionFound) -> str:
    """Sites in the order of the stages."""
    return " > ".join(found.site_order)


def has_sites(study: TransformerPlanStudy) -> bool:
    """Whether the cluster has sites; their order is then a column."""
    return any(found.site_order for found in study.simulated)


def cells(found: DivisionFound) -> Iterator[str]:
    """Cells of `HEAD`."""
    yield from (str(getattr(found, name)) for name in SIZES)
    yield str(found.virtual_stages)
    yield f"{found.microbatches} x {found.micro_batch}"
    yield found.sharding
    yield found.recompute


def excess_in_words(found: DivisionFound) -> str:
    """Reason why a division does not fit."""
    name, held = max(found.items_bytes.items(), key=lambda item: item[1])
    lacking = format_quantity(found.excess_bytes, "bytes")
    return f"{lacking} too much; most of it {name}, {format_quantity(held, 'bytes')}"


def simulated_table(study: TransformerPlanStudy) -> TextTable:
    """A row for each division that was run, the fastest first."""
    made = TextTable(title="divisions that fit, simulated, the fastest first", caption=CAPTION)
    made.numbers(*HEAD[:6]).words(*HEAD[6:])
    made.numbers("memory", "iteration", "tokens/s/GPU", "bubble", "exposed").words("")
    ordered = has_sites(study)
    if ordered:
        made.words("sites in order")
    for found in study.simulated:
        made.add_row(
            *cells(found),
            format_quantity(found.memory_bytes, "bytes"),
            seconds(found.iteration_time_s or 0.0),
            f"{study.rate(found):,.0f}",
            percent(found.bubble),
            percent(found.exposed_comm or 0.0),
            "the scenario's" if found.own else "",
            *([sites_in_words(found)] if ordered else []),
            style="bold" if found is study.best else "",
        )
    return made


def refused_table(study: TransformerPlanStudy) -> TextTable:
    """Table with a row for each division that does not fit, the nearest to fitting first."""
    shown = study.refused[:MOST_REFUSED]
    of = f", {len(shown)} of {len(study.refused):,}" if len(shown) < len(study.refused) else ""
    made = TextTable(title=f"divisions that do not fit and might be faster{of}; the nearest to fitting")
    made.numbers(*HEAD[:6]).words(*HEAD[6:]).numbers("memory").words("why it does not fit")
    for found in shown:
        made.add_row(*cells(found), format_quantity(found.memory_bytes, "bytes"), excess_in_words(found))
    return made


def command(study: TransformerPlanStudy) -> str:
    """Options that give the scenario its fastest division."""
    options = " ".join(f"--set {setting}" for setting in study.best.settings)
    return f"as settings: {options or 'none, the scenario has it already'}"
