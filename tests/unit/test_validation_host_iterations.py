"""What is fitted to whole iterations is found again in jobs that a known machine would have trained."""

import json
from dataclasses import replace

import numpy as np
import pytest

from hardware_specs.cpu_kernels import Followed
from scenarios.resolve import load_scenario
from simulator.operators import EmbeddingUpdate, Gemm, HostWork
from tests.host_machines import costs, host, kernels
from validation.host_iterations import TrainedJob, with_classes, with_level
from validation.host_waits import spread_of, with_calls, with_turns, with_waits
from validation.in_situ import PartRow
from validation.measured_prediction import predict

JOBS = 5
KINDS = {
    "gemm": costs(flop=2e-11),
    "lookup": costs(lookup=4e-9),
    "update": costs(lookup=2e-8),
    "host": costs(launch=5e-6),
}


def machine(factor=1.0, **changes):
    """Two cores; kernels are slower by a factor."""
    slower = {
        kind: costs(**{name: factor * float(value.split()[0]) for name, value in of["seconds_per"].items()})
        for kind, of in KINDS.items()
    }
    return host(2, *(kernels(threads, collective_cores=0.5, **changes, **slower) for threads in (1, 2)))


def trained(truth, ranks, tmp_path):
    """Jobs as the true machine would train them."""
    random = np.random.default_rng(ranks)
    found = []
    for number in range(JOBS):
        tables = [{"rows": 1000, "dim": 16, "pooling_factor": int(random.integers(1, 9))} for _ in range(8)]
        graded = {"source": "a test", "grade": "assumed"}
        model = {
            "name": "job",
            "title": "a job",
            "tables": {**graded, "value": tables},
            "mlp": {
                "dense_features": {**graded, "value": 13},
                "bottom": {**graded, "value": [64, 16]},
                "top": {**graded, "value": [64, 1]},
            },
            "interaction": {**graded, "value": "cat"},
            "index_reuse": {**graded, "value": "uniform"},
            "local_batch_size": {**graded, "value": 128},
        }
        workload = {"model": model, "global_batch_size": 512 * (number + 1), "framework": "pytorch", "pipeline": "none"}
        file = tmp_path / f"job_{ranks}_{number}.json"
        content = {"schema": 1, "name": "job", "cluster": "dgx_a100_40", "world_size": ranks, "workload": workload}
        file.write_text(json.dumps(content))
        resolved = replace(load_scenario(file, ["run.iterations=8"]), cluster=truth)
        times = predict(resolved)
        found.append(TrainedJob(resolved, times.iteration_s, times.thread_s))
    return found


@pytest.mark.parametrize(("threads", "ranks"), [(1, 2), (2, 1)])
def test_costs_of_one_number_of_threads_are_scaled_to_its_jobs(threads, ranks, tmp_path):
    told = with_level(machine(), threads, trained(machine(1.3), ranks, tmp_path))
    for known in told.node.cpu.kernels:
        expected = 1.3 if known.threads == threads else 1.0
        assert known.costs["update"].seconds_per["lookup"] == pytest.approx(expected * 2e-8, rel=0.01)


@pytest.mark.parametrize("waits", [(5e-4, 0.1), (1e-4, 0.15), (1.5e-3, 0.02)])
def test_what_collectives_take_longer_is_found(waits, tmp_path):
    jobs = trained(machine(waits=waits), 2, tmp_path)
    told = with_waits(machine(), jobs)
    assert np.mean(np.abs(errors(machine(), jobs))) > 0.05
    assert np.mean(np.abs(errors(told, jobs))) < 0.005


