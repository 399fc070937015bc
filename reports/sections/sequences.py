"""Section of sequences: positions, work and lookups of ranks, and operations with and without padding."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from inputs.quantities import format_quantity
from reports.findings import SequenceFindings
from reports.markup import Cell, Content, Markup, PageSection, TableRow, number, options_marked, strong, table
from reports.numbers import percent
from reports.sequence_words import DEALT, SAME, padding_of, positions_in_words, ranks_differ
from scenarios.levers import WORTHWHILE, Levers
from scenarios.sequence_loads import SequenceLoads
from simulator.operators import FloatArray

MOST_POINTS = 512
"""Ranks that the chart shows at most."""

SEVERAL = 2.0
"""Lookups of the hottest rank over the mean from which its remedies are named."""

REMEDIES = ("workload.sharding.index_dedup=", "workload.sharding.planner=")
"""Settings that change which rank serves which lookups."""

BALANCED = "workload.batching=balanced"
"""Setting that balances batches."""

PARTS = {"attention": "attention", "uvqk": "UVQK", "output": "output", "layers": "all layers"}
"""Names of the parts of the layers, by key; the last one is their sum."""

LENGTHS = {
    "gflop_per_sample": "jagged",
    "padded_gflop_per_sample": "padded",
    "gflop_per_full_sample": "at full length",
}
"""Headings of the operations of a sample, by key."""

CHART = (
    '<div class="card"><h3>Work and lookups of ranks, over their mean</h3>'
    '<div class="plot" id="sequences-ranks"></div></div>'
)
"""Place of the chart of ranks."""

RANK_HEAD = ("of a rank, an iteration", "mean", "smallest", "largest", "largest / mean", "largest on rank")


def sequences_section(found: SequenceFindings) -> PageSection:
    """Chart of the ranks' work and lookups, and tables of operations and of ranks."""
    of, loads = found.summary, found.loads
    ranks = len(loads.positions)
    passes = "forward pass" if found.forward_only else "forward and backward pass"
    return PageSection(
        anchor="sequences",
        title="Sequences",
        short="Sequences",
        lede=_lede(found),
        body=(
            f"{_paragraph(_skew(found)) if ranks > 1 else ''}{CHART if ranks > 1 else ''}"
            f"<h3>Operations of a sample in the layers, GFLOP ({passes})</h3>{_operations_table(of)}"
            f"<h3>Ranks</h3>{_ranks_table(loads)}"
        ),
        payload={"sequences": _payload(loads)} if ranks > 1 else {},
    )


def _lede(found: SequenceFindings) -> Markup:
    """Positions, gain of batches balanced by length, and cost of padding."""
    of = found.summary
    positions = of["positions_per_sample"]
    sizes = [positions_in_words(positions[key]) for key in ("mean", "longest", "maximum")]
    sentences = [strong("A sample has {} positions on average, {} in the longest one; {} is full length.", *sizes)]
    if ranks_differ(of):
        sentences += [_dealt(of), *_balanced(found.levers)]
    if of["layout"] == "padded":
        sentences.append(strong("Padding adds {} to the operations of the layers.", percent(padding_of(of))))
    else:
        sentences.append(
            strong("Padded to the longest of a rank, layers would compute {} more.", percent(padding_of(of)))
        )
    return Markup(" ".join(sentence.html for sentence in sentences))


def _dealt(of: Mapping[str, Any]) -> Markup:
    """Largest over mean work of a rank, as batched and in other batchings."""
    own, found = of["batching"], of["largest_over_mean_by_batching"]
    others = [name for name in found if name != own]
    padded = " if nothing were padded" if of["layout"] == "padded" else ""
    return strong(
        f"With {DEALT[own]}, the busiest rank computes {{}} times the mean{padded}; "
        f"it would be {', '.join(f'{{}} with {DEALT[name]}' for name in others)}.",
        *(f"{found[name]:.2f}" for name in (own, *others)),
    )


def _balanced(levers: Levers | None) -> tuple[Markup, ...]:
    """Gain of balanced batches where they were tried and save time."""
    tried = _gains(levers, (BALANCED,))
    return tuple(options_marked(f"{saves} of the iteration.") for saves in tried)


