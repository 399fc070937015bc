"""What `calibrate collectives` says of its fit: nothing that cannot be right is written in silence."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import yaml

import dlrmsim
from hardware_specs import load_cluster
from inputs.errors import InputError
from validation.suites.collectives import MeasuredCollective, Predictor

SIZES = [2.0**k for k in range(14, 31, 2)]
HEADER = "source,op,nodes,ranks_per_node,bytes,time_us"


def made(shapes, factor=1.0, source="lab", ops=("all_reduce",), add_s=0.0):
    """Rows as DGX H100 would take them, times ``factor``."""
    rows = [MeasuredCollective(op, *shape, size, 1.0, source) for op in ops for shape in shapes for size in SIZES]
    seconds = Predictor(load_cluster("dgx_h100")).seconds(rows) * factor + add_s
    return [replace(row, time_s=float(time_s)) for row, time_s in zip(rows, seconds, strict=True)]


def calibrated(tmp_path, rows, cluster="dgx_h100", rule=None):
    table = tmp_path / "rows.csv"
    lines = [f"{r.source},{r.op},{r.nodes},{r.ranks_per_node},{r.bytes:.0f},{r.time_s * 1e6!r}" for r in rows]
    table.write_text("\n".join([HEADER, *lines]) + "\n", encoding="utf-8")
    return dlrmsim.calibrate_collectives([table], cluster=cluster, rule=rule, out=tmp_path / "fit.yaml")


def test_messages_faster_than_the_links_are_refused(tmp_path):
    """Twice as fast as NICs of 400 Gb/s allow: no share above 1 is written."""
    with pytest.raises(InputError, match="messages between nodes were faster than the links of dgx_h100"):
        calibrated(tmp_path, made([(4, 1), (8, 1)], factor=0.5, ops=("all_gather",)))
    assert not (tmp_path / "fit.yaml").exists()


def test_half_of_a_port_is_remarked_on(tmp_path):
    found = calibrated(tmp_path, made([(4, 1), (8, 1)], factor=3.0, ops=("all_gather",)))
    assert any("ring between nodes reaches" in remark and "GPUDirect" in remark for remark in found.remarks)


def test_errors_are_those_of_a_job(tmp_path):
    """150 us of launch are on every row; of large ones, what is left is predicted within a few per cent."""
    found = calibrated(tmp_path, made([(1, 4), (1, 8)], add_s=150e-6))
    assert found.fitted.launch_s["lab"].value == pytest.approx(150e-6, rel=0.2)
    assert {g.sizes: g.median_pct for g in found.groups}["1 MiB and more"] < 10


def test_no_launch_is_longer_than_a_few_hundred_microseconds(tmp_path):
    """30 ms on a message are no launch (nccl#527 came out so)."""
    rows = [replace(row, time_s=row.time_s + 0.03) for row in made([(2, 8)]) if row.bytes >= 2**30]
    assert calibrated(tmp_path, rows).fitted.launch_s["lab"].value <= 200e-6


def test_a_log_that_the_fit_does_not_describe_is_named(tmp_path):
    odd = made([(1, 8)], factor=4.0, source="odd", ops=("all_gather",))
    found = calibrated(tmp_path, [*made([(1, 2), (1, 4), (1, 8)], ops=("all_gather", "reduce_scatter")), *odd])
    assert [remark for remark in found.remarks if remark.startswith("odd is off by a median of")]


def test_sizes_that_are_left_out_are_named(tmp_path):
    rows = made([(1, 8)])
    dense = [replace(rows[0], bytes=float(size)) for size in np.linspace(2**14, 2**20, 60)]
    found = calibrated(tmp_path, [*rows, *dense])
    assert any("lab all_reduce" in remark and "left out" in remark for remark in found.remarks)


def test_points_inside_a_node_stay_where_only_nodes_were_timed(tmp_path):
    """Polaris fitted on several nodes keeps the share of its NVLinks."""
    calibrated(tmp_path, made([(4, 1), (8, 1)], ops=("all_gather",)))
    written = yaml.safe_load((tmp_path / "fit.yaml").read_text(encoding="utf-8"))
    assert {point["op"] for point in written["calibration"]} == {
        "all_reduce",
        "all_to_all",
        "all_gather",
        "reduce_scatter",
    }
    assert all(point["ranks"] <= point["ranks_per_node"] for point in written["calibration"])
    cluster = load_cluster(tmp_path / "fit.yaml")
    assert not cluster.fitted.near_fraction
    one = [MeasuredCollective("all_gather", 1, 8, 2.0**34, 1.0)]
    assert Predictor(cluster).seconds(one) == pytest.approx(2**34 / 413.71e9, rel=0.05)


def test_the_largest_world_is_predicted_by_the_others(tmp_path):
    found = calibrated(tmp_path, made([(2, 1), (4, 1), (8, 1)], ops=("all_gather",)))
    assert (found.unseen.nodes, found.unseen.ranks_per_node) == (8, 1)
    assert all(group.median_pct < 5 for group in found.unseen.groups)
    assert calibrated(tmp_path, made([(8, 1)], ops=("all_gather",))).unseen is None


def test_protocols_are_found_by_the_error(tmp_path):
    """Times of a network with the Simple protocol alone."""
    rule = {"value": ["simple"], "source": "made up for a test", "grade": "assumed"}
    cluster = load_cluster("dgx_h100")
    data = cluster.to_dict()
    data["fabric"] |= {"protocols": rule}
    simple = type(cluster).model_validate(data)
    rows = [MeasuredCollective("all_gather", m, 8, s, 1.0, "lab") for m in (2, 4, 8) for s in SIZES]
    rows = [replace(r, time_s=float(t)) for r, t in zip(rows, Predictor(simple).seconds(rows), strict=True)]
    found = calibrated(tmp_path, rows)
    assert found.protocols.endswith("rings simple")
    assert load_cluster(tmp_path / "fit.yaml").fabric.ring_protocols.value == ("simple",)
