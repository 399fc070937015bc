"""Calls that last as long as device work does: on a faster device the host waits less and works as much."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from simulator.categories import Category
from tests.trace_files import KinetoRank
from traces.kineto.blocked_calls import QUEUE_ENTRIES
from traces.kineto.importer import import_kineto
from traces.replay import job_of, replayed

US = 1_000_000


def job_behind(own, tmp_path):
    """The job of a rank's trace; replayed unchanged it ends every task where it was measured to."""
    imported = import_kineto([own.write(tmp_path / "rank0.json")])
    job = job_of(imported)
    for again, was in zip(
        replayed(job).measured.result.records[0].groups, imported.measured.result.records[0].groups, strict=True
    ):
        assert np.array_equal(again.end_ps, was.end_ps)
    return job


def step_us(job, *, device=1.0, host=1.0):
    """Length of the step with all kernels, and all host work, times a factor."""
    durations = job.durations_ps[0].copy()
    factors = {Category.COMPUTE: device, Category.HOST: host}
    for task, category in enumerate(job.graph.programs[0].categories):
        durations[task] = np.rint(durations[task] * factors.get(category, 1.0))
    (step,) = replayed(replace(job, durations_ps=(durations,))).steps
    return (step.end_ps - step.start_ps) / US


def usual_launches(own, count=4):
    for number in range(count):
        own.kernel("Memcpy HtoD", (2.0 + 10 * number, 8.0), (11.0 + 10 * number, 1.0), cat="gpu_memcpy", bytes=8)


def behind_a_pageable_copy():
    """1,000 us of kernel; a copy to pageable memory is called while it runs, and returns when it has run."""
    own = KinetoRank()
    own.step(1, 0.0, 1200.0)
    usual_launches(own)
    own.kernel("gemm", (50.0, 5.0), (60.0, 1000.0))
    own.kernel("Memcpy DtoH (Device -> Pageable)", (70.0, 1000.0), (1065.0, 2.0), cat="gpu_memcpy", bytes=8)
    own.op("python", 1080.0, 115.0)
    own.kernel("adam", (1180.0, 5.0), (1186.0, 5.0))
    return own


def behind_an_all_to_all():
    """The same, with the work that the copy waits for on another stream."""
    own = KinetoRank()
    own.step(1, 0.0, 1200.0)
    usual_launches(own)
    own.kernel("all to all of vectors", (50.0, 5.0), (60.0, 1000.0), stream=20)
    own.call("cudaStreamWaitEvent", 60.0, 1.0)
    own.kernel("Memcpy DtoH (Device -> Pageable)", (70.0, 1000.0), (1065.0, 2.0), cat="gpu_memcpy", bytes=8)
    own.op("python", 1080.0, 115.0)
    own.kernel("adam", (1180.0, 5.0), (1186.0, 5.0))
    return own


def behind_a_free(name="cudaFree"):
    """Memory is given back: the call returns 10 us after the last kernel."""
    own = KinetoRank()
    own.step(1, 0.0, 1200.0)
    own.kernel("gemm", (50.0, 5.0), (60.0, 1000.0))
    own.call(name, 70.0, 1000.0)
    own.op("python", 1080.0, 115.0)
    own.kernel("adam", (1180.0, 5.0), (1186.0, 5.0))
    return own


@pytest.mark.parametrize(
    "made", [behind_a_pageable_copy(), behind_an_all_to_all(), behind_a_free(), behind_a_free("cudaMalloc")]
)
def test_a_faster_device_shortens_the_wait_of_the_host(tmp_path, made):
    """All that the host waits for is the kernel of 1,000 us: half of it gone, the step is 500 us shorter."""
    job = job_behind(made, tmp_path)
    assert step_us(job) == 1200.0
    assert step_us(job, device=0.5) == pytest.approx(700.0, abs=3.0)
    assert step_us(job, device=2.0) == pytest.approx(2200.0, abs=6.0)


@pytest.mark.parametrize("made", [behind_a_pageable_copy(), behind_an_all_to_all(), behind_a_free()])
def test_a_call_that_waits_is_no_work_of_the_host(tmp_path, made):
    """The host does 200 us of its own around the call; twice as fast it saves half of that and nothing of the wait."""
    job = job_behind(made, tmp_path)
    assert 1040.0 < step_us(job, host=0.5) < 1200.0
    host = [c is Category.HOST for c in job.graph.programs[0].categories]
    assert job.durations_ps[0][host].sum() / US < 250.0


def test_a_copy_onto_a_free_stream_is_work_of_the_host(tmp_path):
    """Nothing runs before it: the 900 us that its call takes (pageable memory is staged) remain on any device."""
    own = KinetoRank()
    own.step(1, 0.0, 1200.0)
    usual_launches(own)
    own.kernel("Memcpy HtoD (Pageable -> Device)", (70.0, 900.0), (960.0, 5.0), cat="gpu_memcpy", bytes=8)
    own.kernel("gemm", (1000.0, 5.0), (1010.0, 100.0))
    own.call("cudaDeviceSynchronize", 1020.0, 100.0)
    job = job_behind(own, tmp_path)
    assert step_us(job, device=0.5) == pytest.approx(1150.0, abs=3.0)
    assert step_us(job, host=0.5) < 800.0


def test_memory_that_is_given_back_while_work_runs_on_waits_for_nothing(tmp_path):
    """The call ends before the kernel does: 300 us of the host."""
    own = KinetoRank()
    own.step(1, 0.0, 1200.0)
    own.kernel("before", (5.0, 5.0), (11.0, 100.0))
    own.kernel("gemm", (50.0, 5.0), (111.0, 900.0))
    own.call("cudaFree", 70.0, 300.0)
    own.kernel("adam", (1180.0, 5.0), (1186.0, 5.0))
    job = job_behind(own, tmp_path)
    assert step_us(job, device=0.1) == 1200.0


def full_queue(count=QUEUE_ENTRIES + 200, launch_us=5.0, kernel_us=50.0):
    """Launches of 5 us each of kernels of 50 us: from the 1,025th pending one on each waits for a kernel to end."""
    own, now, ends = KinetoRank(), 0.0, []
    for number in range(count):
        begin = now
        start = max(ends[-1] if ends else 0.0, begin + 6.0)
        now = begin + launch_us
        if number >= QUEUE_ENTRIES:
            now = max(now, ends[number - QUEUE_ENTRIES] + launch_us)
        own.kernel("gemm", (begin, now - begin), (start, kernel_us))
        ends.append(start + kernel_us)
    own.op("python", now, 10.0)
    own.call("cudaDeviceSynchronize", now + 20.0, ends[-1] - now - 15.0)
    own.step(1, 0.0, ends[-1] + 10.0)
    return own


def test_a_launch_into_a_full_queue_waits_for_the_device(tmp_path):
    """The kernels bound the step: a tenth as long, the host does; its 200 blocked launches cost it a launch each."""
    count = QUEUE_ENTRIES + 200
    job = job_behind(full_queue(count), tmp_path)
    assert step_us(job, device=0.5) == pytest.approx(step_us(job) / 2, rel=0.02)
    assert step_us(job, device=0.01) == pytest.approx(5.0 * count, rel=0.02)
