"""The network page and the decisions say what the code does."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from benchmarks import choosers
from hardware_specs import load_cluster
from simulator.lowering import BOUND_CLASSES
from simulator.network import ALGORITHMS, CollectiveModel, Topology
from simulator.network.calibration import calibrate
from simulator.network.collectives import Call
from simulator.network.size_table import placed_group
from tests.network_machines import idle_call
from validation.suites.collective_cases import measured_points
from validation.suites.suite import load_suite

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "reference" / "network.md").read_text(encoding="utf-8")
RECORDS = "\n".join(path.read_text(encoding="utf-8") for path in sorted((DOCS / "decisions").glob("*.md")))
"""All decision records; which of them quotes a figure does not matter."""


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


def test_a_decision_quotes_the_fractions_of_zionex():
    """26 % and 73 % of a NIC, 36 % of what is usable."""
    text = RECORDS
    calibration = calibrate(load_cluster("zionex"))
    reached = {f.point.op: f.value for f in calibration.fractions if f.link == "nic"}
    for value in (reached["all_to_all"], reached["all_reduce"], reached["all_to_all"] / calibration.usable("nic")):
        assert f"{value:.0%}".replace("%", " %") in text


def test_the_hierarchy_gains_as_much_as_its_decision_quotes():
    """Nearly eight times as fast at 4,096 ranks and 1 KiB."""
    cluster = load_cluster("zionex")
    topology = Topology.build(cluster, 4096)
    seconds = []
    for algorithm in ("grouped", "hierarchical"):
        model = CollectiveModel.of(cluster, topology, {"all_to_all": algorithm})
        seconds.append(float(model.time(idle_call(model, "all_to_all", 1024.0)).seconds[0, 0]))
    assert round(seconds[0] / seconds[1]) == 8


def test_a_decision_quotes_the_errors_with_and_without_nvls_trees():
    """The five rows of 4 GPUs on each of 10 H100 nodes from 32 to 512 MiB."""
    text = RECORDS
    file, suite = load_suite("nccl_h100")
    rows = [r for r in measured_points(file, suite.collectives[0]) if r.op == "all_reduce" and r.shape == (10, 4)]
    cluster = load_cluster("dgx_h100")
    topology, block = placed_group(cluster, 40, 4)

    def errors(forced):
        model = CollectiveModel.of(cluster, topology, forced)
        launch_s = cluster.fitted.launch_s[rows[0].source].value
        times = [model.time(Call(row.op, block, np.full((1, 1), row.bytes))) for row in rows]
        return [100 * ((float(t.seconds.max()) + launch_s) / r.time_s - 1) for t, r in zip(times, rows, strict=True)]

    named, own = errors({"all_reduce": "nvls_tree"}), errors({})
    first = [f"{-error:.0f}" for error in named[:5]]
    assert f"{', '.join(first[:4])} and {first[4]} % faster" in text
    assert f"{own[0]:.0f} and {own[1]:.0f} %" in text
    assert max(map(abs, own[2:])) < 6


def test_a_decision_quotes_the_errors_of_both_choosers():
    """What ``python -m benchmarks choosers --refit`` prints, to a tenth of a per cent."""
    text = RECORDS
    found = {row.name: row.value for row in choosers.rows(refit=True)}
    words = {"valid": "predicted", "calib": "fitted", "from_1_MiB": "1 MiB and more", "below_1_MiB": "below 1 MiB"}
    lines = 0
    for name, value in found.items():
        if "_fastest_" in name:
            suite, group = name.split("_fastest_")
            role, size = group.split("_", 1)
            other = found[f"{suite}_nccl_tuner_{group}"]
            assert f"| `{suite}` | {words[role]}, {words[size]} | {value:.1f} % | {other:.1f} % |" in text
            lines += 1
    shown = re.findall(r"^\| `\w+` \| (?:predicted|fitted), .* % \|$", text, flags=re.MULTILINE)
    assert lines == len(shown)
