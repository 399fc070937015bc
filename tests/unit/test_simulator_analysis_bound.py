"""The resource class that bounds an iteration."""

import pytest

from simulator.analysis import find_bound
from simulator.analysis.bound import IN_WORDS
from simulator.lowering import BOUND_CLASSES


def iteration_of(**seconds):
    """An iteration made of parts that each scale with one class."""
    parts = {name.replace("_", "/"): time for name, time in seconds.items()}
    return lambda improve: sum(time / improve.get(name, 1.0) for name, time in parts.items())


def test_largest_gain_wins_and_gains_are_shares_of_the_iteration():
    """6 of 10 s are NIC's: 10 % faster NICs save 6 (1 - 1/1.1) s of 10 s, 5.45 %."""
    bound = find_bound(iteration_of(NIC=6.0, HBM=3.0, GEMM=1.0))
    assert bound.winner is not None
    assert bound.runner_up is not None
    assert (bound.winner.resource_class, bound.runner_up.resource_class) == ("NIC", "HBM")
    assert bound.winner.gain == pytest.approx(0.6 * (1 - 1 / 1.1))
    assert [g.gain for g in bound.gains] == sorted((g.gain for g in bound.gains), reverse=True)
    assert bound.finding == (
        "The network cards (NIC) bound the iteration: with NICs 10 % faster it would take 5.5 % less time; "
        "the next class, HBM, would save 2.7 %."
    )


@pytest.mark.parametrize("name", IN_WORDS)
def test_every_class_can_win_and_reads_as_a_sentence(name):
    bound = find_bound(lambda improve: 1.0 / improve.get(name, 1.0))
    assert bound.winner is not None
    assert bound.winner.resource_class == name
    assert bound.finding.startswith(IN_WORDS[name][0])
    assert bound.finding.endswith("no other class would gain anything.")


def test_classes_are_those_lowering_can_improve():
    assert tuple(IN_WORDS) == BOUND_CLASSES


def test_an_iteration_of_latencies_has_no_winner():
    bound = find_bound(lambda improve: 1.0)
    assert bound.winner is None
    assert bound.runner_up is None
    assert "No single resource class" in bound.finding


def test_a_class_that_makes_it_slower_stands_last():
    bound = find_bound(lambda improve: 1.02 if "host" in improve else 1.0 / improve.get("HBM", 1.0))
    assert bound.gains[-1].resource_class == "host"
    assert bound.gains[-1].gain == pytest.approx(-0.02)


def test_only_the_given_classes_are_run():
    asked = []
    find_bound(lambda improve: asked.append(dict(improve)) or 1.0, ["HBM", "NIC"])
    assert asked == [{}, {"HBM": 1.1}, {"NIC": 1.1}]


@pytest.mark.parametrize("classes", [[], ["HBM", "DRAM"]])
def test_unknown_or_no_classes_are_refused(classes):
    with pytest.raises(ValueError, match="expected some of"):
        find_bound(lambda improve: 1.0, classes)
