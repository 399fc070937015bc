"""Fitting a fabric, and the suites that predict more ranks from few."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from dlrmsim.cli import main
from hardware_specs import load_cluster
from hardware_specs.catalogs import CATALOGS
from inputs.errors import InputError
from inputs.yaml_lines import load_yaml
from simulator.network.size_table import busbw_bytes_per_s
from traces.nccl_tests import read_timed_collectives
from validation.fits.fitting import fit_collectives
from validation.fits.parameters import FACTORS
from validation.fits.rules import holds
from validation.suites.collectives import MeasuredCollective, Predictor
from validation.suites.thinning import thinned

SUITES = Path(__file__).parents[2] / "validation" / "suites"
RULE = "nodes == 1 or ranks_per_node == 1"


def measured(op, nodes, per_node, size, seconds=1.0, source="lab"):
    return MeasuredCollective(op, nodes, per_node, float(size), seconds, source)


def grid():
    shapes = [(1, 2), (1, 8), (2, 1), (8, 1), (8, 8)]
    return [
        measured(op, *shape, 4.0**k)
        for op in ("all_reduce", "all_to_all", "all_gather") for shape in shapes for k in range(5, 16, 2)
    ]  # fmt: skip


def test_a_fit_finds_the_constants_that_made_the_times():
    """Times computed with the constants of a shipped fit and 30 us of launch are fitted from the library's own."""
    cluster = load_cluster("dgx_h100")
    seconds = Predictor(cluster).seconds(grid())
    rows = [measured(r.op, *r.shape, r.bytes, t + 30e-6) for r, t in zip(grid(), seconds, strict=True)]
    found = fit_collectives(cluster.model_copy(update={"fitted": None}), rows, "made up")
    for name in ("ring", "direct"):
        assert found.near_fraction[name].value == pytest.approx(cluster.fitted.near_fraction[name].value, rel=0.05)
        far = cluster.fitted.network_fraction[name].value
        assert found.network_fraction[name].value == pytest.approx(far, rel=0.02)
    assert found.launch_s["lab"].value == pytest.approx(30e-6, rel=0.2)
    predicted = Predictor(cluster.model_copy(update={"fitted": found}))
    unseen = [measured("all_reduce", 16, 8, 2.0**k) for k in (14, 20, 28)]
    assert predicted.seconds(unseen) == pytest.approx(Predictor(cluster).seconds(unseen), rel=0.1)


def test_a_fit_says_how_far_it_is():
    told = []

    class Shown:
        def stage(self, description, done=None, total=None):
            told.append(description)

    cluster = load_cluster("dgx_h100")
    fit_collectives(cluster, [measured("all_reduce", 1, 8, 2.0**30, 2.0**30 / 250e9)], "made up", Shown())
    assert told[0] == "fitting 1 rows, evaluation 1"
    assert told[-1] == f"fitting 1 rows, evaluation {len(told)}"
    assert len(told) > 10


def test_rows_that_say_nothing_of_a_factor_leave_it_at_one():
    """Large messages in one node: neither the hop between nodes nor the posts show."""
    cluster = load_cluster("dgx_h100")
    rows = [measured("all_reduce", 1, 8, 2.0**k, 2.0**k / 250e9) for k in range(28, 34)]
    found = fit_collectives(cluster, rows, "made up")
    assert found.network_hop_factor.value == pytest.approx(1.0, abs=1e-3)
    assert found.post_factor.value == pytest.approx(1.0, abs=1e-3)


def test_a_fit_of_a_cluster_with_parts_of_its_own_can_be_read_anywhere(tmp_path):
    """Its node lies beside it; the fitted spec lies elsewhere."""
    own, elsewhere = tmp_path / "own", tmp_path / "elsewhere"
    own.mkdir(), elsewhere.mkdir()
    node = load_cluster("dgx_h100").to_dict()["node"]
    (own / "box.yaml").write_text(yaml.safe_dump(node), encoding="utf-8")
    data = load_yaml(CATALOGS["cluster"].find("dgx_h100")).data | {"name": "mine", "node": "box.yaml"}
    (own / "mine.yaml").write_text(yaml.safe_dump(data), encoding="utf-8")
    out = elsewhere / "fitted.yaml"
    rows = tmp_path / "rows.csv"
    lines = (SUITES / "nccl_h100.csv").read_text(encoding="utf-8").splitlines()
    rows.write_text("\n".join([lines[0], *lines[1:20]]) + "\n", encoding="utf-8")
    cluster = str(own / "mine.yaml")
    assert main(["calibrate", "collectives", str(rows), "--cluster", cluster, "--out", str(out)]) == 0
    assert load_cluster(str(out)).node == load_cluster(cluster).node


def test_bus_bandwidth_is_that_of_nccl_tests():
    assert busbw_bytes_per_s("all_reduce", 8, 8e9, 1.0) == 14e9
    assert busbw_bytes_per_s("all_to_all", 8, 8e9, 1.0) == 7e9
    assert busbw_bytes_per_s("broadcast", 8, 8e9, 1.0) == 8e9


