"""Tables of the command line, as text."""

from io import StringIO

from rich.console import Console

from reports.scaling_report import ScalingPoint
from reports.tables import scaling_table, validation_table


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


def test_validation_shows_bands_and_signed_errors():
    case = {"id": "a", "metric": "time_s", "measured": 1.0, "predicted": 1.1, "error_pct": 10.0, "grade": "read"}
    band = {**case, "id": "b", "measured": {"low": 1.0, "high": 2.0}, "error_pct": None}
    text = text_of(validation_table({"suite": "zionex", "cases": [case, band]}))
    assert "+10.0 %" in text
    assert "1 to 2" in text
