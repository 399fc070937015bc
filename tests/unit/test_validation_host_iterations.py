"""What is fitted to whole iterations is found again in jobs that a known machine would have trained."""

import json
from dataclasses import replace

import numpy as np
import pytest

from scenarios.resolve import load_scenario
from tests.host_machines import costs, host, kernels
from validation.host_iterations import TrainedJob, with_level, with_turns, with_waits
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
        resolved = replace(load_scenario(file, ["run.iterations=4"]), cluster=truth)
        times = predict(resolved)
        found.append(TrainedJob(resolved, times.iteration_s, times.thread_s))
    return found


@pytest.mark.parametrize(("threads", "ranks"), [(1, 2), (2, 1)])
def test_costs_of_one_number_of_threads_are_scaled_to_its_jobs(threads, ranks, tmp_path):
    told = with_level(machine(), threads, trained(machine(1.3), ranks, tmp_path))
    for known in told.node.cpu.kernels:
        expected = 1.3 if known.threads == threads else 1.0
        assert known.costs["update"].seconds_per["lookup"] == pytest.approx(expected * 2e-8, rel=0.01)


def test_what_collectives_take_longer_is_found(tmp_path):
    told = with_waits(machine(), trained(machine(wait_s=5e-4), 2, tmp_path))
    for known in told.node.cpu.kernels:
        assert known.collective_wait_s == pytest.approx(5e-4, abs=7e-5)
    assert with_waits(machine(), trained(machine(), 2, tmp_path)) == machine(), "nothing where nothing is missing"
    assert with_waits(machine(), trained(machine(wait_s=5e-4), 1, tmp_path)) == machine(), "one rank waits for nobody"


def test_what_ranks_that_take_turns_lose_is_found(tmp_path):
    told = with_turns(machine(), trained(machine(shared=(1.2, 6.0)), 4, tmp_path))
    for known in told.node.cpu.kernels:
        assert known.shared_slower == pytest.approx(1.2, rel=0.01)
        assert known.shared_latency_cores == pytest.approx(6.0, abs=1.0)


def test_without_jobs_nothing_changes():
    assert with_level(machine(), 1, []) == with_waits(machine(), []) == with_turns(machine(), []) == machine()
