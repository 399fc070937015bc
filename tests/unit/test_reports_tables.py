"""Tables of the command line, as text."""

from io import StringIO

from rich.console import Console

from reports.scaling_report import ScalingPoint
from reports.tables import scaling_table, validation_report


def text_of(table) -> str:
    console = Console(width=160, file=StringIO())
    console.print(table)
    return console.file.getvalue()


def test_a_sweep_shows_results_and_why_there_is_none():
    points = [
        ScalingPoint(8, 1, 4096, "infeasible", message="rank 3 needs 98.2 GB of HBM"),
        ScalingPoint(16, 2, 8192, "ok", 0.05, 163_840.0, 1.0, {}, "NIC"),
    ]
    text = text_of(scaling_table(points))
    assert "infeasible: rank 3 needs 98.2 GB of HBM" in text
    assert "50.0 ms" in text
    assert "164 k samples/s" in text


def test_validation_shows_bands_signed_errors_and_what_was_left_out():
    case = {"id": "a", "metric": "time_s", "measured": 1.0, "predicted": 1.1, "error_pct": 10.0, "grade": "read"}
    case |= {"role": "validation", "inputs": {}}
    band = {**case, "id": "b", "measured": {"low": 1.0, "high": 2.0}, "error_pct": None, "hit": True}
    errors = dict.fromkeys(("mape_pct", "median_pct", "geomean_pct", "bias_pct", "worst_pct"), 10.0)
    nothing = dict.fromkeys(errors)
    effect = {"title": "FP16 tables", "before": 1.0, "after": 1.3, "gain": 1.3, "published_gain": 1.2, "helps": True}
    suite = {
        "suite": "zionex",
        "cases": [case, band],
        **errors,
        "memory_cases": nothing,
        "calibration_cases": nothing,
        "repeats": [],
        "groups": [{"role": "validation", "sizes": "below 1 MiB", "cases": 7, **errors}],
        "alternatives": [{"case": "a", "quantity": "tables", "value": 4096, "predicted": 2.0, "error_pct": 100.0}],
        "effects": [{**effect, "grade": "memory"}],
        "peers": [{"title": "MAD-Max", "part": "gemm_s", "peer": 0.5, "ours": 1.0, "note": "theirs has fewer"}],
        "excluded": [{"id": "row 7", "reason": "input-bound"}],
    }
    text = "\n".join(text_of(part) for part in validation_report(suite))
    for expected in (
        "+10.0 %",
        "1 to 2",
        "hit",
        "mape +10.0 %",
        "4,096",
        "1.30",
        "1.20 (memory)",
        "row 7",
        "below 1 MiB",
        "input-bound",
    ):
        assert expected in text
    assert "0 recalled cases, apart from the mean: none" in text
