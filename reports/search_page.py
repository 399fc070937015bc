"""The page of a best-first search: the fastest choice, and the time of each choice against its memory."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from inputs.quantities import format_quantity
from reports.markup import PageSection, options_marked, strong, tile
from reports.numbers import percent, seconds
from reports.plan_page import chart_card, gpus, iteration_tile, page_of_plan, quantity_tile, sentence
from scenarios.search_study import FoundChoice, SearchStudy

FoundT = TypeVar("FoundT", bound=FoundChoice)


def page_of_search(
    study: SearchStudy[FoundT],
    version: str,
    *,
    title: str,
    choices: str,
    best: str,
    findings: Sequence[str],
    tiles: Sequence[str],
    sections: Sequence[PageSection],
) -> str:
    """The page, self-contained and offline.

    Args:
        title: kind of plan, behind the scenario's name.
        choices: plural noun.
        best: the fastest choice in words.
        findings: words of each, made a sentence.
        tiles: tiles as `search_tiles` makes them.
    """
    resolved, time = study.resolved, seconds(study.best.iteration_time_s or 0.0)
    return page_of_plan(
        resolved,
        version,
        title=title,
        headline=strong(f"Fastest of {{}} {choices}: {{}}, {{}} an iteration.", f"{study.count:,}", best, time),
        findings=[options_marked(sentence(words)) for words in findings],
        tiles=tiles,
        facts=[gpus(resolved), (study.unit.capitalize(), f"{resolved.global_batch_size:,} an iteration")],
        script="divisions.js",
        sections=sections,
    )


def search_tiles(study: SearchStudy[FoundT], note: str, *beside: str) -> tuple[str, ...]:
    """Tiles of the fastest choice.

    Args:
        note: text below its iteration time.
        beside: further tiles, before the last one.
    """
    best = study.best
    share = percent(best.memory_bytes / study.capacity_bytes)
    return (
        iteration_tile(best.iteration_time_s, note),
        tile("Throughput", f"{study.rate(best):,.0f}", f"{study.unit}/s", "of each GPU"),
        quantity_tile("Fullest GPU", format_quantity(best.memory_bytes, "bytes"), f"{share} of its memory"),
        *beside,
        tile("Exposed", percent(best.exposed_comm or 0.0), "", "communication without computation"),
    )


def chart_section(
    study: SearchStudy[FoundT], anchor: str, lede: str, words: Callable[[FoundT], Mapping[str, str]]
) -> PageSection:
    """The chart of time against memory.

    Args:
        words: texts of a choice at its point: ``words`` and ``batches`` on hover, ``short`` beside it.
    """
    title = "Time and memory"
    shown: list[dict[str, Any]] = [
        {
            **words(found),
            "s": found.iteration_time_s,
            "gb": found.memory_bytes / 1e9,
            "kind": "the fastest" if found is study.best else "the scenario's" if found.own else "others",
        }
        for found in study.simulated
        if found.iteration_time_s is not None
    ]
    payload = {"plan": {"divisions": shown, "capacity": study.capacity_bytes / 1e9}}
    return PageSection(anchor, title, title, lede, chart_card("divisions"), payload)
