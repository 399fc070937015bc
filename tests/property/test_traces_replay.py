"""Whatever a trace's times are, its program reproduces them: two ranks that launch, wait, copy and meet."""

from __future__ import annotations

import numpy as np
from hypothesis import HealthCheck, given, settings

from simulator.analysis import Window, break_down
from simulator.engine import RunOptions, run
from tests.trace_files import write_ranks
from tests.trace_jobs import actions, two_traces
from traces.analysis import analyse_trace
from traces.kineto.importer import import_kineto


@settings(
    max_examples=120, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(steps=actions)
def test_the_engine_gives_the_measured_ends_back(tmp_path, steps):
    ranks = two_traces(steps)
    if not any(event["cat"] in ("kernel", "gpu_memcpy") for event in ranks[0].events):
        return
    imported = import_kineto(write_ranks(tmp_path, ranks))
    measured = imported.measured
    result = run(measured.lowered, RunOptions(max_iterations=1))
    for own, replayed in zip(measured.result.records[0].groups, result.records[0].groups, strict=True):
        assert np.array_equal(own.end_ps, replayed.end_ps)
        assert np.array_equal(own.start_ps, replayed.start_ps)
        assert np.array_equal(own.waiting_ps, replayed.waiting_ps)
    _parts_add_up(imported)


def _parts_add_up(imported) -> None:
    """Breakdown and idle causes cover each step; the critical path covers the window."""
    analysis = analyse_trace(imported, imported.measured)
    for row in analysis.steps:
        parts = row.compute_s + row.exposed_comm_s + row.exposed_copy_s + row.idle_s
        causes = row.idle_host_s + row.idle_kernel_wait_s + row.idle_dependency_s
        assert abs(parts - row.step_s) < 1e-12
        assert abs(causes - row.idle_s) < 1e-12
        assert 0 <= row.exposed_waiting_s <= row.exposed_comm_s + 1e-12
    window = analysis.breakdown.window
    assert sum(s.length_ps for s in analysis.critical_path.segments) == window.length_ps
    whole = break_down(
        imported.graph.programs, imported.measured.result, window=Window(0, window.start_ps, window.end_ps)
    )
    assert whole.waiting_ps.sum() >= 0