def test_chance_is_what_ranks_of_equal_work_were_apart(tmp_path):
    """By their work and by that of threads, drawn from two normal numbers each time; waits are fitted beside it."""
    truth = machine(10.0, waits=(5e-4, 0.01), threads_spread=0.4, posting_s=3e-4)
    random = np.random.default_rng(0)
    jobs = []
    for job in trained(truth, 2, tmp_path):
        others_s = truth.node.cpu.kernels[0].threads_s(6, 0.0, turns=False)
        spread = truth.node.cpu.kernels[0].spread(job.thread_s, others_s)
        pairs = random.normal(scale=spread * job.thread_s, size=(4, 4000, 2))
        apart_s = np.abs(pairs - pairs.mean(axis=2, keepdims=True)).mean(axis=(1, 2))
        jobs += [replace(job, others_s=others_s, apart_s=float(each)) for each in apart_s]
    assert spread_of(jobs) == pytest.approx((0.4, 0.01), rel=0.05)
    found = with_waits(machine(10.0, posting_s=3e-4), jobs).node.cpu.kernels[0]
    assert (found.threads_spread, found.work_spread) == spread_of(jobs)
    assert found.collective_wait_s == pytest.approx(5e-4, rel=0.1)


def test_chance_is_fitted_to_waits_where_few_jobs_tell(tmp_path):
    jobs = trained(machine(waits=(5e-4, 0.1)), 2, tmp_path)
    few = [replace(job, apart_s=1e-9) for job in jobs]
    assert [spread_of(jobs), spread_of(few)] == [None, None]
    found = with_waits(machine(), few).node.cpu.kernels[0]
    assert (found.threads_spread, found.work_spread) == (0.0, pytest.approx(0.1, rel=0.05))


def test_a_job_that_was_held_up_does_not_bend_what_collectives_wait(tmp_path):
    jobs = trained(machine(waits=(5e-4, 0.1)), 2, tmp_path)
    jobs[2] = replace(jobs[2], iteration_s=1.5 * jobs[2].iteration_s)
    found = with_waits(machine(), jobs).node.cpu.kernels[0]
    assert (found.collective_wait_s, found.work_spread) == pytest.approx((5e-4, 0.1), rel=0.05)


@pytest.mark.parametrize(("noises", "within"), [((-2 / 3, 0.0, 2 / 3), 0.1), ((-0.4, -0.1, 0.5), 0.05)])
def test_noise_of_waits_does_not_pull_them_down(noises, within, tmp_path):
    """Each job three times, right in the mean: not the least counts, nor the middle, which may be a tenth too short."""
    jobs = trained(machine(waits=(1.5e-3, 0.0)), 2, tmp_path)
    waited_s = [job.iteration_s - predict(replace(job.resolved, cluster=machine())).iteration_s for job in jobs]
    noisy = [
        replace(job, iteration_s=job.iteration_s + noise * of_job_s)
        for job, of_job_s in zip(jobs, waited_s, strict=True)
        for noise in noises
    ]
    found = with_waits(machine(), noisy).node.cpu.kernels[0]
    assert found.collective_wait_s == pytest.approx(1.5e-3, rel=within)


@pytest.mark.parametrize(("posting_s", "system_share"), [(3e-4, 0.04), (0.0, 0.08)])
def test_what_interrupts_kernels_is_found_where_jobs_tell_what_collectives_took(posting_s, system_share, tmp_path):
    truth = machine(10.0, waits=(5e-4, 0.1), posting_s=posting_s, system_share=system_share)
    jobs = trained(truth, 2, tmp_path)
    told_of = [replace(job, collectives_s=predict(job.resolved).classes_s["collectives"]) for job in jobs]
    one, two = sorted(with_waits(machine(10.0), told_of).node.cpu.kernels, key=lambda known: known.threads)
    assert (one.posting_s, one.system_share) == pytest.approx((posting_s, system_share), rel=0.05, abs=5e-6)
    assert (one.collective_wait_s, one.work_spread) == pytest.approx((5e-4, 0.1), rel=0.05)
    assert (two.posting_s, two.system_share) == (0.0, 0.0), "costs of several threads are time"


def test_nothing_waits_where_nothing_is_missing(tmp_path):
    assert with_waits(machine(), trained(machine(), 2, tmp_path)) == machine()
    alone = trained(machine(waits=(5e-4, 0.0)), 1, tmp_path)
    assert with_waits(machine(), alone) == machine(), "one rank waits for nobody"


