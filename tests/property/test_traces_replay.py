"""Whatever a trace's times are, its program reproduces them: two ranks that launch, wait, copy and meet."""

from __future__ import annotations

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from simulator.analysis import Window, break_down
from simulator.engine import RunOptions, run
from tests.trace_files import KinetoRank, write_ranks
from traces.analysis import analyse_trace
from traces.kineto.importer import import_kineto

times = st.integers(1, 40)
actions = st.lists(
    st.tuples(
        st.sampled_from(["kernel", "copy", "collective", "sync", "python"]),
        st.tuples(times, times),  # host time before the call, on each rank
        times,  # length of the call
        st.tuples(times, times),  # latency from the call's begin, on each rank
        st.tuples(times, times),  # length of the device work, on each rank
        st.sampled_from([7, 20]),
    ),
    min_size=1,
    max_size=14,
)


def two_traces(steps) -> list[KinetoRank]:
    """What a machine would do: streams in order, collectives end with the last arrival, a member some time later."""
    ranks = [KinetoRank(rank, 2) for rank in range(2)]
    now, free = [0, 0], [{7: 0, 20: 0}, {7: 0, 20: 0}]
    for kind, before, call, latency, length, stream in steps:
        now = [n + b for n, b in zip(now, before, strict=True)]
        if kind == "sync":
            for rank, own in enumerate(ranks):
                end = max(*free[rank].values(), now[rank]) + 1
                own.call("cudaDeviceSynchronize", now[rank], end - now[rank])
                now[rank] = end
        elif kind != "python":
            starts = [max(free[r][stream], now[r] + latency[r]) for r in range(2)]
            if kind == "collective":
                done = max(starts) + length[0]
                ends = [done, done + length[1] % 3]
            else:
                ends = [s + d for s, d in zip(starts, length, strict=True)]
            for rank, own in enumerate(ranks):
                launch, span = (now[rank], call), (starts[rank], ends[rank] - starts[rank])
                _launch(own, kind, launch, span, stream)
                free[rank][stream] = ends[rank]
                now[rank] += call
    for rank, own in enumerate(ranks):
        own.step(1, 0, max(now[rank], *free[rank].values()) + 1)
    return ranks


def _launch(own, kind, launch, span, stream) -> None:
    if kind == "kernel":
        own.kernel("gemm", launch, span, stream=stream)
    elif kind == "copy":
        own.kernel("Memcpy HtoD", launch, span, stream=stream, cat="gpu_memcpy", bytes=8)
    else:
        told = {"Collective name": "allreduce", "In msg nelems": 4, "dtype": "Float"}
        own.kernel("ncclDevKernel_AllReduce", launch, span, stream=stream, **told)


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
