"""``dlrmsim collective``: nccl-tests' table, JSON and page."""

from __future__ import annotations

import json

import numpy as np
import pytest

from dlrmsim.cli import main
from hardware_specs import load_cluster
from simulator.network import CollectiveModel, Topology
from tests.network_machines import idle_call


def run(*arguments: str) -> int:
    return main(["collective", *arguments])


def test_the_table_has_nccl_tests_columns_and_the_models_times(capsys):
    assert run("zionex", "--op", "all_reduce", "--ranks", "128", "--bytes", "1MiB..4MiB") == 0
    lines = capsys.readouterr().out.splitlines()
    rows = [line.split() for line in lines if not line.startswith("#")]
    assert [int(row[0]) for row in rows] == [2**20, 2**21, 2**22]
    assert [int(row[1]) for row in rows] == [2**18, 2**19, 2**20]
    assert {tuple(row[2:5]) for row in rows} == {("float", "sum", "-1")}
    cluster = load_cluster("zionex")
    model = CollectiveModel.of(cluster, Topology.build(cluster, 128))
    for row in rows:
        seconds = float(model.time(idle_call(model, "all_reduce", float(row[0]))).seconds.max())
        assert float(row[5]) == pytest.approx(seconds * 1e6, abs=0.01)
        assert float(row[6]) == pytest.approx(float(row[0]) / seconds / 1e9, abs=0.01)
        assert float(row[7]) == pytest.approx(float(row[6]) * 2 * 127 / 128, abs=0.02)
    assert lines[-1].startswith("# Avg bus bandwidth")


def test_json_has_the_keys_of_nccl_tests(capsys):
    assert run("dgx_h100", "--op", "all_to_all", "--ranks", "16", "--bytes", "1KiB,1GiB", "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert found["config"] == {
        "cluster": "dgx_h100",
        "op": "all_to_all",
        "ranks": 16,
        "nodes": 2,
        "ranks_per_node": 8,
        "placement": "block",
        "seed": 0,
        "algorithm": None,
    }
    assert [row["size"] for row in found["results"]] == [2**10, 2**30]
    for row in found["results"]:
        assert {"count", "type", "redop", "root", "out_of_place", "in_place", "algorithm", "protocol"} <= set(row)
        place = row["out_of_place"]
        assert place["alg_bw"] == pytest.approx(row["size"] / place["time"] / 1e3)
        assert place["bus_bw"] == pytest.approx(place["alg_bw"] * 15 / 16)
    mean = np.mean([row["out_of_place"]["bus_bw"] for row in found["results"]])
    assert found["average_bus_bandwidth"] == pytest.approx(mean)


def test_several_numbers_of_ranks_are_several_runs(capsys):
    assert run("dgx_h100", "--op", "all_reduce", "--ranks", "8,16", "--bytes", "1MiB", "--json") == 0
    runs = json.loads(capsys.readouterr().out)["runs"]
    assert [(r["config"]["ranks"], r["config"]["nodes"]) for r in runs] == [(8, 1), (16, 2)]


