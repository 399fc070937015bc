"""Whatever a trace is, each change of its replay does what it says and no more."""

from __future__ import annotations

import numpy as np
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from hardware_specs.loader import load_gpu
from simulator.categories import Category
from tests.trace_files import write_ranks
from tests.trace_jobs import actions, two_traces
from traces.kineto.importer import import_kineto
from traces.replay import job_of, replayed
from traces.replay.absent import with_late_absent_ranks
from traces.replay.delays import delayed
from traces.replay.gpu import on_gpu
from traces.replay.overlap import with_communication_hidden, without_overlap
from traces.replay.precision import in_precision

BUDGET = settings(
    max_examples=60, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
DEVICE = (Category.COMPUTE, Category.COMM, Category.COPY)


def imported(tmp_path, steps, ranks=None):
    made = two_traces(steps)
    assume(any(event["cat"] in ("kernel", "gpu_memcpy") for event in made[0].events))
    return import_kineto(write_ranks(tmp_path, made), ranks)


def ends(found):
    return [group.end_ps for group in found.measured.result.records[0].groups]


@BUDGET
@given(steps=actions)
def test_one_stream_runs_one_thing_at_a_time_and_does_not_deadlock(tmp_path, steps):
    trace = imported(tmp_path, steps)
    found = replayed(without_overlap(job_of(trace)))
    for program, times in zip(found.graph.programs, found.measured.result.records[0].groups, strict=True):
        device = [task for task, category in enumerate(program.categories) if category in DEVICE]
        for column in range(program.rank_count):
            order = np.argsort(times.start_ps[device, column], kind="stable")
            starts, stops = (times.start_ps[device, column][order], times.end_ps[device, column][order])
            assert (np.sort(stops)[:-1] <= starts[1:]).all()


@BUDGET
@given(steps=actions)
def test_hidden_communication_delays_nothing(tmp_path, steps):
    trace = imported(tmp_path, steps)
    found = replayed(with_communication_hidden(job_of(trace)))
    assert all((after <= before).all() for after, before in zip(ends(found), ends(trace), strict=True))


@BUDGET
@given(steps=actions, delay_us=st.integers(1, 50), rank=st.integers(0, 1))
def test_a_late_rank_moves_nothing_further_than_it_is_late(tmp_path, steps, delay_us, rank):
    trace = imported(tmp_path, steps)
    found = replayed(delayed(job_of(trace), {rank: delay_us * 1e-6}))
    for after, before in zip(ends(found), ends(trace), strict=True):
        assert (after >= before).all()
        assert (after - before <= delay_us * 1_000_000).all()


@BUDGET
@given(steps=actions)
def test_waiting_for_absent_ranks_leaves_the_times_of_the_trace(tmp_path, steps):
    trace = imported(tmp_path, steps, [0])
    found = replayed(with_late_absent_ranks(job_of(trace)))
    assert np.array_equal(ends(found)[0], ends(trace)[0])
    assert found.steps == trace.steps


@BUDGET
@given(steps=actions)
def test_the_same_gpu_and_the_same_precision_change_nothing(tmp_path, steps):
    trace = imported(tmp_path, steps)
    gpu = load_gpu("v100_sxm2_32")
    job, shares = on_gpu(job_of(trace), gpu, gpu)
    # The floor is split off and put back: a picosecond may go in rounding.
    assert all(abs(share.before_s - share.after_s) <= 1e-12 * max(share.tasks, 1) for share in shares)
    if any(kind == "collective" for kind, *_ in steps):
        job = in_precision(job, {"all": "fp32"})
    for after, before in zip(ends(replayed(job)), ends(trace), strict=True):
        assert np.abs(after - before).max() <= len(steps)


@BUDGET
@given(steps=actions, factor=st.sampled_from(["fp16", "fp8"]))
def test_less_precision_takes_no_longer(tmp_path, steps, factor):
    assume(any(kind == "collective" for kind, *_ in steps))
    trace = imported(tmp_path, steps)
    found = replayed(in_precision(job_of(trace), {"all": factor}))
    assert all((after <= before).all() for after, before in zip(ends(found), ends(trace), strict=True))
