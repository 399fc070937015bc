"""Times that int64 picoseconds cannot hold are refused before the run, with the key that makes them."""

from __future__ import annotations

import numpy as np
import pytest

from inputs.errors import InputError
from scenarios.progress import Silent
from scenarios.resolve import load_scenario
from scenarios.runner import simulate
from simulator.countable import MAX_RUN_PS, MAX_TASK_S
from simulator.counted_run import counted_run
from simulator.engine import RunOptions
from simulator.lowered import Activity, ConstantDurations, LoweredGroup, LoweredProgram, phase
from simulator.operators import HostWork
from simulator.program import ProgramBuilder

SLOW = {
    "workload.ingestion": "{reader_hosts: 1, cores_per_host: 1, decode_bytes_per_s: 1 kB/s}",
    "cluster.node.gpu.memory_bytes_per_s": "1 kB/s",
    "cluster.node.pcie_bytes_per_s": "1 kB/s",
}


@pytest.mark.parametrize(("key", "value"), SLOW.items())
def test_a_task_of_centuries_is_refused_with_its_key(key, value):
    with pytest.raises(InputError, match="longer than can be counted") as caught:
        simulate(load_scenario("synthetic_tiny", [f"{key}={value}", "workload.global_batch_size=65536"]), Silent())
    assert key.startswith(caught.value.key)
    assert f"--set {key}" in str(caught.value)


def test_slow_collectives_are_refused_with_their_task():
    slow = ["nodes=2", "cluster.node.nics.nic.bytes_per_s=1 kB/s", "workload.global_batch_size=65536"]
    with pytest.raises(InputError, match=r"the task .* takes longer") as caught:
        simulate(load_scenario("synthetic_tiny", slow), Silent())
    assert caught.value.key == "cluster"


def test_other_jobs_leave_something_of_every_link():
    with pytest.raises(InputError, match=r"network\.background"):
        load_scenario("synthetic_tiny", ["network.background={nic: 0.9999999}"])


def one_task(duration_ps: int, work_ps: int = 0) -> LoweredProgram:
    """A rank with one host task, and an activity after it."""
    builder = ProgramBuilder("one", [0], ["host"])
    builder.task("wait", "host", HostWork())
    builder.task("work", "host", HostWork())
    program = builder.build()
    durations = ConstantDurations(np.array([[duration_ps], [0]], dtype=np.int64))
    group = LoweredGroup.with_rows(program, durations, {1: np.zeros(1, dtype=np.int64)})
    return LoweredProgram((group,), [Activity("work", (phase(0, work_ps, [0]),))], 1)


def test_tasks_and_runs_up_to_the_limit_are_counted_and_longer_ones_refused():
    longest_ps = int(MAX_TASK_S * 1e12)
    result = counted_run(one_task(longest_ps - 1, longest_ps - 1), RunOptions(max_iterations=2))
    assert result.iteration_end_ps.tolist() == [2 * longest_ps - 2, 4 * longest_ps - 4]
    for wrong in (one_task(longest_ps + 1), one_task(0, longest_ps + 1)):
        with pytest.raises(InputError, match="longer than can be counted"):
            counted_run(wrong, RunOptions(max_iterations=1))
    with pytest.raises(InputError, match="the run takes longer") as caught:
        counted_run(one_task(longest_ps - 1), RunOptions(max_iterations=MAX_RUN_PS // longest_ps + 2))
    assert caught.value.key == "run"
