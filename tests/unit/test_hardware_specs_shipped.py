"""Each shipped number has unit, source and grade, and agrees with what is published about the whole machine."""

import re

import pytest
import yaml

from hardware_specs import CATALOGS, load_cluster, load_gpu
from inputs.errors import InputError
from inputs.yaml_lines import load_yaml
from tests.network_machines import sourced

FILES = [(kind, name) for kind, catalog in CATALOGS.items() for name in catalog.names()]
CLUSTERS = CATALOGS["cluster"].names()
TREE = {
    "switches": sourced(4),
    "uplink_bytes_per_s": sourced("16 GB/s"),
    "socket_link_bytes_per_s": sourced("20 GB/s"),
    "nics_at": "root",
}
NONE = sourced("0 GB/s")
MESH = {"kind": "nvlink_mesh", "bytes_per_s": sourced("150 GB/s")}


def linked(one, other):
    """A mesh with one link."""
    return MESH | {"links": sourced([{"gpus": [one, other], "links": 1}])}


TEXTS = {"source", "note", "description", "name"}  # keys whose values are prose


def numbers(data, path=(), holder=None):
    """(path, value, mapping that holds it) of each number, with or without a unit."""
    if isinstance(data, dict) and "source" in data and isinstance(data.get("value"), list):
        yield path, len(data["value"]), data  # a list with one source, such as the links of a mesh
    elif isinstance(data, dict):
        for key, value in data.items():
            if key not in TEXTS:
                yield from numbers(value, (*path, key), data)
    elif isinstance(data, list):
        for index, value in enumerate(data):
            yield from numbers(value, (*path, index), holder)
    elif not isinstance(data, bool) and re.match(r"[+-]?[\d.]+", str(data)):
        yield path, data, holder


@pytest.mark.parametrize(("kind", "name"), FILES)
def test_each_number_has_unit_source_and_grade(kind, name):
    document = load_yaml(CATALOGS[kind].find(name))
    found = list(numbers(document.data))

    assert found
    assert document.data["name"] == name
    for path, value, holder in found:
        where = (kind, name, *path)
        assert holder.get("source"), where
        assert holder.get("grade") in {"read", "secondary", "memory", "derived", "assumed"}, where
        counts = {"gpus", "count", "sockets", "cores", "sms", "ranks", "ranks_per_node", "max_nodes"}
        plain = counts | {"leaf_nodes", "domain_gpus", "switches", "links"}
        is_ratio = any("fraction" in str(key) or "factor" in str(key) or "over" in str(key) for key in path)
        has_unit = isinstance(value, str) and re.fullmatch(r"[\d.]+ [A-Za-z]+(/s)?", value)
        assert has_unit or is_ratio or plain & set(path), where


@pytest.mark.parametrize(("kind", "name"), FILES)
def test_what_was_computed_or_assumed_says_how(kind, name):
    document = load_yaml(CATALOGS[kind].find(name))
    for path, _, holder in numbers(document.data):
        if holder["grade"] in {"derived", "assumed"}:
            assert holder.get("note"), (kind, name, *path)


@pytest.mark.parametrize("name", CLUSTERS)
def test_each_cluster_resolves_and_can_be_written_and_read_again(name):
    cluster = load_cluster(name)

    assert cluster.name == name
    assert type(cluster).model_validate(cluster.to_dict()) == cluster


def test_the_machines_asked_for_ship():
    assert {"zionex", "dgx_a100_40", "dgx_a100_80", "dgx_h100", "dgx1_v100", "dgx2_v100"} <= set(CLUSTERS)
    assert {"v100_sxm2_16", "v100_sxm2_32", "v100_sxm3_32", "a100_sxm4_40", "a100_sxm4_80", "h100_sxm5_80"} == set(
        CATALOGS["gpu"].names()
    )


def test_zionex_node_is_the_published_one():
    """Mudigere et al., Table 2: 320 GB and 12.4 TB/s of HBM, 1.5 TB and 320 GB/s of DDR, 2.4 TB/s up, 1.6 Tb/s out."""
    node = load_cluster("zionex").node

    assert node.gpus.value * node.gpu.memory_bytes.value == 320e9
    assert node.gpus.value * node.gpu.memory_bytes_per_s.value == pytest.approx(
        12.4e12, rel=0.005
    )  # 12.44, printed 12.4
    assert (node.ddr_bytes.value, node.ddr_bytes_per_s.value, node.sockets.value) == (1.5e12, 320e9, 4)
    assert node.gpus.value * node.scale_up.bytes_per_s.value == 2.4e12
    assert node.nics.count.value * node.nics.nic.bytes_per_s.value == 1600e9 / 8
    assert node.frontend is not None
    assert node.frontend.count.value * node.frontend.nic.bytes_per_s.value == 4 * 100e9 / 8
    assert node.gpus.value * node.gpu.peak_flops_per_s("fp32") == 156e12
    assert node.gpus.value * node.gpu.peak_flops_per_s("fp16") == 2496e12


def test_zionex_points_are_the_published_ones():
    """Published effective rates: all_to_all 7 and all_reduce 60 GB/s on the whole machine, 200 GB/s inside a node."""
    cluster = load_cluster("zionex")
    points = {(p.op, p.nodes): p.algbw_bytes_per_s for p in cluster.calibration if p.grade != "assumed"}
    whole = cluster.max_nodes.value

    assert points == {("all_to_all", whole): 7e9, ("all_reduce", whole): 60e9, ("all_to_all", 1): 200e9}
    assert whole * cluster.node.gpus.value == 128