@pytest.mark.parametrize("factor", [0.8, 1.25])
def test_kernels_that_are_off_are_not_made_up_for_by_waiting(factor, tmp_path):
    truth = trained(machine(waits=(5e-4, 0.0)), 2, tmp_path)
    found = with_waits(machine(factor), truth).node.cpu.kernels[0]
    per_job_s = [job.thread_s for job in truth]
    told = [found.collective_wait_s + 0.589 * found.work_spread * factor * work_s / 6 for work_s in per_job_s]
    assert np.mean(told) == pytest.approx(5e-4, rel=0.3)


def errors(cluster, jobs):
    """Of predicted iterations, relative."""
    predicted = [predict(replace(job.resolved, cluster=cluster)).iteration_s for job in jobs]
    return np.array(predicted) / [job.iteration_s for job in jobs] - 1.0


def test_what_ranks_that_take_turns_lose_is_found(tmp_path):
    """How far cores differ is known from other ranks."""
    cores_differ = (0.0, 0.05)
    jobs = trained(machine(waits=cores_differ, shared=(1.2, 1e-3), turn_s=4e-4), 4, tmp_path)
    told = with_turns(machine(waits=cores_differ), 4e-4, jobs)
    for known in told.node.cpu.kernels:
        assert known.turn_s == 4e-4
        assert known.shared_wait_s == pytest.approx(1e-3, rel=0.1)
        assert known.shared_slower == pytest.approx(1.2, rel=0.01)
        assert known.collective_wait_s == 0.0
    assert np.mean(np.abs(errors(machine(), jobs))) > 0.1
    assert np.mean(np.abs(errors(told, jobs))) < 0.02


@pytest.mark.parametrize("factor", [5.0, 20.0])
def test_kernels_that_are_off_are_not_made_up_for_by_waiting_of_ranks_that_take_turns(factor, tmp_path):
    """They cost a quarter too much; ranks on a core compute beside each other in half of an iteration, or in most."""
    jobs = trained(machine(factor, shared=(1.0, 1e-3), turn_s=4e-4), 4, tmp_path)
    told_of = [replace(job, collectives_s=predict(job.resolved).classes_s["collectives"]) for job in jobs]
    (found,) = {known.shared_wait_s for known in with_turns(machine(1.25 * factor), 4e-4, told_of).node.cpu.kernels}
    assert found == pytest.approx(1e-3, rel=0.1)


@pytest.mark.parametrize(("ranks", "name"), [(2, "after_call_s"), (4, "shared_after_call_s")])
def test_what_interrupts_ranks_after_calls_is_found(ranks, name, tmp_path):
    """It changes what is told of kernels, not how long anything takes."""

    def known(after_s):
        after_calls = (after_s, 0.0) if ranks == 2 else (0.0, after_s)
        return machine(posting_s=4e-4, turn_s=4e-4, after_calls=after_calls)

    def rest_share(resolved):
        told = predict(resolved).classes_s
        return told["rest"] / (sum(told.values()) - told["collectives"])

    jobs = trained(known(1e-4), ranks, tmp_path)
    told_of = [replace(job, rest_share=rest_share(job.resolved)) for job in jobs]
    (found,) = {getattr(of, name) for of in with_calls(known(0.0), [*told_of, *jobs], name).node.cpu.kernels}
    assert found == pytest.approx(1e-4, rel=0.05)
    assert with_calls(known(0.0), jobs, name) == known(0.0), "nobody tells"
    assert np.max(np.abs(errors(known(0.0), jobs))) < 1e-9


def test_how_long_turns_are_in_iterations_is_found_where_jobs_tell_what_collectives_took(tmp_path):
    """Two processes that are busy all the time would have turns four times as long."""
    jobs = trained(machine(shared=(1.2, 0.0), turn_s=1e-3), 4, tmp_path)
    told_of = [replace(job, collectives_s=predict(job.resolved).classes_s["collectives"]) for job in jobs]
    told = with_turns(machine(), 4e-3, told_of)
    assert {known.turn_s for known in told.node.cpu.kernels} == {1e-3}
    off = [
        predict(replace(job.resolved, cluster=told)).classes_s["collectives"] / job.collectives_s - 1.0
        for job in told_of
    ]
    assert np.mean(np.abs(off)) < 0.02
    assert {known.turn_s for known in with_turns(machine(), 4e-3, jobs).node.cpu.kernels} == {4e-3}, "nobody tells"


