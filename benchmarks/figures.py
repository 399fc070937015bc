"""Figures of README and docs: errors of suites and results of runs, between markers, and pictures of pages.

The commands of the repository compute every number on these pages.

A figure is ``<!-- figure: NAME -->text<!-- /figure -->`` in a page. NAME is ``SUITE/CASE`` (error of a case),
``SUITE/STATISTIC`` (over the predicted cases), ``SUITE/SIZES/STATISTIC`` (over predicted collectives of that size),
``run/SCENARIO/KEY`` or ``run/SCENARIO[KEY=VALUE;KEY=VALUE]/KEY`` (a number in ``summary.json``),
``intervals/NAME/FIELD`` (a field of `benchmarks.intervals.Coverage` of a suite, a group with ``_`` for blanks, or
``all``) or
``host_laws/LAW/PART/STATISTIC`` (errors of `benchmarks.host_laws.errors_by_law` on the shipped host).
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from benchmarks import pictures
from benchmarks.host_laws import errors_by_law
from benchmarks.intervals import coverage_of, shipped_cases
from benchmarks.rows import Row
from dlrmsim.workers import workers_map
from inputs.errors import InputError, nearest_name
from inputs.quantities import format_quantity
from scenarios.progress import Silent
from scenarios.resolve import load_scenario
from scenarios.runner import simulate
from validation.suites.errors import statistics
from validation.suites.score import score
from validation.suites.suite import load_suite

ROOT = Path(__file__).parents[1]
FIGURE = re.compile(r"(<!-- figure: (\S+) -->)(.*?)(<!-- /figure -->)")
STATISTICS = {"mape": "", "median": "", "geomean": "", "bias": "+", "worst": "+"}
"""Statistics of `validation.suites.errors.statistics` and the sign that their figures have."""
INTERVALS = "intervals"
"""First part of the names of figures that are coverage of intervals."""
HOST_LAWS, HOST = "host_laws", "zen5_2_cores"
"""First part of the names of figures that are errors without a law of the host model, and their host."""
RUN = "run"
"""First part of the names of figures that are results of runs."""
ALTERNATIVE = "alternative"
"""Second part of the names of figures with another listed value of a quantity: SUITE/alternative/CASE/QUANTITY."""
SIZES = {"large": "1 MiB and more", "small": "below 1 MiB"}
"""Sizes of collectives in names and in scores."""


def pages() -> list[Path]:
    """Pages that may have figures."""
    return [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def names(page: Path) -> list[str]:
    """Names of a page's figures, in order."""
    text = re.sub(r"`[^`\n]*`", "", page.read_text(encoding="utf-8"))
    return [name for _, name, _, _ in FIGURE.findall(text)]


def rows(*, check: bool, suites: Collection[str] = ()) -> Iterator[Row]:
    """Compute every figure and write it into its page; the last row counts figures and pictures that differed.

    Args:
        check: compare and write nothing.
        suites: names of suites, or ``run``, to compute; empty: all. Pictures belong to ``run``.

    Raises:
        InputError: a figure has no such suite, case or statistic.
    """
    named = {page: [n for n in names(page) if not suites or n.split("/")[0] in suites] for page in pages()}
    wanted = sorted({name for of_page in named.values() for name in of_page})
    varied = {name.split("/")[0] for name in wanted if f"/{ALTERNATIVE}/" in name}
    scores = {
        suite: _score(suite, alternatives=suite in varied)
        for suite in sorted({name.split("/")[0] for name in wanted} - {RUN, INTERVALS, HOST_LAWS})
    }
    known = _coverage() if any(name.startswith(f"{INTERVALS}/") for name in wanted) else {}
    known |= _host_laws() if any(name.startswith(f"{HOST_LAWS}/") for name in wanted) else {}
    figures = {}
    for name in wanted:
        suite = name.split("/")[0]
        if suite in {INTERVALS, HOST_LAWS}:
            value, figures[name] = _known(name, known)
        else:
            value, figures[name] = run_figure(name) if suite == RUN else figure(name, scores[suite])
        yield Row(name, value, "")
    different = _pictures(check=check) if not suites or RUN in suites else 0
    for page in named:
        text = page.read_text(encoding="utf-8")
        shown = [(name, there) for _, name, there, _ in FIGURE.findall(text) if name in figures]
        different += sum(there != figures[name] for name, there in shown)
        if not check and shown:
            page.write_text(FIGURE.sub(lambda found: _replaced(found, figures), text), encoding="utf-8")
    if check:
        yield Row("figures that differ", float(different), "figures", "<= 0")
    else:
        yield Row("figures written", float(different), "figures")


