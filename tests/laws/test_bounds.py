"""The bound of every shipped scenario agrees with its critical path, and its advice with a run that follows it."""

from __future__ import annotations

import pytest

from scenarios.library import CATALOG
from scenarios.progress import Silent
from scenarios.resolve import asked_again, load_scenario
from scenarios.runner import simulate
from simulator.analysis.bound import IMPROVEMENT, JOINT_CLASSES, PART_OF
from tests.law_runs import iteration_s

SETTLED = 2e-3
"""Two runs are settled to 0.1 % each."""

WINDOW = 0.01
"""A window of one iteration may cut the chain that repeats elsewhere than where the chain begins."""

TIES = {"mlperf_dlrm_v1_v100": {"host", "compute"}}
"""Scenarios in which two classes are critical by turns and save as much to within a window."""

MOST = 1 - 1 / IMPROVEMENT
"""Gain where all of an iteration is one class."""


@pytest.fixture(scope="module", params=CATALOG.names())
def shipped(request):
    return simulate(load_scenario(request.param), Silent(), levers=True)


def cycle(shipped):
    """Part of the iteration that a cycle of a coordinator is: what is ready earlier waits for the next look at it."""
    cycles_s = [coordinator.cycle_s for coordinator in shipped.graph.coordinators.values()]
    return max(cycles_s, default=0.0) / shipped.analysis.iteration.seconds


def test_a_class_saves_at_most_its_share_of_the_critical_path(shipped):
    """The path of the run is still a path of the re-run, and only the part that is of the class got shorter."""
    gains = {gain.resource_class: gain.gain for gain in shipped.bound.joint}
    for name, share in shipped.bound.path_shares.items():
        assert gains[name] <= share * MOST + WINDOW + cycle(shipped), name


def test_the_class_with_over_half_of_the_critical_path_is_named(shipped):
    """Or a part of it."""
    shares, bounding = shipped.bound.path_shares, shipped.bound.bounding
    largest = max(shares, key=lambda name: shares[name])
    if shares[largest] > 0.5:
        assert bounding is not None
        named = (bounding.resource_class, PART_OF.get(bounding.resource_class))
        if (tie := TIES.get(shipped.resolved.name)) is None:
            assert largest in named
        else:
            gains = {gain.resource_class: gain.gain for gain in shipped.bound.joint}
            assert {largest, named[0]} == tie
            assert abs(bounding.gain - gains[largest]) <= WINDOW


def test_a_joint_class_saves_as_much_as_the_largest_of_its_members(shipped):
    """PCIe and DDR belong to two; links between sites are there where there are sites."""
    slack = SETTLED + cycle(shipped)
    single = {gain.resource_class: gain.gain for gain in shipped.bound.gains}
    for gain in shipped.bound.joint:
        members = set(JOINT_CLASSES[gain.resource_class].members) & single.keys() - {"PCIe/DDR"}
        assert gain.gain >= max([single[name] for name in members], default=-1.0) - slack, gain.resource_class


def test_the_spread_adds_up_to_the_class(shipped):
    """Members saved one at a time add up to about the class as a whole, kernels' starts and waits left out."""
    bounding = shipped.bound.bounding
    if bounding is not None and shipped.bound.spread:
        assert sum(gain.gain for gain in shipped.bound.spread) == pytest.approx(bounding.gain, rel=0.25, abs=SETTLED)


def test_the_advised_settings_save_what_is_said(shipped):
    for kind in ("free", "numerics"):
        best = shipped.levers.best(kind)
        if best is not None:
            again = load_scenario(shipped.resolved.name, [best.setting])
            samples = again.global_batch_size / shipped.resolved.global_batch_size
            saved = 1 - iteration_s(again) / samples / shipped.analysis.iteration.seconds
            assert saved == pytest.approx(best.gain, abs=SETTLED)
            assert f"--set {best.setting}" in shipped.levers.advice


def test_what_is_tried_is_not_what_the_job_has(shipped):
    """The hash of every tried scenario is another one."""
    for lever in shipped.levers.tried:
        assert asked_again(shipped.resolved, [lever.setting]).hash != shipped.resolved.hash, lever.setting
