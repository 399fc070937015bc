"""Levers of the host, and the bound of a replay, on traces whose times are known."""

from __future__ import annotations

import numpy as np
import pytest

from inputs.errors import InputError
from simulator.categories import Category
from tests.trace_files import KinetoRank, chakra_bytes, chakra_iteration, two_ranks, write_ranks
from traces.formats import import_traces
from traces.kineto.importer import import_kineto
from traces.replay import job_of, replayed
from traces.replay.bound import CLASSES, COMMUNICATION, HOST, KERNELS, bound_of
from traces.replay.host import (
    GRAPH_LAUNCH_S,
    GRAPH_NODE_S,
    launches_of,
    with_cuda_graphs,
    with_host_speed,
    with_launches,
)

US = 1_000_000
COUNT = 20


def launch_bound():
    """Twenty kernels of 10 us, one every 50 us, then a wait: the host's operators set the pace."""
    own = KinetoRank()
    for number in range(COUNT):
        begin = 50.0 * number
        own.op("aten::add", begin, 48.0)
        own.kernel("add", (begin + 40, 8.0), (begin + 49, 10.0))
    own.call("cudaDeviceSynchronize", 1000.0, 20.0)
    own.step(1, 0.0, 1020.0)
    return own


def kernel_bound():
    """Twenty kernels of 50 us back to back, launched in the first 200 us, then a wait."""
    own = KinetoRank()
    for number in range(COUNT):
        own.kernel("add", (10.0 * number, 8.0), (20.0 + 50 * number, 50.0))
    own.call("cudaDeviceSynchronize", 210.0, 20.0 + 50 * COUNT - 210.0)
    own.step(1, 0.0, 20.0 + 50 * COUNT)
    return own


def job_behind(own, tmp_path):
    return job_of(import_kineto([own.write(tmp_path / "rank0.json")]))


def step_us(job):
    (step,) = replayed(job).steps
    return (step.end_ps - step.start_ps) / US


@pytest.mark.parametrize("speed", [0.5, 1.5, 2.0, 4.0])
def test_a_job_that_its_host_bounds_takes_the_time_of_its_host(tmp_path, speed):
    """Of 1,020 us the host works 1,000 and waits for the last kernel."""
    job = job_behind(launch_bound(), tmp_path)
    assert step_us(with_host_speed(job, speed)) == pytest.approx(1000 / speed, abs=40)


def test_a_fast_host_changes_nothing_where_kernels_bound(tmp_path):
    job = job_behind(kernel_bound(), tmp_path)
    assert step_us(job) - step_us(with_host_speed(job, 2.0)) < 15
    assert step_us(with_host_speed(job, 1.0)) == step_us(job)


def test_half_the_launch_work_is_half_of_the_time_up_to_each_launch(tmp_path):
    """All host work but the tail behind the last launch ends in a launch; each kernel starts at half its time."""
    job = job_behind(launch_bound(), tmp_path)
    (program,) = job.graph.programs
    assert len(launches_of(program)) == COUNT
    halved = with_launches(job, 0.5)
    change = job.durations_ps[0] - halved.durations_ps[0]
    assert set(np.flatnonzero(change[:, 0])) <= set(launches_of(program).tolist())
    assert change.sum() == pytest.approx((50 * COUNT - 2) * US / 2, rel=0.01)
    assert step_us(halved) == pytest.approx(510, abs=20)


def test_launches_between_two_waits_are_one_graph(tmp_path):
    """One graph of twenty nodes: 2 us and 19 times 200 ns of the host before the last kernel may start."""
    graphed = with_cuda_graphs(job_behind(launch_bound(), tmp_path))
    (program,) = graphed.graph.programs
    spent = graphed.durations_ps[0][launches_of(program)].sum()
    assert spent == round((GRAPH_LAUNCH_S + (COUNT - 1) * GRAPH_NODE_S) * 1e12)
    assert f"{COUNT} of {COUNT} launches are in 1 CUDA graphs" in graphed.notes[-1]
    assert step_us(graphed) == pytest.approx(10 * COUNT, rel=0.25)  # kernels back to back


def test_a_wait_ends_a_graph_and_a_copy_that_is_awaited_is_in_none(tmp_path):
    own = KinetoRank()
    own.step(1, 0.0, 400.0)
    for begin in (0.0, 20.0):
        own.kernel("add", (begin, 10.0), (begin + 11, 5.0))
    own.kernel("Memcpy DtoH (Device -> Pageable)", (40.0, 30.0), (62.0, 5.0), cat="gpu_memcpy", bytes=8)
    for begin in (100.0, 120.0):
        own.kernel("add", (begin, 10.0), (begin + 11, 5.0))
    graphed = with_cuda_graphs(job_behind(own, tmp_path))
    assert "4 of 5 launches are in 2 CUDA graphs" in graphed.notes[-1]


def test_a_trace_without_a_host_has_no_levers(tmp_path):
    file = tmp_path / "job.0.et"
    file.write_bytes(chakra_bytes(chakra_iteration()))
    job = job_of(import_traces([file]))
    for lever in (lambda: with_host_speed(job, 2.0), lambda: with_launches(job, 0.5), lambda: with_cuda_graphs(job)):
        with pytest.raises(InputError, match="has no work of the host"):
            lever()


@pytest.mark.parametrize(("made", "winner"), [(launch_bound(), HOST), (kernel_bound(), KERNELS)])
def test_the_bound_is_the_class_that_saves_most(tmp_path, made, winner):
    """10 % faster it saves nearly 1 - 1 / 1.1 of a step that it fills."""
    job = job_behind(made, tmp_path)
    bound = bound_of(job, replayed(job))
    assert set(bound.gains) == set(CLASSES)
    assert bound.winner == winner
    assert bound.gains[winner] == pytest.approx(1 - 1 / 1.1, abs=0.01)
    assert ("a faster GPU changes nothing" in bound.finding) == (winner == HOST)


def test_a_transfer_that_is_waited_for_bounds(tmp_path):
    """An all_reduce of 150 of 200 us, awaited by the host."""
    ranks = two_ranks()
    for own in ranks:
        kernel = next(e for e in own.events if e["name"].startswith("nccl"))
        longer = 185.0 - kernel["ts"] - kernel["dur"]
        for event in own.events:
            if event["name"] in ("optimizer", "adam") or event["ts"] >= 90:
                event["ts"] += longer
        kernel["dur"] += longer
        next(e for e in own.events if e["name"] == "cudaDeviceSynchronize")["dur"] += longer
        next(e for e in own.events if e["name"].startswith("ProfilerStep"))["dur"] += longer
    job = job_of(import_kineto(write_ranks(tmp_path, ranks)))
    assert bound_of(job, replayed(job)).winner == COMMUNICATION


def test_host_work_is_never_longer_with_a_lever(tmp_path):
    job = job_of(import_kineto(write_ranks(tmp_path, two_ranks())))
    for changed in (with_host_speed(job, 1.5), with_launches(job, 0.5), with_cuda_graphs(job)):
        for program, was, now in zip(job.graph.programs, job.durations_ps, changed.durations_ps, strict=True):
            host = [c is Category.HOST for c in program.categories]
            assert (now[host] <= was[host]).all()
            assert np.array_equal(now[np.logical_not(host)], was[np.logical_not(host)])
