"""Tables of the command line, as text."""

from dataclasses import replace

from reports.numbers import counted
from reports.scaling_study import ScalingPoint, ScalingStudy
from reports.tables import _errors, scaling_report, validation_report
from reports.text_table import TextTable

WARNING = "network: messages, which nobody measured (3 tasks, {} % of the task time)"


def text_of(part: TextTable | str) -> str:
    return part if isinstance(part, str) else part.text(160)


def point(nodes: int, share: float, **more: object) -> ScalingPoint:
    return ScalingPoint(
        8 * nodes, nodes, 4096, "ok", 0.05, 163_840.0, 1.0, {}, "NIC", warnings=(WARNING.format(share),), **more
    )


def study(*points: ScalingPoint) -> ScalingStudy:
    return ScalingStudy("s", "A", "ZionEX", "weak", points)


GAP = ScalingPoint(
    8, 1, 4096, "infeasible", message="rank 3 needs 98.2 GB of HBM",
    details=("hbm: 37 GB usable", "would fit: --set workload.sharding.compute_kernels=[fused,fused_uvm_caching]"),
)  # fmt: skip


def test_a_sweep_shows_results_whole_before_a_line_for_each_size_without():
    parts = [text_of(part) for part in scaling_report(study(GAP, point(2, 0.4), point(4, 51.0)), remedies=False)]
    assert len(parts[0].splitlines()) == 3
    assert "50.0 ms        -  164 k samples/s" in parts[0]
    assert parts[1] == "8 GPUs: infeasible: rank 3 needs 98.2 GB of HBM"


def test_lines_of_a_sweep_have_a_table_each_and_one_together():
    """Points with the same reason stand on one line."""
    slow = ScalingPoint(16, 2, 4096, "ok", 0.1, 81_920.0, 1.0, {}, "NIC", line="b")
    gaps = [replace(GAP, line="b"), replace(GAP, line="b", world_size=4)]
    made = replace(study(replace(point(2, 0.4), line="a"), slow, *gaps), lines=("a", "b"))
    told = "\n".join(map(text_of, scaling_report(made, remedies=False)))
    assert "4, 8 GPUs: infeasible: rank 3 needs 98.2 GB of HBM" in told
    assert [line.split() for line in told.splitlines()][-6:-1] == [
        ["throughput,", "samples/s"],
        ["GPUs", "a", "b", "fastest"],
        ["4", "-", "-", "-"],
        ["8", "-", "-", "-"],
        ["16", "164", "k", "81.9", "k", "a"],
    ]
    assert told.splitlines()[-1].endswith("a is the fastest at 16 GPUs: 164 k samples/s (100 % efficiency), 2 times b.")


def test_remedies_are_printed_on_demand_as_they_are_written():
    told = "\n".join(map(text_of, scaling_report(study(GAP, point(2, 0.4)), remedies=True)))
    assert "--set workload.sharding.compute_kernels=[fused,fused_uvm_caching]" in told


def test_warnings_of_all_sizes_stand_once_with_the_share_at_each():
    parts = [text_of(part) for part in scaling_report(study(point(2, 0.4), point(4, 51.0)), remedies=False)]
    assert parts[1:] == [
        "[1] network: messages, which nobody measured: 0.4 % of the task time at 16 GPUs, 51.0 % at 32"
    ]
    assert [line.endswith("[1]") for line in parts[0].splitlines()] == [False, True, True]


def test_samples_have_a_price_where_gpus_have_one():
    parts = scaling_report(study(point(2, 0.4, million_usd=0.07654)), remedies=False)
    assert "$0.0765" in text_of(parts[0])
    assert "$" not in text_of(scaling_report(study(point(2, 0.4)), remedies=False)[0])


def test_one_thing_is_not_named_in_the_plural():
    assert [counted(number, "sockets") for number in (0, 1, 2, 1024)] == [
        "0 sockets",
        "1 socket",
        "2 sockets",
        "1,024 sockets",
    ]
    assert study(point(2, 0.4)).at("1") == "1 GPU"


def test_statistics_of_a_single_case_are_its_error():
    errors = dict.fromkeys(("mape_pct", "median_pct", "geomean_pct"), 4.0) | {"bias_pct": -4.0, "worst_pct": -4.0}
    assert _errors(1, "cases", "recalled", errors) == "1 case recalled: error -4.0 %"
    assert "mape" in _errors(2, "cases", "recalled", errors)


def test_validation_shows_bands_signed_errors_and_what_was_left_out():
    case = {"id": "a", "metric": "time_s", "measured": 1.0, "predicted": 1.1, "error_pct": 10.0, "grade": "read"}
    case |= {"role": "validation", "inputs": {}}
    ratio = {**case, "id": "c", "metric": "throughput_samples_per_s", "ratio": True, "title": "8 GPUs over 1"}
    band = {**case, "id": "b", "measured": {"low": 1.0, "high": 2.0}, "error_pct": None, "hit": True}
    errors = dict.fromkeys(("mape_pct", "median_pct", "geomean_pct", "bias_pct", "worst_pct"), 10.0)
    nothing = dict.fromkeys(errors)
    effect = {"title": "FP16 tables", "before": 1.0, "after": 1.3, "gain": 1.3, "published_gain": 1.2, "helps": True}
    suite = {
        "suite": "zionex",
        "cases": [case, band, ratio],
        **errors,
        "memory_cases": nothing,
        "calibration_cases": nothing,
        "bands": {"cases": 1, "hits": 1},
        "amounts": {"cases": 3, "exact": 2, "worst_pct": -7.0},
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
        "1 of 1 band hit",
        "2 cases with a source that was read: mape +10.0 %",
        "8 GPUs over 1",
        "ratio of throughput_samples_per_s",
        "mape +10.0 %",
        "4,096",
        "1.30",
        "1.20 (memory)",
        "row 7",
        "below 1 MiB",
        "input-bound",
    ):
        assert expected in text
    assert "0 cases recalled, apart from the mean: none" in text