def test_a_number_given_twice_counts_once(capsys):
    assert run("dgx_h100", "--op", "all_reduce", "--ranks", "8,8", "--bytes", "1MiB,1024KiB", "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert [row["size"] for row in found["results"]] == [2**20]


def test_warnings_follow_the_table_each_once(capsys):
    """Both groups are larger than the cluster ever was, at both sizes; each number of nodes is one warning."""
    assert run("zionex", "--op", "all_reduce", "--ranks", "256,512", "--bytes", "1MiB,1GiB") == 0
    lines = capsys.readouterr().out.splitlines()
    notes = lines[1 + max(i for i, line in enumerate(lines) if line.startswith("# Avg bus bandwidth")) :]
    assert len(notes) == len(set(notes))
    assert sum("zionex has at most 16" in note for note in notes) == 2


def test_a_forced_algorithm_that_cannot_run_is_warned_about(capsys):
    """Halving and doubling needs a power of two of members: 16 have it, 12 do not."""
    arguments = ("dgx_h100", "--op", "all_gather", "--ranks", "16,12", "--bytes", "1MiB", "--json")
    assert run(*arguments, "--algorithm", "halving_doubling") == 0
    can, cannot = json.loads(capsys.readouterr().out)["runs"]
    assert can["results"][0]["algorithm"] == "halving_doubling"
    assert not any("does not apply" in note for note in can["warnings"])
    assert cannot["results"][0]["algorithm"] != "halving_doubling"
    assert any("all_gather/halving_doubling does not apply to 12 ranks" in note for note in cannot["warnings"])


def test_fewer_gpus_per_node_take_more_nodes(capsys):
    arguments = ("dgx_h100", "--op", "all_gather", "--ranks", "16", "--bytes", "1GiB", "--json")
    times = {}
    for per_node in ("8", "2"):
        assert run(*arguments, "--ranks-per-node", per_node) == 0
        found = json.loads(capsys.readouterr().out)
        assert found["config"]["nodes"] == 16 // int(per_node)
        times[per_node] = found["results"][0]["out_of_place"]["time"]
    assert times["2"] > 3 * times["8"], "two NICs of a node carry what eight did"


def test_ranks_that_share_no_node_pay_more_on_an_oversubscribed_fabric(capsys):
    """Dealt to the nodes in turn, rings inside nodes become rings over the network."""
    arguments = ("dgx_h100", "--op", "all_to_all", "--ranks", "16", "--bytes", "64MiB", "--json")
    times = []
    for placement in ("block", "round_robin", "random"):
        assert run(*arguments, "--placement", placement) == 0
        times.append(json.loads(capsys.readouterr().out)["results"][0]["out_of_place"]["time"])
    assert times[0] == pytest.approx(times[1]), "all_to_all over whole nodes does not care for the order"


def test_16384_ranks_below_a_tapered_spine(capsys):
    """2:1: almost all of an all_to_all crosses the spine, so large messages take twice as long as the NICs need."""
    assert run("fat_tree_16k", "--op", "all_to_all", "--ranks", "16384", "--bytes", "1GiB..64GiB", "--json") == 0
    last = json.loads(capsys.readouterr().out)["results"][-1]
    assert last["limit"] == "spine"
    fraction = load_cluster("fat_tree_16k").fitted.network_fraction["direct"].value
    nic_s = 2**36 / (50e9 * fraction)
    assert last["out_of_place"]["time"] * 1e-6 > 1.9 * nic_s


def test_the_page_is_written_whole_with_the_measured_points(tmp_path, capsys):
    page = tmp_path / "busbw.html"
    arguments = ("--op", "all_gather", "--ranks", "40", "--ranks-per-node", "4", "--bytes", "32MiB..16GiB")
    assert run("dgx_h100", *arguments, "--plot", str(page)) == 0
    text = page.read_text(encoding="utf-8")
    assert "xxrjun/nccl-tests-cluster" in text
    assert "cdn" not in text.split("<script>")[0]
    assert [path.name for path in tmp_path.iterdir()] == ["busbw.html"]


def test_what_was_measured_otherwise_is_not_shown(tmp_path):
    """The circles are of the library's own choice on whole nodes: with a forced algorithm they are left out."""
    page = tmp_path / "forced.html"
    arguments = ("--op", "all_reduce", "--ranks", "8", "--bytes", "1MiB..4MiB", "--algorithm", "ring")
    assert run("dgx_h100", *arguments, "--plot", str(page)) == 0
    assert "aiconfigurator" not in page.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["zionx", "--op", "all_reduce", "--ranks", "8"], "did you mean 'zionex'"),
        (["zionex", "--op", "alltoall", "--ranks", "8"], "did you mean 'all_to_all'"),
        (["zionex", "--op", "all_reduce", "--ranks", "0"], "--ranks: impossible value; given 0"),
        (["zionex", "--op", "all_reduce", "--ranks", "many"], "not a number of ranks"),
        (["zionex", "--op", "all_reduce", "--ranks", "2000000"], "1 to 1,048,576"),
        (["zionex", "--op", "all_reduce", "--ranks", "8", "--ranks-per-node", "9"], "has 8 GPUs"),
        (["zionex", "--op", "all_reduce", "--ranks", "8", "--bytes", "0"], "--bytes: impossible value"),
        (["zionex", "--op", "all_reduce", "--ranks", "8", "--bytes", "-1KiB"], "--bytes:"),
        (["zionex", "--op", "all_reduce", "--ranks", "8", "--bytes", "1GiB..1KiB"], "the range is empty"),
        (["zionex", "--op", "all_reduce", "--ranks", "1_6"], "not a number of ranks"),
        (["zionex", "--op", "all_reduce", "--ranks", "8,,16"], "not a number of ranks"),
        (["zionex", "--op", "all_reduce", "--ranks", "9" * 5000], "not a number of ranks"),
        (["zionex", "--op", "all_reduce", "--ranks", "8", "--bytes", "1.5B"], "whole bytes"),
        (["zionex", "--op", "all_reduce", "--ranks", "8", "--bytes", "1e300"], "1 B to 1 PiB"),
        (["zionex", "--op", "all_reduce", "--ranks", "8", "--bytes", "lots"], "--bytes: not a quantity"),
        (["zionex", "--op", "all_reduce", "--ranks", "8", "--algorithm", "rings"], "--algorithm: no such all_reduce"),
        (["zionex", "--op", "all_reduce", "--ranks", "8", "--algorithm", "rings"], "did you mean 'ring'"),
    ],
)
def test_wrong_input_gets_one_message(tmp_path, capsys, arguments, message):
    assert run(*arguments, "--plot", str(tmp_path / "page.html")) == 2
    said = capsys.readouterr().err
    assert message in said
    assert said.count("\n") == 1
    assert list(tmp_path.iterdir()) == []
