"""The content of summary.json."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from simulator.analysis import analyse, find_bound, summarise
from simulator.collective_calls import CollectiveCall
from simulator.operators import Copy, Gemm, HostWork
from simulator.program import ProgramBuilder, TaskGraph
from tests.analysis_runs import group_times, hand_run, lowered

METRICS_PAGE = Path(__file__).parents[2] / "docs" / "reference" / "metrics.md"
S = 10**12  # ps


@pytest.fixture
def analysis():
    """Two ranks, two recorded iterations of 10 s; rank 1 computes longer."""
    builder = ProgramBuilder("group", [0, 1], ["host", "default", "comm", "memcpy"])
    launch = builder.task("launch", "host", HostWork(1), section="forward")
    copy = builder.task("copy", "memcpy", Copy(8, "h2d"), section="input")
    gemm = builder.task("gemm", "default", Gemm(8, 8, 8, "fp16"), after=[launch, copy], section="forward")
    builder.task("reduce", "comm", CollectiveCall("all_reduce", "world", 8e9), after=[gemm], section="backward")
    program = builder.build()
    graph = TaskGraph((program,), {"world": np.zeros(2, dtype=np.int64)})

    seconds = [[(0, 1, 0), (0, 2, 0), (2, 4, 0), (4, 10, 4)], [(0, 1, 0), (0, 2, 0), (2, 8, 0), (8, 10, 0)]]

    def times(begin):
        rows = [[((start + begin) * S, (end + begin) * S, wait * S) for start, end, wait in rank] for rank in seconds]
        return [group_times(rows)]

    result = hand_run([program], [times(0), times(10)])
    return analyse(graph, lowered(graph), result, algorithms={"reduce": "ring"})


@pytest.fixture
def summary(analysis):
    bound = find_bound(lambda improve: 8.0 + 2.0 / improve.get("HBM", 1.0))
    return summarise(
        analysis, nodes=1, global_batch_size=640, scenario_hash="ab12", bound=bound,
        memory={"hbm": {"weights_bytes": 8}}, warnings=["message size below the measured range"],
    )  # fmt: skip


def test_headline(summary):
    assert (summary["iteration_time_s"], summary["throughput_samples_per_s"]) == (10.0, 64.0)
    assert (summary["steady"], summary["iterations"], summary["world_size"]) == (False, 2, 2)


def test_breakdown_over_ranks(summary):
    """Rank 0: 2 copy, 2 compute, 6 comm of which 4 wait; rank 1: 2 copy, 6 compute, 2 comm."""
    breakdown = summary["breakdown"]
    assert breakdown["compute_s"] == {"mean": 4.0, "min": 2.0, "max": 6.0}
    assert breakdown["exposed_comm_s"] == {"mean": 4.0, "min": 2.0, "max": 6.0}
    assert breakdown["waiting_s"] == {"mean": 2.0, "min": 0.0, "max": 4.0}
    assert breakdown["host_s"]["mean"] == 1.0
    assert breakdown["fractions"] == {"compute": 0.4, "exposed_comm": 0.4, "exposed_copy": 0.2, "idle": 0.0}
    assert summary["exposed_comm_fraction"] == 0.4
    assert summary["imbalance"] == 1.5
    assert summary["ranks"] == {"slowest": 1, "fastest": 0, "median": 1, "first": 0}


def test_path_collectives_and_bound(summary):
    assert summary["critical_path"]["by_section_s"] == {"input": 2.0, "forward": 6.0, "backward": 2.0}
    assert summary["critical_path"]["by_operator_s"] == {"Gemm": 6.0, "Copy": 2.0, "all_reduce": 2.0}
    (row,) = summary["collectives"]
    assert (row["algorithm"], row["algbw_bytes_per_s"], row["busbw_bytes_per_s"]) == ("ring", 4e9, 4e9)
    assert (summary["bound"]["class"], summary["bound"]["runner_up"]) == ("HBM", "GEMM")
    assert summary["bound"]["gain"] == pytest.approx(0.2 * (1 - 1 / 1.1))


def test_summary_is_plain_json(summary):
    assert json.loads(json.dumps(summary, allow_nan=False)) == summary


def test_without_bound_and_memory(analysis):
    summary = summarise(analysis, nodes=1, global_batch_size=640, scenario_hash="ab12")
    assert (summary["bound"], summary["memory"], summary["warnings"]) == (None, {}, [])


def test_an_empty_window_has_no_fractions_to_divide(analysis):
    breakdown = analysis.breakdown
    zero = np.zeros_like(breakdown.compute_ps)
    empty = replace(
        breakdown, window=replace(breakdown.window, end_ps=0, start_ps=0), compute_ps=zero, exposed_comm_ps=zero
    )
    summary = summarise(replace(analysis, breakdown=empty), nodes=1, global_batch_size=1, scenario_hash="")
    assert (summary["exposed_comm_fraction"], summary["imbalance"]) == (0.0, 1.0)


def keys(value, *, names_are_data=("gains", "memory", "by_section_s", "by_operator_s", "by_category_s", "fractions")):
    """Every key of the summary whose name is ours."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield key
            if key not in names_are_data:
                yield from keys(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from keys(inner)


def test_every_key_is_documented(summary):
    page = METRICS_PAGE.read_text(encoding="utf-8")
    missing = sorted({key for key in keys(summary) if f"`{key}`" not in page and f".{key}`" not in page})
    assert missing == []