def test_thinning_keeps_the_size_nearest_each_power_of_two_and_its_median():
    dense = ((1000, 1.0), (1024, 2.0), (1024, 4.0), (1200, 7.0), (1500, 9.0))
    (kept,) = thinned(measured("all_reduce", 1, 8, size, t) for size, t in dense)
    assert (kept.bytes, kept.time_s) == (1024, 3.0)


def test_a_few_odd_sizes_are_all_kept():
    """DeepBench's 12.4, 16.8 and 26.2 MB: no power of two beside the second would speak for the others."""
    rows = [measured("all_reduce", 1, 8, size, 1.0) for size in (12390400, 16777216, 26214400, 67108864)]
    assert thinned(rows) == rows


def test_a_rule_may_have_several_comparisons():
    assert [holds(RULE, {"nodes": n, "ranks_per_node": r}) for n, r in ((1, 8), (4, 1), (4, 2))] == [True, True, False]


def test_a_rule_that_compares_a_number_with_a_word_is_told():
    with pytest.raises(InputError, match="nodes is a number; given 'nodes == two'; expected nodes == NUMBER"):
        holds("nodes == two", {"nodes": 2})


@pytest.mark.parametrize("suite", ["nccl_h100", "nccl_a100"])
def test_the_rows_that_are_predicted_were_not_fitted(suite):
    """Fitted are one node and one GPU per node; the others are there, and none of them is smaller."""
    rows = read_timed_collectives(SUITES / f"{suite}.csv")
    left = [r for r in rows if not holds(RULE, {"nodes": r.nodes, "ranks_per_node": r.ranks_per_node})]
    assert left
    assert min(r.nodes * r.ranks_per_node for r in left) > 2


def test_h100_nodes_are_predicted_from_one_gpu_each(capsys):
    """Target: a median error of 12 % from 1 MiB on. A100's two nodes miss it; their number is in the docs."""
    assert main(["validate", "nccl_h100", "nccl_a100", "v100_nccl", "--json"]) == 0
    h100, a100, v100 = json.loads(capsys.readouterr().out)["suites"]
    predicted = {g["sizes"]: g for g in h100["groups"] if g["role"] == "validation"}
    assert predicted["1 MiB and more"]["cases"] == 100
    sends = [case for case in h100["cases"] if case["inputs"]["op"] == "sendrecv"]
    assert len(sends) == 50
    worst = max(abs(case["error_pct"]) for case in sends)
    assert predicted["1 MiB and more"]["median_pct"] < 5
    assert h100["median_pct"] == predicted["1 MiB and more"]["median_pct"]
    docs = (SUITES.parents[1] / "docs" / "reference" / "validation.md").read_text(encoding="utf-8")
    on_mesh = {g["sizes"]: g["median_pct"] for g in v100["groups"] if g["role"] == "validation"}
    assert max(on_mesh.values()) < 5, "the all_to_all of a mesh follows from its links"
    assert f"within {worst:.1f} %" in docs, "sendrecv inside a node and between nodes"
    for suite in (h100, a100, v100):
        for group in suite["groups"]:
            assert f"{group['median_pct']:.1f} %" in docs


@pytest.mark.slow
def test_the_shipped_fit_reproduces(tmp_path, capsys):
    """The command in the docs gives the values in the spec, to the 1 % by which the optimiser may stop elsewhere."""
    out = tmp_path / "again.yaml"
    arguments = ["--cluster", "dgx_h100", "--rule", RULE, "--out", str(out)]
    assert main(["calibrate", "collectives", str(SUITES / "nccl_h100.csv"), *arguments]) == 0
    assert "median |error|" in capsys.readouterr().out
    again, shipped = load_cluster(out).fitted, load_cluster("dgx_h100").fitted
    for factor in FACTORS:
        assert getattr(again, factor).value == pytest.approx(getattr(shipped, factor).value, rel=0.02)
    for op, fraction in shipped.network_fraction.items():
        assert again.network_fraction[op].value == pytest.approx(fraction.value, rel=0.01)
    assert main(["validate", "nccl_h100", "--json"]) == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--cluster", "dgx_h10"], "did you mean 'dgx_h100'"),
        (["--cluster", "dgx_h100", "--rule", "nodes is 1"], "not a rule"),
        (["--cluster", "dgx_h100", "--rule", "nodes > 99"], "leaves no row"),
        (["--cluster", "dgx1_v100"], "wrong.csv"),
    ],
)
def test_wrong_input_gets_one_message_and_writes_nothing(tmp_path, capsys, arguments, message):
    log = tmp_path / "wrong.csv"
    text = "op,nodes,ranks_per_node,bytes,time_us\nall_reduce,1,8,1024,20\n"
    log.write_text(text if "dgx1_v100" not in arguments else text.replace("1024", "-1"))
    out = tmp_path / "fit.yaml"
    assert main(["calibrate", "collectives", str(log), *arguments, "--out", str(out)]) == 2
    assert message in capsys.readouterr().err
    assert not out.exists()
