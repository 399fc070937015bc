"""The classes that bound an iteration."""

import pytest

from simulator.analysis import find_bound
from simulator.analysis.bound import JOINT_CLASSES, PART_OF, SINGLE_CLASSES
from simulator.lowering import BOUND_CLASSES, WHOLE_CLASSES

SAVED = 1 - 1 / 1.1
"""Part that 10 % of improvement saves of a class's time."""

WHOLE = {
    "NVLink": "communication",
    "NIC": "communication",
    "messages": "communication",
    "GEMM": "compute",
    "HBM": "compute",
}


def iteration_of(**seconds):
    """An iteration made of parts, each of which scales with one single class and with the whole that it belongs to."""
    parts = {name.replace("_", "/"): time for name, time in seconds.items()}

    def time_s(improve):
        return sum(t / (improve.get(name, 1.0) * improve.get(WHOLE.get(name, ""), 1.0)) for name, t in parts.items())

    return time_s


def test_time_spread_over_classes_beats_a_larger_single_class():
    """6.2 of 10 s are communication, in three classes of which none has more than HBM's 3 s."""
    bound = find_bound(iteration_of(NIC=2.5, NVLink=2.5, messages=1.2, HBM=3.0, GEMM=0.8), {"comm": 0.62})
    assert bound.winner is not None
    assert bound.winner.resource_class == "HBM"
    assert bound.bounding is not None
    assert bound.bounding.resource_class == "communication"
    assert bound.bounding.gain == pytest.approx(0.62 * SAVED)
    assert bound.finding == (
        "Communication bounds the iteration: it is 62 % of the critical path, and all collectives 10 % faster would "
        "save 5.6 %, spread over NVLink (2.3 %), NIC (2.3 %) and messages (1.1 %); next, compute, 3.5 %."
    )


def test_largest_gain_wins_and_gains_are_shares_of_the_iteration():
    """6 of 10 s are NIC's: 10 % faster NICs save 6 (1 - 1/1.1) s of 10 s, 5.45 %."""
    bound = find_bound(iteration_of(NIC=6.0, HBM=3.0, GEMM=1.0))
    assert bound.winner is not None
    assert bound.runner_up is not None
    assert (bound.winner.resource_class, bound.runner_up.resource_class) == ("NIC", "HBM")
    assert bound.winner.gain == pytest.approx(0.6 * SAVED)
    for gains in (bound.gains, bound.joint):
        assert [g.gain for g in gains] == sorted((g.gain for g in gains), reverse=True)
    assert "most of it by NIC (5.5 %)" in bound.finding


@pytest.mark.parametrize("name", JOINT_CLASSES)
def test_every_joint_class_can_win_and_reads_as_a_sentence(name):
    """Where only one of its parts takes time; computation that is all HBM is memory."""
    improved = set(JOINT_CLASSES[name].improved)
    bound = find_bound(lambda improve: 1.0 / 1.1 if improved == set(improve) else 1.0)
    assert bound.bounding is not None
    assert bound.bounding.resource_class == name
    assert bound.finding.startswith(JOINT_CLASSES[name].subject)
    assert bound.finding.endswith("no other class would save anything.")


def test_a_part_is_named_where_it_saves_what_the_whole_saves_and_no_other_class_saves_more():
    """Of 10 s HBM has 5.0: with 0.4 s of GEMMs memory is named, with 2 s the kernels, of which it is a part."""
    memory = find_bound(iteration_of(HBM=5.0, GEMM=0.4, NIC=4.6)).bounding
    kernels = find_bound(iteration_of(HBM=5.0, GEMM=2.0, NIC=3.0))
    beaten = find_bound(iteration_of(HBM=4.7, GEMM=0.5, NIC=4.8)).bounding
    assert memory is not None
    assert memory.resource_class == "memory"
    assert kernels.bounding is not None
    assert kernels.bounding.resource_class == "compute"
    assert kernels.next_bounding is not None
    assert kernels.next_bounding.resource_class == "communication"
    assert beaten is not None
    assert beaten.resource_class == "compute", "4.7 s of HBM are less than 4.8 s of communication"


def test_classes_are_those_lowering_can_improve():
    assert tuple(SINGLE_CLASSES) == BOUND_CLASSES
    known = {*BOUND_CLASSES, *WHOLE_CLASSES}
    assert all({*joint.improved, *joint.members} <= known for joint in JOINT_CLASSES.values())
    assert {*PART_OF, *PART_OF.values()} <= set(JOINT_CLASSES)


def test_an_iteration_of_latencies_has_no_winner():
    bound = find_bound(lambda improve: 1.0)
    assert (bound.winner, bound.runner_up, bound.bounding, bound.next_bounding, bound.spread) == (None,) * 4 + ((),)
    assert bound.finding.startswith("Nothing bounds the iteration")


def test_a_class_that_makes_it_slower_stands_last():
    bound = find_bound(lambda improve: 1.02 if "host" in improve else 1.0 / improve.get("HBM", 1.0))
    assert bound.gains[-1].resource_class == bound.joint[-1].resource_class == "host"
    assert bound.gains[-1].gain == pytest.approx(-0.02)


def test_every_class_is_run_once():
    asked = []
    find_bound(lambda improve: asked.append(dict(improve)) or 1.0)
    assert asked[0] == {}
    assert len(asked) == len({tuple(improve) for improve in asked}) == 1 + len(SINGLE_CLASSES) + 3
    assert {"HBM": 1.1, "PCIe/DDR": 1.1, "SSD": 1.1} in asked


def test_cpus_launch_no_kernels():
    """The subject of the host's class names launches where ranks are GPUs only."""
    of_host = [find_bound(iteration_of(host=5.0, HBM=1.0), on_cpus=on_cpus).finding for on_cpus in (False, True)]
    assert ["launches kernels" in finding for finding in of_host] == [True, False]
    assert of_host[1].startswith("The framework's work between kernels bounds the iteration")
