"""Section of answered requests: latency over load, rows by tier, the queue over time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from reports.markup import Cell, PageSection, TableRow, number, table
from reports.numbers import percent, rate_in_words, seconds
from reports.serving_words import latency_span, load_words

PERCENTILES = (("p50_s", "p50"), ("p90_s", "p90"), ("p99_s", "p99"), ("p999_s", "p99.9"))
"""Names of the percentiles of latency, by key."""

TIERS = (
    ("gpu_cache", "GPU cache"),
    ("host_memory", "host memory"),
    ("ssd", "SSDs"),
    ("repeated", "repeated in the batch"),
)
"""Names of the tiers of rows, by key; the last tier has further lookups of rows that the batch fetched."""

LOAD_HEAD = ("of the capacity", "requests/s", "mean", *(name for _, name in PERCENTILES), "busy", "batch", "waiting")
SIZE_HEAD = ("samples", "time", "varies by")


def serving_section(serving: Mapping[str, Any]) -> PageSection:
    """Charts and tables of the block ``serving`` of a run's ``summary.json``."""
    low, high = latency_span(serving, "p99_s")
    lede = (
        f"{load_words(serving)}. 99 in 100 requests are answered within {seconds(serving['latency']['p99_s'])} "
        f"(8 in 10 between {low} and {high}, by the interval of a batch's time), counted from arrival to answer."
    )
    if serving["load_left_out"]:
        loads = ", ".join(percent(load) for load in serving["load_left_out"])
        lede += f" Loads of {loads} are left out: their batches are too large for a short simulation."
    charts = [("load", "Latency over load"), ("queue", f"Waiting requests, at {_rate(serving['requests_per_s'])}")]
    if _has_tiers(serving):
        charts.insert(1, ("tiers", "Lookups by the tier of their rows, over the size of a batch"))
    cards = "".join(
        f'<div class="card"><h3>{title}</h3><div class="plot" id="serving-{name}"></div></div>'
        for name, title in charts
    )
    loads = table(LOAD_HEAD, [_load_row(row) for row in serving["load"]], numbers=range(len(LOAD_HEAD)))
    head = (*SIZE_HEAD, *(name for _, name in TIERS if _has_tiers(serving)))
    sizes = table(head, [_size_row(row) for row in serving["sizes"]], numbers=range(len(head)))
    return PageSection(
        anchor="serving",
        title="Requests",
        short="Requests",
        lede=lede,
        body=f"{cards}<h3>Load by load</h3>{loads}<h3>Batches that were simulated</h3>{sizes}",
        payload={"serving": _payload(serving)},
    )


def _has_tiers(serving: Mapping[str, Any]) -> bool:
    return all("lookups_found" in row for row in serving["sizes"])


def _rate(value: float) -> str:
    return " ".join(rate_in_words(value, "requests"))


def _load_row(row: Mapping[str, float]) -> TableRow:
    times = (row["mean_s"], *(row[key] for key, _ in PERCENTILES))
    return TableRow(
        (
            number(percent(row["load"]), row["load"]),
            number(rate_in_words(row["requests_per_s"])[0] + _prefix(row["requests_per_s"]), row["requests_per_s"]),
            *(number(seconds(time), time) for time in times),
            number(percent(row["busy"]), row["busy"], share=100.0 * row["busy"]),
            *(number(f"{row[key]:,.{0 if row[key] >= 1e3 else 1}f}", row[key]) for key in ("mean_batch", "waiting")),
        )
    )


def _prefix(rate: float) -> str:
    """Prefix of a rate's unit: `` M``."""
    return rate_in_words(rate)[1].removesuffix("samples/s").rstrip().rjust(2) if rate >= 999.5 else ""


def _size_row(row: Mapping[str, Any]) -> TableRow:
    found: Mapping[str, float] = row.get("lookups_found", {})
    cells: list[Cell] = [
        number(f"{row['samples']:,}", row["samples"]),
        number(seconds(row["time_s"]), row["time_s"]),
        number(seconds(row["deviation_s"]), row["deviation_s"]),
    ]
    cells += [number(percent(found[key]), found[key]) for key, _ in TIERS if key in found]
    return TableRow(tuple(cells))


def _payload(serving: Mapping[str, Any]) -> dict[str, Any]:
    """Columns of the charts; times in milliseconds."""
    loads: Sequence[Mapping[str, float]] = serving["load"]
    return {
        "requests_per_s": serving["requests_per_s"],
        "capacity_per_s": serving["capacity_requests_per_s"],
        "p99_ms": 1e3 * serving["latency"]["p99_s"],
        "rates": [row["requests_per_s"] for row in loads],
        "latency": [{"name": name, "ms": [1e3 * row[key] for row in loads]} for key, name in PERCENTILES],
        "sizes": [row["samples"] for row in serving["sizes"]],
        "tiers": [
            {"name": name, "share": [row["lookups_found"][key] for row in serving["sizes"]]}
            for key, name in TIERS
            if _has_tiers(serving)
        ],
        "queue": serving["queue"],
    }