def test_whole_machines_have_the_published_size():
    """Eos: 4,608 H100, 12.8 TB/s in a unit of 32 nodes. Selene at first: 2,240 A100. DGX-2: 2.4 TB/s of NVLink."""
    eos, selene, dgx2 = load_cluster("dgx_h100"), load_cluster("dgx_a100_40"), load_cluster("dgx2_v100")

    assert eos.max_nodes.value * eos.node.gpus.value == 4608
    assert 32 * eos.node.nics.count.value * eos.node.nics.nic.bytes_per_s.value == 12.8e12
    assert selene.max_nodes.value * selene.node.gpus.value == 2240
    assert dgx2.node.gpus.value * dgx2.node.scale_up.bytes_per_s.value == 2.4e12


def test_embedding_rate_is_carried_over_by_one_fraction():
    """0.836 of the HBM peak (MAD-Max), measured on the A100 40 GB; printed values are rounded to 1 GB/s."""
    for name in ("a100_sxm4_40", "a100_sxm4_80", "h100_sxm5_80"):
        gpu = load_gpu(name)
        expected = 0.836 * gpu.memory_bytes_per_s.value
        assert gpu.achieved.embedding_bytes_per_s.value == pytest.approx(expected, abs=0.6e9)


@pytest.mark.parametrize("name", CLUSTERS)
def test_no_point_is_faster_than_the_links(name):
    """busbw = what a ring sends on the slowest link; with reduction in the switch an all_reduce may send half."""
    cluster = load_cluster(name)
    node = cluster.node
    for point in cluster.calibration:
        ring = 2 if point.op == "all_reduce" else 1
        sent = point.algbw_bytes_per_s * ring * (point.ranks - 1) / point.ranks
        if point.nodes == 1:
            limit = node.scale_up.bytes_per_s.value * (2 if node.scale_up.in_switch_reduction else 1)
            assert sent <= limit, point
            continue
        if point.op == "all_to_all":  # each rank sends to the ranks of other nodes
            sent = point.algbw_bytes_per_s * point.ranks_per_node * (1 - point.ranks_per_node / point.ranks)
        assert sent <= node.nics.count.value * node.nics.nic.bytes_per_s.value, point


@pytest.mark.parametrize("name", ["dgx_a100_40", "dgx_a100_80", "dgx1_v100", "dgx2_v100"])
def test_assumed_points_between_nodes_have_the_share_measured_on_h100(name):
    """The rule of docs/reference/hardware.md: the nearest measured fabric's share of the port rate."""
    measured = {p.op: p for p in load_cluster("dgx_h100").calibration if p.nodes > 1}
    cluster = load_cluster(name)
    rate = cluster.node.nics.count.value * cluster.node.nics.nic.bytes_per_s.value
    for point in (p for p in cluster.calibration if p.nodes > 1):
        assert point.grade == "assumed"
        # four of the eight 50 GB/s ports of each H100 node took part
        assert share(point, rate) == pytest.approx(share(measured[point.op], 4 * 50e9), rel=1e-3)


def share(point, node_rate):
    """Share of a node's NIC rate that a point uses: ring all_reduce, or all_to_all."""
    if point.op == "all_reduce":
        return point.algbw_bytes_per_s * 2 * (point.ranks - 1) / point.ranks / node_rate
    away = 1 - point.ranks_per_node / point.ranks
    return point.algbw_bytes_per_s * point.ranks_per_node * away / node_rate


@pytest.mark.parametrize(
    ("node", "key", "words"),
    [
        ({"pcie_tree": TREE | {"switches": sourced(3)}, "sockets": sourced(2)}, "pcie_tree.switches.value", "divisor"),
        ({"pcie_tree": TREE | {"switches": sourced(4)}, "sockets": sourced(8)}, "pcie_tree.switches.value", "multiple"),
        (
            {"pcie_tree": TREE | {"uplink_bytes_per_s": NONE}},
            "pcie_tree.uplink_bytes_per_s.value",
            "than 0",
        ),
        ({"pcie_tree": TREE | {"nics_at": "gpu"}}, "pcie_tree.nics_at", "switch"),
        (
            {"scale_up": linked(0, 8)},
            "scale_up.links.value[0].gpus",
            "0 to 7",
        ),
        (
            {"scale_up": linked(2, 2)},
            "scale_up.links.value[0].gpus",
            "two",
        ),
        (
            {"scale_up": linked(0, 1)},
            "scale_up.links",
            "GPU 2 hangs on no link",
        ),
        ({"scale_up": MESH | {"domain_gpus": sourced(12)}}, "scale_up.domain_gpus.value", "multiple of the 8"),
        ({"nics": {"nic": "connectx_6_200gbe", "count": sourced(0)}}, "nics.count.value", "1 or more"),
        ({"nics": {"nic": "connectx_6_200gbe", "count": sourced(3)}}, "nics.count.value", "divisor"),
    ],
)
def test_a_topology_that_cannot_be_is_refused_with_its_key(tmp_path, node, key, words):
    """PCIe switches without GPUs, GPUs on no link, NICs that belong to nothing, links without capacity."""
    data = dict(load_yaml(CATALOGS["node"].find("zionex")).data) | node
    cluster = dict(load_yaml(CATALOGS["cluster"].find("zionex")).data) | {"node": data}
    file = tmp_path / "odd.yaml"
    file.write_text(yaml.safe_dump(cluster))
    with pytest.raises(InputError) as caught:
        load_cluster(file)
    assert caught.value.key == f"node.{key}"
    assert words in str(caught.value)
