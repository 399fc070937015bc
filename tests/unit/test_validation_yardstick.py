"""How closely jobs go with the yardstick: planted powers are found again, in comparisons and in fits."""

import numpy as np
import pytest

from hardware_specs.cpu_kernels import CpuKernels, Followed
from simulator.compute import CpuModel
from tests.host_machines import costs, host, kernels
from validation.measured import Times
from validation.measured_prediction import as_then, slower_than_then
from validation.yardstick import FEWEST, followed_by, lookups_slowness, slowness


def jobs(power, count=40, noise=0.03):
    """How much slower the machine was by the yardstick in some jobs, and what these took over what was expected."""
    random = np.random.default_rng(3)
    slower = np.exp(random.normal(0.1, 0.15, count))
    return slower, 1.2 * slower**power * np.exp(random.normal(0.0, noise, count))


@pytest.mark.parametrize("power", [0.0, 0.3, 0.7, 1.0])
def test_the_power_with_which_jobs_go_is_found_again(power):
    slower, longer = jobs(power)
    assert followed_by(slower, longer, np.ones(40)) == pytest.approx(power, abs=0.06)


def test_jobs_that_count_for_more_tell_more():
    both = [np.concatenate(pair) for pair in zip(jobs(0.2), jobs(0.9), strict=True)]
    assert followed_by(*both, np.repeat([20.0, 1.0], 40)) == pytest.approx(0.2, abs=0.06)
    assert followed_by(*both, np.repeat([1.0, 20.0], 40)) == pytest.approx(0.9, abs=0.06)


def test_no_job_goes_with_it_by_more_than_it_says_nor_do_a_few_tell():
    slower, longer = jobs(1.6)
    assert followed_by(slower, longer, np.ones(40)) == 1.0
    few = FEWEST - 1
    assert followed_by(slower[:few], np.ones(few), np.ones(few)) == 1.0


def test_lookups_go_with_pieces_and_all_else_with_the_step_too():
    now_s, then_s = {"product": 4.0, "step": 1.0}, {"product": 1.0, "step": 1.0}
    assert slowness(now_s, then_s) == pytest.approx(2.0)
    assert slowness(now_s, then_s, Followed(work=0.5)) == pytest.approx(2.0**0.5)
    assert lookups_slowness(now_s, then_s, Followed(work=0.5)) == pytest.approx(4.0)
    assert lookups_slowness(now_s, then_s, Followed(lookups=0.25)) == pytest.approx(4.0**0.25)


def test_what_is_measured_is_divided_by_what_the_machine_follows():
    times = Times(3.0, {"gemm": 2.0, "embedding_forward": 1.0}, 3.0, {"all_reduce": 2.0}, [], {"product": 4.0})
    then = Times(1.0, {}, None, {}, [], {"product": 1.0}, followed=Followed(0.5, 0.0))
    assert slower_than_then(times, then) == pytest.approx((2.0, 1.0))
    told = as_then(times, then)
    assert dict(told.classes_s) == pytest.approx({"gemm": 1.0, "embedding_forward": 1.0})
    assert (told.iteration_s, told.thread_s, told.collectives_s["all_reduce"]) == pytest.approx((2.0, 2.0, 1.0))


def test_ranks_that_take_turns_follow_by_powers_of_their_own():
    told = {**kernels(gemm=costs(call=1e-3)), "followed": [0.9, 1.0], "shared_followed": [0.7, 0.6]}
    node = host(2, told).node
    assert CpuModel.of(node, 2).followed == (0.9, 1.0)
    assert CpuModel.of(node, 4).followed == (0.7, 0.6)
    assert CpuKernels.model_validate(kernels(gemm=costs(call=1e-3))).followed == (1.0, 1.0)
    with pytest.raises(ValueError, match="less than or equal to 1"):
        CpuKernels.model_validate({**told, "followed": [1.1, 1.0]})
