"""The network page and the decisions say what the code does."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from hardware_specs import load_cluster
from simulator.lowering import BOUND_CLASSES
from simulator.network import ALGORITHMS, CollectiveModel, Topology, idle_call
from simulator.network.calibration import calibrate

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "reference" / "network.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", sorted({name.split("/")[1] for name in ALGORITHMS.names()}))
def test_every_algorithm_is_in_the_table(name):
    assert re.search(rf"^\| {name}\b", PAGE, flags=re.MULTILINE), name


@pytest.mark.parametrize("name", BOUND_CLASSES)
def test_every_bound_class_is_explained(name):
    assert name in PAGE.split("## Improving a class")[1].split("## ")[0]


def test_files_the_page_names_exist():
    root = DOCS.parent
    for path in re.findall(r"`((?:docs|tests|simulator)/[^`]+)`", PAGE):
        assert (root / path).exists(), path


def test_decision_020_quotes_the_fractions_of_zionex():
    """26 % and 73 % of a NIC, 36 % of what is usable."""
    text = (DOCS / "decisions" / "020-caps-and-usable-capacity.md").read_text(encoding="utf-8")
    calibration = calibrate(load_cluster("zionex"))
    reached = {f.point.op: f.value for f in calibration.fractions if f.link == "nic"}
    for value in (reached["all_to_all"], reached["all_reduce"], reached["all_to_all"] / calibration.usable("nic")):
        assert f"{value:.0%}".replace("%", " %") in text


def test_decision_021_quotes_the_gain_of_the_hierarchy():
    """Nearly eight times as fast at 4,096 ranks and 1 KiB."""
    cluster = load_cluster("zionex")
    topology = Topology.build(cluster, 4096)
    seconds = []
    for algorithm in ("grouped", "hierarchical"):
        model = CollectiveModel.of(cluster, topology, {"all_to_all": algorithm})
        seconds.append(float(model.time(idle_call(model, "all_to_all", 1024.0)).seconds[0, 0]))
    assert round(seconds[0] / seconds[1]) == 8
