"""Tables that the command line prints: a sweep, and predictions against measurements."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from reports.numbers import counted, percent, seconds, usd
from reports.scaling_study import ScalingStudy, fastest_line
from reports.scaling_words import headline, rate
from reports.text_table import TextTable


def scaling_report(study: ScalingStudy, *, remedies: bool) -> list[TextTable | str]:
    """Points that ran as a table, a line for each of the others, and the warnings with the points that have them.

    Several lines have a table each, and one of all at the end.

    Args:
        study: results of a sweep.
        remedies: whether all lines on a point without a result are printed, with settings that help.
    """
    if len(study.lines) == 1:
        return _line(study, remedies=remedies)
    parts: list[TextTable | str] = []
    for line, alone in study.by_line.items():
        table, *others = _line(alone, remedies=remedies)
        titled = replace(table, title=line) if isinstance(table, TextTable) else f"{line}\n{table}"
        parts += [titled, *others, ""]
    return [*parts, _lines(study), headline(study).text()]


def _line(study: ScalingStudy, *, remedies: bool) -> list[TextTable | str]:
    """The table, the points without a result and the warnings of one line."""
    notes, priced = study.notes, any(p.million_usd is not None for p in study.results)
    answers = any(p.latency_p99_s is not None for p in study.results)
    made = TextTable().numbers(
        *[study.over] * bool(study.over), study.rank_name, "nodes", "iteration", "8 in 10", "throughput"
    )
    made.numbers(*["latency, p50", "p99"] * answers)
    made.numbers("speedup" if study.over else "efficiency", *[f"$/M {study.unit}"] * priced)
    made.words("bound", *["notes"] * bool(notes))
    parts: list[TextTable | str] = [made] if study.results else []
    for p in study.results:
        low, high = p.iteration_time_p10_s, p.iteration_time_p90_s
        span = "-" if low is None or high is None else f"{seconds(low)} to {seconds(high)}"
        sizes = (*[p.tick] * bool(study.over), f"{p.world_size:,}", f"{p.nodes:,}")
        speed = f"{p.speedup or 0.0:.3g}" if study.over else percent(p.efficiency or 0.0)
        marks = " ".join(f"[{number}]" for number, note in enumerate(notes, 1) if p.tick in note.shares)
        latency = [seconds(p.latency_p50_s or 0.0), seconds(p.latency_p99_s or 0.0)] * answers
        numbers = (*sizes, seconds(p.iteration_time_s or 0.0), span, rate(p, study.unit), *latency, speed)
        made.add_row(*numbers, *[usd(p.million_usd or 0.0)] * priced, p.bound or "-", *[marks] * bool(notes))
    return [*parts, *_gaps(study, remedies=remedies), *(f"[{n}] {note.words()}" for n, note in enumerate(notes, 1))]


def _gaps(study: ScalingStudy, *, remedies: bool) -> list[str]:
    """Points without a result and their reason; those with the same one together."""
    found: dict[tuple[str, ...], list[str]] = {}
    for p in study.ordered:
        if p.status != "ok":
            details = (f"  {line}" for line in p.details if remedies)
            found.setdefault((f"{p.status}: {p.message}", *details), []).append(p.tick)
    return [
        "\n".join([f"{study.at(', '.join(ticks))}: {reason}", *details]) for (reason, *details), ticks in found.items()
    ]


def _lines(study: ScalingStudy) -> TextTable:
    """Throughput of all lines side by side, a row per value on the axis; a dash where a line has no result."""
    made = TextTable(title=f"throughput, {study.unit}/s").numbers(study.axis, *study.lines).words("fastest")
    ticks = {p.position: p.tick for p in study.ordered}
    for position in sorted(ticks):
        here = {p.line: p for p in study.results if p.position == position}
        rates = [
            rate(here[line], study.unit).removesuffix(f" {study.unit}/s") if line in here else "-"
            for line in study.lines
        ]
        made.add_row(ticks[position], *rates, fastest_line(list(here.values())) if here else "-")
    return made


def validation_report(suite: Mapping[str, Any]) -> list[TextTable | str]:
    """Everything about one suite, to be printed in this order.

    Args:
        suite: one entry of ``suites`` as ``validate --json`` prints it.
    """
    parts: list[TextTable | str] = [_cases(suite), _statistics(suite)]
    titles = {
        "configurations": ("Errors by configuration, the mean of their cases", _configurations),
        "coverage": ("Measurements inside p10 to p90, by group", _coverage),
        "groups": ("Collectives by role and size", error_groups),
        "alternatives": ("Listed alternatives of uncertain quantities of model and framework", _alternatives),
        "effects": ("Order of effects: throughput after over before", _effects),
        "peers": ("Predictions of other simulators for the same jobs", _peers),
        "excluded": (
            f"Excluded: {counted(len(suite['excluded']), 'rows')} of the sources, each with its reason",
            _excluded,
        ),
    }
    for key, (title, made) in titles.items():
        if suite.get(key):
            parts += ["", replace(made(suite[key]), title=title)]
    return parts


def _configurations(rows: Iterable[Mapping[str, Any]]) -> TextTable:
    """Errors of the cases of each configuration, a row each."""
    made = TextTable().words("configuration", "metric").numbers("cases", "mape", "bias").words("role")
    for row in rows:
        errors = (f"{row['mape_pct']:.1f} %", error_in_words(row["bias_pct"]))
        made.add_row(row["configuration"], row["metric"], str(row["cases"]), *errors, row["role"])
    return made


def _coverage(rows: Iterable[Mapping[str, Any]]) -> TextTable:
    """Share of measurements inside the intervals, and the width of these, a row per group of cases."""
    made = TextTable().words("group").numbers("cases", "inside", "median p90 / p10")
    for row in rows:
        made.add_row(row["group"], str(row["cases"]), f"{row['inside_pct']:.0f} %", f"{row['median_width']:.2f}")
    return made


def error_groups(groups: Iterable[Mapping[str, Any]]) -> TextTable:
    """Errors of collectives, a row per role and range of sizes."""
    made = TextTable().words("role", "sizes").numbers("cases", "median |error|", "bias", "worst")
    for group in groups:
        errors = (f"{group['median_pct']:.1f} %", error_in_words(group["bias_pct"]), error_in_words(group["worst_pct"]))
        made.add_row(group["role"], group["sizes"], str(group["cases"]), *errors)
    return made


def measured_errors(run: Mapping[str, Any]) -> TextTable:
    """A measurement of the reference trainer and its prediction, a row per class of operators."""
    made = TextTable(
        title=f"{run['scenario']} on {run['world_size']} ranks: {run['folder']}",
        caption=f"measured times are divided by {run['slower']:.3f}, the machine's slowness against its calibration",
    )
    made.words("").numbers("measured", "predicted", "error", "noise", "share")
    for case in run["cases"]:
        error = "-" if case["error_pct"] is None else error_in_words(case["error_pct"])
        times = (seconds(case["measured"]), seconds(case["predicted"]))
        made.add_row(case["metric"], *times, error, f"{case['noise_pct']:.1f} %", percent(case["share"]))
    return made


def measured_statistics(statistics: Mapping[str, Mapping[str, Any]]) -> TextTable:
    """Errors over several measurements, a row per class of operators."""
    keys = ("mape_pct", "median_pct", "geomean_pct", "bias_pct", "worst_pct", "noise_pct")
    made = TextTable().words("").numbers("runs", *(key.removesuffix("_pct") for key in keys))
    for name, found in statistics.items():
        values = ("-" if found[key] is None else f"{found[key]:.1f} %" for key in keys)
        made.add_row(name, str(found["runs"]), *values)
    return made


def kernel_errors(cases: Iterable[Mapping[str, Any]]) -> TextTable:
    """Measured and predicted time of kernels, a row each."""
    made = TextTable().words("kernel").numbers("measured", "predicted", "error").words("role")
    for case in cases:
        times = (f"{1e6 * case[key]:,.1f} us" for key in ("measured_s", "predicted_s"))
        made.add_row(case["what"], *times, error_in_words(case["error_pct"]), case["role"])
    return made


def kernel_groups(groups: Iterable[Mapping[str, Any]]) -> TextTable:
    """Errors of kernels, a row per role, kind and source."""
    made = TextTable().words("role", "kind").numbers("rows", "median |error|", "bias", "worst").words("source")
    for group in groups:
        errors = (f"{group['median_pct']:.1f} %", error_in_words(group["bias_pct"]), error_in_words(group["worst_pct"]))
        made.add_row(group["role"], group["kind"], str(group["cases"]), *errors, group["source"])
    return made


def overheads_by_operator(rows: Iterable[Mapping[str, Any]]) -> TextTable:
    """Medians of host overheads, a row per operator or call and part."""
    made = TextTable().words("operator or call", "part").numbers("median", "times", "left out")
    for row in rows:
        median = f"{1e6 * row['seconds']:.1f} us"
        made.add_row(row["name"], row["part"].upper(), median, str(row["kept"]), str(row["left_out"]))
    return made


def _cases(suite: Mapping[str, Any]) -> TextTable:
    titled = any(case.get("title") for case in suite["cases"])
    made = TextTable(title=f"{suite['suite']}: cases").words("case", *["claim"] * titled, "metric")
    made.numbers("measured", "spread", "predicted", "p10", "p90", "error").words("inside", "grade", "role")
    shown = [case for case in suite["cases"] if "bytes" not in case["inputs"] or case["role"] == "validation"]
    for case in shown:
        error = error_in_words(case["error_pct"]) if "hit" not in case else ("hit" if case["hit"] else "missed")
        spread = case.get("spread_pct")
        values = (
            value_in_words(case["measured"]),
            "-" if spread is None else f"{spread:.1f} %",
            *(value_in_words(case.get(key)) for key in ("predicted", "p10", "p90")),
        )
        inside = {True: "yes", False: "no"}.get(case.get("inside"), "-")
        names = (case["id"], *[case.get("title", "")] * titled, metric_in_words(case))
        made.add_row(*names, *values, error, inside, case["grade"], case["role"])
    return made


def metric_in_words(case: Mapping[str, Any]) -> str:
    """Name of the measured quantity of a case; a ratio is named ``ratio of METRIC``."""
    return f"ratio of {case['metric']}" if case.get("ratio") else str(case["metric"])


def _statistics(suite: Mapping[str, Any]) -> str:
    """Errors by configuration, then by row; the spread of repeats below.

    Recalled measurements, and amounts of bytes, enter no mean; bands have no error.
    """
    cases = [case for case in suite["cases"] if case["error_pct"] is not None and not case.get("amount")]
    recalled = [case for case in cases if case["grade"] == "memory"]
    fitted = [case for case in cases if case["role"] == "calibration" and case not in recalled]
    read = len(cases) - len(recalled)
    predicted = read - len(fitted)
    bands = suite["bands"]
    lines = [f"{bands['hits']} of {counted(bands['cases'], 'bands')} hit"] if bands["cases"] else []
    if not cases and bands["cases"]:
        return lines[0]
    lines.append(_errors(predicted or read, "cases", "with a source that was read", suite))
    if of := suite.get("by_configuration"):
        lines.insert(0, _errors(of["configurations"], "configurations", "by the mean of their cases", of))
    lines += [_errors(row["cases"], "cases", f"of {row['metric']}", row) for row in suite.get("by_metric", ())]
    if predicted and fitted:
        lines.append(
            _errors(len(fitted), "cases", "that constants were fitted on, apart from it", suite["calibration_cases"])
        )
    lines.append(_errors(len(recalled), "cases", "recalled, apart from the mean", suite["memory_cases"]))
    if suite["amounts"]["cases"]:
        lines.append(_amounts(suite["amounts"]))
    if suite["repeats"]:
        lines.append(_repeats(suite["repeats"]))
    return "\n".join(lines)


def _amounts(found: Mapping[str, Any]) -> str:
    """Errors of amounts of bytes."""
    claim = f"{counted(found['cases'], 'amounts')} of bytes, apart from the mean: {found['exact']} exact"
    return claim if found["exact"] == found["cases"] else f"{claim}, worst {found['worst_pct']:+.1f} %"


def _repeats(groups: Sequence[Mapping[str, Any]]) -> str:
    """The spread of repeated measurements, which is the floor of the errors."""
    cases = sum(len(group["cases"]) for group in groups)
    spreads = sorted(group["spread_pct"] for group in groups)
    floor = sum(group["mean_deviation_pct"] * len(group["cases"]) for group in groups) / cases
    return (
        f"{cases} cases are repeats of {counted(len(groups), 'configurations')}: half the range over the median "
        f"{spreads[0]:.1f} to {spreads[-1]:.1f} %; whoever predicts the medians has mape {floor:.1f} %"
    )


def _errors(number: int, plural: str, which: str, errors: Mapping[str, Any]) -> str:
    """Statistics of some cases; of a single one its error."""
    name = f"{counted(number, plural)} {which}"
    if number == 1 and errors["worst_pct"] is not None:
        return f"{name}: error {errors['worst_pct']:+.1f} %"
    if errors["mape_pct"] is None:
        return f"{name}: none"
    names = ("mape_pct", "median_pct", "geomean_pct", "bias_pct", "worst_pct")
    return f"{name}: " + ", ".join(f"{n.removesuffix('_pct')} {errors[n]:+.1f} %" for n in names)


def _alternatives(rows: Iterable[Mapping[str, Any]]) -> TextTable:
    made = TextTable().words("case", "quantity").numbers("value").words("predicted").numbers("error")
    for row in rows:
        value = f"{row['value']:,}" if isinstance(row["value"], int | float) else str(row["value"])
        result = row.get("problem", "").split("\n")[0] or value_in_words(row["predicted"])
        made.add_row(row["case"], row["quantity"], value, result, error_in_words(row["error_pct"]))
    return made


def _effects(rows: Iterable[Mapping[str, Any]]) -> TextTable:
    made = TextTable().words("effect").numbers("before", "after", "gain", "published", "ours / published")
    made.words("helps")
    for row in rows:
        published = "-" if row["published_gain"] is None else f"{row['published_gain']:.2f} ({row['grade']})"
        gain = "-" if row["gain"] is None else f"{row['gain']:.2f}"
        values = (value_in_words(row["before"]), value_in_words(row["after"]), gain, published)
        known = row["gain"] is not None and row["published_gain"] is not None
        ratio = f"{row['gain'] / row['published_gain']:.2f}" if known else "-"
        made.add_row(row["title"], *values, ratio, "yes" if row["helps"] else "no")
    return made


def _peers(rows: Iterable[Mapping[str, Any]]) -> TextTable:
    made = TextTable().words("peer", "part").numbers("peer's", "ours", "difference").words("why, where known")
    for row in rows:
        difference = error_in_words(100.0 * (row["ours"] / row["peer"] - 1.0)) if row["ours"] is not None else "-"
        made.add_row(
            row["title"], row["part"], value_in_words(row["peer"]), value_in_words(row["ours"]), difference, row["note"]
        )
    return made


def _excluded(rows: Iterable[Mapping[str, Any]]) -> TextTable:
    made = TextTable().words("row", "why")
    for row in rows:
        made.add_row(row["id"], row["reason"])
    return made


def value_in_words(value: Any) -> str:
    """A measured or predicted number, or a band; ``-`` for None."""
    if isinstance(value, Mapping):
        return f"{value['low']:,.4g} to {value['high']:,.4g}"
    return "-" if value is None else f"{value:,.4g}"


def error_in_words(error_pct: float | None) -> str:
    """An error with its sign; ``-`` for None."""
    return "-" if error_pct is None else f"{error_pct:+.1f} %"
