"""Tables on the terminal: simulated strategies, strategies that cannot be faster, and refused strategies."""

from __future__ import annotations

from collections.abc import Iterator

from inputs.quantities import format_quantity
from reports.numbers import percent, seconds
from reports.text_table import TextTable
from scenarios.strategies import StrategyFound, StrategyStudy

MOST_BOUNDED, MOST_REFUSED = 5, 8
"""Largest numbers of rows in the tables of strategies that were not simulated, and of strategies that cannot run."""

CAPTION = (
    "((within a node), (between nodes)), one pair of brackets for both: DDP copies layers, FSDP divides weights, TP "
    "divides widths; memory: of the fullest GPU; exposed: share of the iteration with communication and no computation"
)


def strategy_tables(study: StrategyStudy) -> list[TextTable | str]:
    """Printed parts in their order."""
    parts: list[TextTable | str] = ["\n  ".join((title(study), finding(study), extent(study))), simulated_table(study)]
    if study.bounded:
        parts.append(bounded_table(study))
    if study.refused:
        parts.append(refused_table(study))
    return [*parts, f"  {command(study)}"]


def title(study: StrategyStudy) -> str:
    """Job and fastest strategies."""
    resolved = study.resolved
    return f"{resolved.name}: {resolved.model.name} on {resolved.world_size:,} GPUs, fastest as {study.best.in_words()}"


def finding(study: StrategyStudy) -> str:
    """Time of the fastest strategies, and of the scenario's own strategies."""
    best, own = study.best.iteration_time_s or 0.0, study.own
    takes = f"an iteration takes {seconds(best)}"
    if own is None:
        why = any(found.why for found in study.refused if found.own)
        return f"{takes}; the scenario's own strategies {'cannot run' if why else 'do not fit'}"
    if own is study.best or own.iteration_time_s == best:
        return f"{takes}; the scenario's own strategies are the fastest"
    before = own.iteration_time_s or 0.0
    return f"{takes}, {before / best:.2f} times as fast as {seconds(before)} with the scenario's own ({own.in_words()})"


def extent(study: StrategyStudy) -> str:
    """Numbers of simulated, refused and excluded strategies."""
    ended = sum(found.slower_than_s is not None for found in study.simulated)
    found = [
        f"{study.count:,} candidates",
        f"{len(study.simulated)} simulated (at most {study.most})" + (f", {ended} of them given up" if ended else ""),
        f"{len(study.refused):,} refused",
        f"{study.slower:,} cannot be faster, by their bounds",
    ]
    return "; ".join([*found, f"{study.left:,} left that might be faster"] if study.left else found)


def columns(study: StrategyStudy) -> list[str]:
    """Names of the columns: classes of layers, and other choices."""
    return list(study.best.strategies)


def cells(study: StrategyStudy, found: StrategyFound) -> Iterator[str]:
    """Cells of `columns`."""
    yield from (found.strategies.get(name, "") for name in columns(study))


def time_in_words(found: StrategyFound) -> str:
    """Iteration time of a run, or the time at which it was given up."""
    if found.slower_than_s is not None:
        return f"over {seconds(found.slower_than_s)}"
    return seconds(found.iteration_time_s or 0.0)


def simulated_table(study: StrategyStudy) -> TextTable:
    """Table with a row for each simulated choice, the fastest first."""
    made = TextTable(title="strategies that fit, simulated, the fastest first", caption=CAPTION)
    made.words(*columns(study)).numbers("iteration", f"{study.unit}/s/GPU", "memory", "exposed").words("")
    for found in study.simulated:
        ran = found.iteration_time_s is not None
        made.add_row(
            *cells(study, found),
            time_in_words(found),
            f"{study.rate(found):,.0f}" if ran else "",
            format_quantity(found.memory_bytes, "bytes"),
            percent(found.exposed_comm or 0.0) if ran else "",
            "the scenario's" if found.own else "",
            style="bold" if found is study.best else "",
        )
    return made


def bounded_table(study: StrategyStudy) -> TextTable:
    """Table of choices that their bounds exclude, the shortest bounds first."""
    shown = study.bounded[:MOST_BOUNDED]
    made = TextTable(title=f"not simulated, {len(shown)} of {len(study.bounded):,}; the shortest bounds")
    made.words(*columns(study)).numbers("iteration")
    for least_s, words in shown:
        made.add_row(*(words.get(name, "") for name in columns(study)), f"at least {seconds(least_s)}")
    return made


def refused_table(study: StrategyStudy) -> TextTable:
    """Table of choices that cannot run, the nearest to fitting first."""
    shown = study.refused[:MOST_REFUSED]
    of = f", {len(shown)} of {len(study.refused):,}" if len(shown) < len(study.refused) else ""
    made = TextTable(title=f"refused{of}; the nearest to fitting first")
    made.words(*columns(study)).numbers("memory").words("why")
    for found in shown:
        held = format_quantity(found.memory_bytes, "bytes") if found.memory_bytes else ""
        made.add_row(*cells(study, found), held, found.refusal)
    return made


def command(study: StrategyStudy) -> str:
    """Options that give the scenario its fastest strategies."""
    options = " ".join(f"--set {setting}" for setting in study.best.settings)
    return f"as settings: {options or 'none, the scenario has them already'}"