def _skew(found: SequenceFindings) -> Content:
    """The rank whose tables serve most lookups, and settings that help where it serves several times the mean."""
    served = found.summary["served_lookups_on_ranks"]
    if served["largest_over_mean"] < SAME:
        return "All ranks serve as many lookups."
    words = strong(
        "Rank {} is the hottest: its tables serve {} times the mean lookups.",
        f"{served['hottest_rank']:,}",
        f"{served['largest_over_mean']:.2f}",
    )
    remedies = () if served["largest_over_mean"] < SEVERAL else tuple(_gains(found.levers, REMEDIES))
    if not remedies:
        return words
    tried = options_marked(f"Other shardings that were tried are faster: {'; '.join(remedies)}.")
    return Markup(f"{words.html} {tried.html}")


def _gains(levers: Levers | None, settings: tuple[str, ...]) -> Iterator[str]:
    """Settings of these keys or values that save time in a run of their own, best first."""
    for lever in () if levers is None else levers.tried:
        if lever.setting.startswith(settings) and lever.basis == "run" and lever.gain >= WORTHWHILE:
            yield f"--set {lever.setting} saves {percent(lever.gain)}"


def _paragraph(content: Content) -> str:
    return f'<p class="lede">{content.html if isinstance(content, Markup) else content}</p>'


def _operations_table(of: Mapping[str, Any]) -> str:
    keys = [key for key in LENGTHS if key in of]
    rows = []
    for part, name in PARTS.items():
        cells: list[Cell | str] = [name, *(number(_three_digits(of[key][part]), of[key][part]) for key in keys)]
        rows.append(TableRow(tuple(cells), style="total" if part == "layers" else ""))
    head = ("part", *(LENGTHS[key] + (" (this run)" if key == _used(of) else "") for key in keys))
    return table(head, rows, numbers=range(1, len(head)))


def _used(of: Mapping[str, Any]) -> str:
    return "padded_gflop_per_sample" if of["layout"] == "padded" else "gflop_per_sample"


def _ranks_table(loads: SequenceLoads) -> str:
    named = (
        ("operations of the layers, TFLOP", loads.flops / 1e12, _three_digits),
        ("positions", loads.positions, _count),
        ("lookups that its tables serve", loads.served, _count),
        ("vectors that it receives", loads.received_bytes, _bytes),
    )
    return table(RANK_HEAD, [_rank_row(*row) for row in named], numbers=range(1, len(RANK_HEAD)))


def _rank_row(name: str, values: FloatArray, shown: Callable[[float], str]) -> TableRow:
    mean, least, most = float(values.mean()), float(values.min()), float(values.max())
    over, alike = (most / mean if mean else 1.0), least == most
    largest = int(values.argmax())
    return TableRow(
        (
            name,
            *(number(shown(value), value) for value in (mean, least, most)),
            number(f"{over:.2f}", over),
            number("any" if alike else f"{largest:,}", largest),
        )
    )


def _count(value: float) -> str:
    return f"{value:,.0f}"


def _bytes(value: float) -> str:
    return format_quantity(value, "bytes")


def _three_digits(value: float) -> str:
    return f"{value:,.1f}" if value >= 99.95 else f"{value:#.3g}".rstrip(".")


def _payload(loads: SequenceLoads) -> dict[str, Any]:
    """Curves of the ranks that are shown, over the mean of all ranks."""
    shown = shown_ranks(loads)
    curves = [("operations of the layers", loads.flops, "FLOP"), ("lookups served", loads.served, "")]
    return {
        "world_size": len(loads.positions),
        "ranks": shown.tolist(),
        "curves": [_curve(name, values, unit, shown) for name, values, unit in curves],
        "positions": _digits(loads.positions[shown]),
        "received_gb": _digits(loads.received_bytes[shown] / 1e9),
    }


def _curve(name: str, values: FloatArray, unit: str, shown: NDArray[np.intp]) -> dict[str, Any]:
    mean = float(values.mean())
    return {"name": name, "unit": unit, "mean": mean, "over": _digits(values[shown] / mean if mean else values[shown])}


def _digits(values: FloatArray) -> Sequence[float]:
    """Values with six significant digits."""
    return [float(f"{value:.6g}") for value in values.tolist()]


def shown_ranks(loads: SequenceLoads) -> NDArray[np.intp]:
    """Ranks of the chart in ascending order: all, or of each span of ranks the ones with most work and most lookups."""
    ranks = len(loads.positions)
    if ranks <= MOST_POINTS:
        return np.arange(ranks)
    spans = np.array_split(np.arange(ranks), MOST_POINTS // 2)
    most = [span[values[span].argmax()] for span in spans for values in (loads.flops, loads.served)]
    return np.unique(most)
