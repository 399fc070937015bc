"""What collectives take of the cores is no cost of the kernels beside them."""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from hardware_specs.loader import load_cluster
from scenarios.prepare import prepare
from scenarios.progress import Silent
from simulator.compute.cpu_amounts import class_of
from simulator.operators import CollectiveCall, EmbeddingLookup, Gemm
from validation.host_iterations import with_kernels
from validation.host_record import HostRecord
from validation.in_situ import Beside, TrainedRank, group_of, parts
from validation.measured_prediction import predict_beside
from validation.timed import TimedRank

RANK = 1


@cache
def simulated():
    """A job of two ranks that was measured on a machine, and what the simulation of it tells."""
    cluster = load_cluster("xeon_2_cores")
    calm = [
        kernels.model_copy(update={"work_spread": 0.0, "threads_spread": 0.0}) for kernels in cluster.node.cpu.kernels
    ]
    jobs = [job for job in HostRecord.read("xeon_2_cores").jobs if job.ranks == 2]
    job = next(job for job in jobs if job.trained[0].wall_s > 0.05)
    resolved = job.on(with_kernels(cluster, calm))
    return prepare(resolved, Silent()), predict_beside(resolved)


def measured():
    """What a rank would have recorded, were the simulation what really happens."""
    prepared, beside = simulated()
    (program,) = prepared.graph.programs
    groups, gemms = {}, []
    for task, work in enumerate(program.work):
        if isinstance(work, CollectiveCall) or class_of(work) is None:
            continue
        seconds = float(beside.beside_s[task, RANK])
        if isinstance(work, Gemm):
            gemms.append(seconds)
        else:
            group = group_of(program.names[task], program.sections[task], work)
            groups[group] = groups.get(group, 0.0) + seconds
    timed = TimedRank(np.array([sum(groups.values()) + sum(gemms)]), groups, np.array(gemms))
    cpu_s = float(beside.alone_s[:, RANK].sum())
    return prepared, timed, TrainedRank(cpu_s, 0.0, float(timed.steps_s[0]), {}, 0.0)


def told(beside):
    """Parts that come of it."""
    prepared, timed, trained = measured()
    return parts(prepared, timed, RANK, trained, {}, 0.0, beside)


def expected_s(part):
    """What the model says that the operators of a part take alone."""
    prepared, _ = simulated()
    duration_s = prepared.machine.compute.duration_s
    return sum(float(np.broadcast_to(duration_s(work), 2)[RANK]) for work in part.work)


def test_kernels_alone_come_back_from_an_iteration_full_of_collectives():
    _, beside = simulated()
    assert beside.beside_s[:, RANK].sum() > 1.02 * beside.alone_s[:, RANK].sum(), "something is beside them"
    found = told(beside)
    assert [part.seconds for part in found] == pytest.approx([expected_s(part) for part in found], rel=1e-6)


def test_where_the_step_takes_longer_than_usual_lookups_do_not():
    prepared, timed, trained = measured()
    slow = replace(trained, yardstick_s={"product": 1.1, "step": 1.1 * 1.5})
    then_s, (_, beside) = {"product": 1.0, "step": 1.0}, simulated()
    longer = parts(prepared, timed, RANK, slow, then_s, 0.0, beside)
    by = [part.seconds / other.seconds for part, other in zip(told(beside), longer, strict=True)]
    expected = [1.1 if part.name.endswith("_lookup") else 1.1 * 1.5**0.5 for part in longer]
    assert sorted(set(expected)) == pytest.approx([1.1, 1.1 * 1.5**0.5])
    assert by == pytest.approx(expected)


def test_else_lookups_beside_no_collective_would_bear_a_part_of_the_others():
    lookup = next(part for part in told(None) if any(isinstance(work, EmbeddingLookup) for work in part.work))
    assert lookup.seconds < 0.99 * expected_s(lookup)


def test_tasks_that_take_nothing_are_not_made_longer():
    beside = Beside(np.array([[0.0, 1.0], [0.0, 3.0]]), np.array([[0.0, 2.0], [0.0, 3.0]]))
    assert beside.longer([0, 1], 0) == 1.0
    assert beside.longer([0], 1) == 2.0
    assert beside.longer([0, 1], 1) == 5.0 / 4.0
    assert beside.longer([], 1) == 1.0
