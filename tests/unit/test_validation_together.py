"""Lookups of ranks at the same time: closed forms, the engine, and the fit."""

import numpy as np
import pytest

from hardware_specs.cpu_kernels import CpuKernels
from simulator.compute import CpuModel
from simulator.engine import RunOptions, run
from simulator.engine.oracle import run_oracle
from simulator.lowering import build_machine, lower
from simulator.operators import EmbeddingLookup, Gemm
from simulator.program import ProgramBuilder, TaskGraph
from tests.host_machines import costs, host, kernels
from validation.in_kernels import in_kernels_s
from validation.together import LookedUp, Together, fit_together, lookups_beside, near_and_far_s
from validation.yardstick import usual_of_all

COSTS = kernels(lookup=costs(lookup=1e-3))
NEAR_S, FAR_S = 400e-9, 800e-9


def with_together(together, passing_s=None):
    usual = {} if passing_s is None else {"passing": f"{passing_s!r} s"}
    states = [f"{NEAR_S!r} s", f"{FAR_S!r} s"]
    return {**COSTS, "lookups_together": together, "passing_s": states, "yardstick_s": usual}


@pytest.mark.parametrize(
    ("passing_s", "expected"), [(None, 1.4), (400e-9, 1.4), (300e-9, 1.4), (600e-9, 1.2), (800e-9, 1.0), (2e-6, 1.0)]
)
def test_lookups_share_what_a_near_cache_delivers(passing_s, expected):
    of = CpuKernels.model_validate(with_together(1.4))
    assert of.together(passing_s) == pytest.approx(expected)
    assert Together(0.5, of).slower({} if passing_s is None else {"passing": passing_s}) == pytest.approx(
        1.0 + (expected - 1.0) / 2
    )
    assert CpuKernels.model_validate(with_together(1.4, passing_s)).together() == pytest.approx(expected), "as usual"


def test_what_is_near_is_told_first():
    with pytest.raises(ValueError, match="not nearer"):
        CpuKernels.model_validate({**COSTS, "passing_s": ["2 us", "1 us"]})


def ran(measured, lookups=(1000.0, 500.0)):
    """Two ranks on a core each that look up at once: program, model of their kernels, starts and ends."""
    builder = ProgramBuilder("all", np.arange(2), ["host"])
    builder.task("lookup", "host", EmbeddingLookup(np.array(lookups), 0.0, 0.0, 0.0, 1.0))
    builder.task("after", "host", Gemm(1, 16, 1, "fp32", count=1))
    program, machine = builder.build(), build_machine(host(2, measured), 2, launch_s=0.0)
    lowered = lower(TaskGraph((program,), {}), machine).program
    result = run(lowered, RunOptions(max_iterations=1))
    oracle = run_oracle(lowered, RunOptions(max_iterations=1))
    assert result.iteration_end_ps.tolist() == pytest.approx(oracle.iteration_end_ps.tolist(), rel=1e-9)
    (record,) = result.records
    return program, machine.compute, record.groups[0].start_ps, record.groups[0].end_ps


@pytest.mark.parametrize(("passing_s", "expected"), [(None, [1.2, 0.7]), (600e-9, [1.1, 0.6]), (900e-9, [1.0, 0.5])])
def test_lookups_are_longer_while_those_of_the_other_rank_are_under_way(passing_s, expected):
    """Each does half a second's work beside the other's; the longer one goes on alone."""
    program, compute, start_ps, end_ps = ran(with_together(1.4, passing_s))
    assert end_ps[0].tolist() == pytest.approx([seconds * 1e12 for seconds in expected])
    longer_s, beside_s = lookups_beside(program, compute, start_ps, end_ps)
    assert longer_s[0].tolist() == pytest.approx([expected[1] - 0.5] * 2)
    assert beside_s[0].tolist() == pytest.approx([0.5, 0.5])
    assert not longer_s[1].any()
    told = in_kernels_s(program, compute, start_ps, end_ps, {})
    assert told[0].tolist() == pytest.approx(expected), "so it is told"


def test_ranks_that_take_turns_and_lone_ones_share_nothing():
    machine = host(2, with_together(1.4), kernels(threads=2, lookup=costs(lookup=1e-3)))
    assert [CpuModel.of(machine.node, ranks).lookup_share for ranks in (1, 2, 4)] == [0.0, 0.7, 0.0]


def test_near_and_far_are_two_groups_or_one():
    near_s, far_s = near_and_far_s([400e-9, 420e-9, 440e-9] * 4 + [780e-9, 800e-9, 800e-9, 820e-9])
    assert (near_s, far_s) == pytest.approx((420e-9, 800e-9))
    assert near_and_far_s([400e-9, 420e-9, 440e-9] * 4) is None
    assert near_and_far_s([400e-9, 800e-9]) is None, "too few"
    assert near_and_far_s([*[400e-9, 420e-9, 440e-9] * 4, 800e-9]) is None, "one that was held up"


def test_what_caches_deliver_is_found_again():
    """Jobs of every state and share, 5 % off at random; lookups take 1.3 times as long throughout besides."""
    of, random = CpuKernels.model_validate(with_together(1.36)), np.random.default_rng(3)
    jobs = []
    for _ in range(60):
        share, passing_s = random.uniform(0.0, 1.0), float(random.choice([NEAR_S, FAR_S]))
        longer = 1.3 * Together(share, of).slower({"passing": passing_s}) * random.lognormal(0.0, 0.05)
        jobs.append(LookedUp(longer, share, passing_s, random.uniform(0.05, 0.5)))
    assert fit_together(jobs, of) == pytest.approx(1.36, abs=0.06)
    assert fit_together(jobs[:5], of) == 1.0, "too few"


def test_a_rank_without_a_partner_leaves_the_piece_to_others():
    told = usual_of_all([{"copy": 1.0, "passing": 3.0}, {"copy": 2.0, "passing": 5.0}, {"copy": 6.0}])
    assert told == {"copy": 3.0, "passing": 4.0}
    assert usual_of_all([{"copy": 1.0}, {"copy": 2.0}, {"copy": 6.0}], np.median) == {"copy": 2.0}