def test_what_calls_lose_is_that_of_ranks_that_take_turns(tmp_path):
    jobs = trained(machine(), 4, tmp_path)
    (lost,) = {
        (known.shared_call_lost_s, known.shared_call_lost_share)
        for known in with_turns(machine(), 4e-3, jobs, None, (1.5e-3, 0.25)).node.cpu.kernels
    }
    assert lost == (1.5e-3, 0.25)


def test_how_closely_ranks_that_take_turns_go_with_the_yardstick_is_theirs(tmp_path):
    told = with_turns(machine(), 4e-3, trained(machine(), 4, tmp_path), followed=Followed(0.7, 0.6)).node.cpu.kernels
    assert {known.shared_followed for known in told} == {(0.7, 0.6)}
    assert {known.followed for known in told} == {(1.0, 1.0)}


def test_classes_are_scaled_to_what_they_take_in_the_middle_job_by_its_share(tmp_path):
    """Updates took twice as long in all jobs; GEMMs three times as long in one in which there is hardly any."""
    jobs = trained(machine(), 1, tmp_path)
    parts = [
        (
            PartRow("column_update", [EmbeddingUpdate(1e6, *[0.0] * 5, 1.0)], 2 * 2e-8 * 1e6, 0.0),
            PartRow("gemm", [Gemm(5e8 if number else 5e2, 1, 1, "fp32")], (1.0 if number else 3e-6) * 2e-2, 0.0),
            PartRow("ends", [HostWork(1e3)], 5e-3, 0.0),
        )
        for number in range(JOBS)
    ]
    told = with_classes(machine(), 2, [replace(job, parts=part) for job, part in zip(jobs, parts, strict=True)])
    one, two = sorted(told.node.cpu.kernels, key=lambda known: known.threads)
    assert two.costs["update"].seconds_per["lookup"] == pytest.approx(4e-8)
    assert two.costs["gemm"].seconds_per["flop"] == pytest.approx(2e-11)
    assert two.costs["host"].seconds_per["launch"] == pytest.approx(5e-6)
    assert two.costs["lookup"] == one.costs["lookup"], "in no job"
    assert one.costs["update"].seconds_per["lookup"] == pytest.approx(2e-8), "of the other number of threads"


def test_without_jobs_nothing_changes():
    assert with_level(machine(), 1, []) == with_waits(machine(), []) == with_turns(machine(), 4e-3, []) == machine()
    assert with_classes(machine(), 1, []) == machine()


def test_waits_are_fitted_to_what_collectives_took_where_jobs_tell_it(tmp_path):
    """What iterations are longer than that is no wait, and jobs that do not tell it say nothing."""
    jobs, longer_jobs = (
        trained(machine(10.0, waits=(5e-4, 0.1), system_share=share), 2, tmp_path) for share in (0.0, 0.05)
    )
    told, longer = (
        [replace(job, collectives_s=predict(job.resolved).classes_s["collectives"]) for job in of]
        for of in (jobs, longer_jobs)
    )
    other = [replace(job, iteration_s=3.0 * job.iteration_s) for job in jobs]
    found, longer_found = (with_waits(machine(10.0), [*of, *other]).node.cpu.kernels[0] for of in (told, longer))
    assert (found.collective_wait_s, found.work_spread) == pytest.approx((5e-4, 0.1), rel=0.05)
    assert (found.posting_s, found.system_share) == pytest.approx((0.0, 0.0), abs=1e-4), "nothing else is missing"
    assert longer_found.system_share == pytest.approx(0.05, rel=0.05), "kernels were longer"
    assert (longer_found.collective_wait_s, longer_found.work_spread) == pytest.approx((5e-4, 0.1), rel=0.05)