def figure(name: str, table: Mapping[str, Any]) -> tuple[float, str]:
    """Value of a figure, per cent, and its text.

    Args:
        name: as in the marker.
        table: score of its suite.

    Raises:
        InputError: the suite has no such case or statistic.
    """
    _, *path = name.split("/")
    last, sign = path[-1], STATISTICS.get(path[-1], "+")
    found: float | None = None
    if path[0] == ALTERNATIVE:
        _, case, quantity = path
        same = (
            row for row in table["alternatives"] if (row["case"], row["quantity"].replace(" ", "")) == (case, quantity)
        )
        found = next((row["error_pct"] for row in same), None)
    elif last not in STATISTICS:
        found = next((case["error_pct"] for case in table["cases"] if case["id"] == last), None)
    elif len(path) == 1:
        found = table[f"{last}_pct"]
    elif path[0] == "configurations":
        found = table["by_configuration"][f"{last}_pct"]
    else:
        groups = [g for g in table["groups"] if g["role"] == "validation" and g["sizes"] == SIZES.get(path[0])]
        found = groups[0][f"{last}_pct"] if groups else None
    if found is None:
        known = [
            *STATISTICS,
            *(f"{part}/{last}" for part in ("configurations", *SIZES)),
            "the id of a case",
            "alternative/CASE/QUANTITY",
        ]
        raise InputError("no such figure", key=name, given=last, expected=", ".join(known))
    return found, f"{found:{sign}.1f} %"


def _known(name: str, known: Mapping[str, tuple[float, str]]) -> tuple[float, str]:
    """Value and text of a figure that is computed with others.

    Raises:
        InputError: there is no such figure.
    """
    if name not in known:
        raise InputError("no such figure", key=name, given=name, nearest=nearest_name(name, list(known)))
    return known[name]


def _host_laws() -> dict[str, tuple[float, str]]:
    """Value and text of all errors without a law of the host model, by name."""
    figures = {}
    for law, part, errors_pct in errors_by_law(HOST):
        start, of = f"{HOST_LAWS}/{law}/{part}", statistics(errors_pct)
        figures[f"{start}/cases"] = float(len(errors_pct)), str(len(errors_pct))
        for statistic, sign in STATISTICS.items():
            figures[f"{start}/{statistic}"] = of[f"{statistic}_pct"], f"{of[f'{statistic}_pct']:{sign}.1f} %"
    return figures


def _coverage() -> dict[str, tuple[float, str]]:
    """Value and text of all figures of intervals, by name."""
    figures = {}
    for group, of in coverage_of(shipped_cases()).items():
        name = f"{INTERVALS}/{group.replace(' ', '_')}"
        figures[f"{name}/cases"] = float(of.cases), str(of.cases)
        figures[f"{name}/inside"] = of.inside_pct, f"{of.inside_pct:.0f} %"
        figures[f"{name}/width"] = of.width, f"{of.width:.2f}"
        if of.others_pct is not None:
            figures[f"{name}/others"] = of.others_pct, f"{of.others_pct:.0f} %"
    return figures


def run_figure(name: str) -> tuple[float, str]:
    """Value of a figure of a run, fractions in per cent, and its text.

    Args:
        name: ``run/SCENARIO/KEY`` with a dotted key; settings may follow the scenario in brackets.

    Raises:
        InputError: the summary has no such number.
    """
    _, job, key = name.split("/")
    found: Any = _summary(job)
    for part in key.split("."):
        found = found.get(part) if isinstance(found, dict) else None
    if not isinstance(found, int | float):
        raise InputError("no such figure", key=name, given=key, expected="a number in summary.json")
    return _in_words(key, found)


@lru_cache(maxsize=64)
def _summary(job: str) -> Mapping[str, Any]:
    """Summary of a scenario with the settings that stand in brackets behind it."""
    scenario, _, settings = job.rstrip("]").partition("[")
    return simulate(load_scenario(scenario, settings.split(";") if settings else []), Silent()).summary


def _in_words(key: str, found: float) -> tuple[float, str]:
    """Value and text of a number by its key: times, bytes, rates, ratios, operations, counts, and fractions."""
    if isinstance(found, int):
        return float(found), f"{found:,}"
    if key.endswith("samples_per_s"):
        return found, f"{found:,.0f}"
    if key.endswith(("_s", "_bytes")):
        return found, format_quantity(found, "s" if key.endswith("_s") else "bytes")
    if key.endswith("imbalance") or "over_mean" in key:
        return found, f"{found:.2f}"
    if "flop" in key:
        return found, f"{found:.1f}"
    return 100.0 * found, f"{100.0 * found:.1f} %"


def _pictures(*, check: bool) -> int:
    """Number of pictures that are out of date; they are taken again unless ``check``."""
    different = 0
    for picture, scenario in pictures.PICTURES.items():
        page = pictures.page_of(scenario)
        if not pictures.is_current(picture, page):
            different += 1
            if not check:
                pictures.take(picture, page)
    return different


def _score(name: str, *, alternatives: bool) -> dict[str, Any]:
    """Score of a suite's cases, perhaps with alternatives, without effects and peers, which no figure has."""
    file, suite = load_suite(name)
    kept = suite.alternatives if alternatives else ()
    cases = suite.model_copy(update={"alternatives": kept, "effects": (), "peers": ()})
    return score(file, cases, workers_map(None, None, len(cases.cases)))


def _replaced(found: re.Match[str], figures: Mapping[str, str]) -> str:
    return f"{found[1]}{figures.get(found[2], found[3])}{found[4]}"
