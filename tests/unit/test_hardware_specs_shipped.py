"""Each shipped number has unit, source and grade, and agrees with what is published about the whole machine."""

import re

import pytest
import yaml

from hardware_specs import load_cluster, load_gpu
from hardware_specs.catalogs import CATALOGS
from inputs.errors import InputError
from inputs.yaml_lines import load_yaml
from simulator.network import CollectiveModel, Topology
from simulator.network.calibration import with_shares
from tests.network_machines import idle_call, sourced
from validation.fits.parameters import FACTORS, LARGEST_FACTOR, LARGEST_FACTOR_OF_HOSTS

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
        shared = {"rules", "kernels"} & set(path)  # the rules of a table have its source, costs that of their fit
        within = data if "source" in data or not shared else holder
        for key, value in data.items():
            if key not in TEXTS and (*path, key)[-2:] != ("fitted", "rows"):  # a count and errors of the fit's own rows
                yield from numbers(value, (*path, key), within)
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
        plain = counts | {"ranks_per_socket", "sockets_per_rank", "threads", "collective_cores", "collective_slower"}
        plain |= {"rows", "median_error_pct", "worst_error_pct", "noise_pct"}  # of a fit
        plain |= {"leaf_nodes", "domain_gpus", "switches", "links", "up_to_ranks", "gemm_balanced_tile", "share"}
        plain |= {"nodes", "protocols", "ring_protocols", "span_exponent", "workers", "socket_links"}
        is_ratio = any("fraction" in str(key) or "factor" in str(key) or "over" in str(key) for key in path)
        has_unit = isinstance(value, str) and re.fullmatch(r"[\d.]+(e-?\d+)? [A-Za-z]+(/s)?", value)
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
    clusters = {"zionex", "dgx_a100_40", "dgx_a100_80", "dgx_h100", "dgx1_v100", "dgx2_v100", "fat_tree_16k"}
    clusters |= {"hgx_h200", "dgx_b200", "gb200_nvl72", "l40s", "a30", "a40", "a100_pcie", "h100_pcie", "polaris"}
    clusters |= {"alps", "piz_daint", "aws_p4d", "aws_p4de", "aws_p5", "eos", "selene", "roce_a100"}
    gpus = {"v100_sxm2_16", "v100_sxm2_32", "v100_sxm3_32", "a100_sxm4_40", "a100_sxm4_80", "h100_sxm5_80"}
    gpus |= {"h200_sxm5_141", "b200_sxm_180", "gb200_186", "gh200_96", "h100_pcie_80", "a100_pcie_40", "a100_pcie_80"}
    gpus |= {"a30_24", "a40_48", "l40s_48", "p100_sxm2_16", "p100_pcie_16", "p100_pcie_12", "k80_12", "titan_xp_12"}
    gpus |= {"m40_12", "rtx_3080_10", "v100_1297mhz", "p100_1189mhz", "h100_sxm5_96"}
    clusters |= {"mi300x", "mi325x", "mi350x", "mi355x", "dgx_b300", "gb300_nvl72"}
    gpus |= {"mi300x_192", "mi325x_256", "mi350x_288", "mi355x_288", "b300_sxm_288", "gb300_288"}

    assert clusters <= set(CLUSTERS)
    assert gpus == set(CATALOGS["gpu"].names())


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


# NVLink of a domain, out of a node, HBM of a domain, in units of 1e9 B/s; GPUs of the whole machine.
PUBLISHED = {
    "hgx_h200": (7200 / 2, 3200 / 8, 38400, 4 * 8),  # 7.2 TB/s both ways, 8 x 400 Gb/s, 8 x 4.8 TB/s
    "dgx_b200": (14400 / 2, 3200 / 8, 8 * 7672, None),  # user guide: 14.4 TB/s, 8 x 400 Gb/s; HBM as the driver says
    "gb200_nvl72": (129600 / 2, 1600 / 8, 576000, 1152),  # 130 TB/s and 576 TB/s a rack, 4 x 400 Gb/s a tray
    "dgx_b300": (14400 / 2, 6400 / 8, 8 * 8000, 1016),  # 8 x 800 Gb/s
    "gb300_nvl72": (129600 / 2, 3200 / 8, 576000, 1152),  # 576 TB/s a rack, 4 x 800 Gb/s a tray
    "mi300x": (8 * 7 * 64, 3200 / 8, 8 * 5300, 16384),  # 7 links of 64 GB/s, 8 x 400 Gb/s
    "mi350x": (8 * 7 * 76.5, 3200 / 8, 8 * 8000, 16384),
    "polaris": (1200, 50, 4 * 1555, 2240),  # 4 links to each of 3 GPUs, 2 x 200 Gb/s
    "alps": (1800, 100, 4 * 4000, 10752),  # 150 GB/s to each of 3 GPUs, 4 x 200 Gb/s
    "aws_p4d": (2400, 400 / 8, 8 * 1555, 4000),  # 400 Gb/s
    "aws_p4de": (2400, 400 / 8, 8 * 2039, 4000),
    "aws_p5": (3600, 3200 / 8, 8 * 3350, 20000),  # 3,200 Gb/s
    "eos": (3600, 3200 / 8, 8 * 3350, 4608),
    "selene": (2400, 1600 / 8, 8 * 2039, 4480),
    "roce_a100": (2400, 1600 / 8, 8 * 2039, 64),
    "fat_tree_16k": (3600, 3200 / 8, 8 * 3350, 16384),
}


@pytest.mark.parametrize("name", PUBLISHED)
def test_machine_has_the_published_totals(name):
    """What is printed about a whole node, NVLink domain or machine, against the parts it is made of."""
    cluster = load_cluster(name)
    node, (nvlink, network, hbm, gpus) = cluster.node, PUBLISHED[name]
    domain = (node.scale_up.domain_gpus or node.gpus).value

    assert domain * node.scale_up.bytes_per_s.value == pytest.approx(nvlink * 1e9)
    assert node.nics.count.value * node.nics.nic.bytes_per_s.value == pytest.approx(network * 1e9)
    assert domain * node.gpu.memory_bytes_per_s.value == pytest.approx(hbm * 1e9)
    assert gpus is None or cluster.max_nodes.value * node.gpus.value == gpus


def test_hbm_of_b200_and_nvl72_is_the_published_one():
    """DGX B200 user guide: 1,440 GB, 7,680 bit at 3,996 MHz. GB200 NVL72: 13.4 TB a rack, and racks of 18 trays."""
    b200, rack = load_cluster("dgx_b200").node, load_cluster("gb200_nvl72").node

    assert b200.gpus.value * b200.gpu.memory_bytes.value == 1440e9
    assert b200.gpu.memory_bytes_per_s.value == pytest.approx(7680 * 3996e6 * 2 / 8, rel=1e-3)
    assert rack.scale_up.domain_gpus.value == 18 * rack.gpus.value
    assert rack.scale_up.domain_gpus.value * rack.gpu.memory_bytes.value == pytest.approx(13.4e12, rel=0.005)


@pytest.mark.parametrize("name", ["a100_pcie", "h100_pcie", "a30", "a40", "l40s"])
def test_pcie_servers_have_no_nvlink_and_as_much_pcie_as_their_generation(name):
    """A switch's up-link is one x16 link like that of a GPU; collectives were measured on L40S only."""
    cluster = load_cluster(name)
    node = cluster.node

    assert node.scale_up is None
    assert node.pcie_tree.uplink_bytes_per_s.value == node.pcie_bytes_per_s.value
    assert cluster.calibration == ()
    assert (cluster.fitted is None) == (name != "l40s")


@pytest.mark.parametrize("name", ["eos", "hgx_h200", "fat_tree_16k", "grand_teton_h100", "hgx_h200_4"])
def test_fit_of_dgx_h100_is_carried_over_unchanged(name):
    """The links are the same; only source and grade of each number differ."""
    measured, carried = (values_of(load_cluster(which).fitted.model_dump()) for which in ("dgx_h100", name))

    assert {key: value for key, value in measured.items() if key[0] != "launch_s"} == carried


def values_of(data, path=()):
    """The value of each sourced number, by its path."""
    if "value" in data:
        return {path: data["value"]}
    nested = (values_of(item, (*path, key)) for key, item in data.items() if isinstance(item, dict))
    return {key: value for part in nested for key, value in part.items()}


def test_embedding_rate_is_carried_over_by_one_fraction():
    """Of the HBM peak: 0.836, the A100 40 GB (MAD-Max), and 0.628, the H100; printed values are rounded to 1 GB/s."""
    ampere = [
        "a100_sxm4_40",
        "a100_sxm4_80",
        "a100_pcie_40",
        "a100_pcie_80",
        "a30_24",
        "a40_48",
        "l40s_48",
        "rtx_3080_10",
    ]
    hopper = ["h100_sxm5_80", "h100_pcie_80", "h100_sxm5_96", "h200_sxm5_141", "gh200_96", "b200_sxm_180", "gb200_186"]
    hopper += ["b300_sxm_288", "gb300_288", "mi300x_192", "mi325x_256", "mi350x_288", "mi355x_288"]
    for name in ampere + hopper:
        gpu = load_gpu(name)
        expected = (0.836 if name in ampere else 0.6284) * gpu.memory_bytes_per_s.value
        assert gpu.embedding_bytes_per_s == pytest.approx(expected, rel=2e-3), name


def test_lookups_are_no_faster_than_a_stream_where_it_was_measured():
    """Of the A100's triad lookups reach 1300 / 1360; cards whose own triad or read is far below the peak keep that."""
    for name in ("p100_sxm2_16", "p100_pcie_16", "p100_pcie_12", "k80_12", "titan_xp_12"):
        gpu = load_gpu(name)
        stream = gpu.achieved.stream_fraction.value * gpu.memory_bytes_per_s.value
        assert 0.93 < gpu.embedding_bytes_per_s / stream < 0.96, name


@pytest.mark.parametrize("name", CLUSTERS)
def test_the_share_of_each_point_is_that_of_its_rate(name):
    """A point that states both says the same twice; one that states a share alone is of another machine."""
    cluster = load_cluster(name).model_copy(update={"fitted": None})
    rates_alone = tuple(p.model_copy(update={"share": None}) for p in cluster.calibration if p.algbw_bytes_per_s)
    derived = {
        point.shape: point.share
        for point in with_shares(cluster.model_copy(update={"calibration": rates_alone})).calibration
    }

    for point in cluster.calibration:
        if point.algbw_bytes_per_s is None:
            assert point.grade == "assumed", point
        else:
            assert point.share == pytest.approx(derived[point.shape], rel=1e-5), point


@pytest.mark.parametrize("name", CLUSTERS)
def test_no_point_is_faster_than_the_links(name):
    """busbw = what a ring sends on the slowest link; with reduction in the switch an all_reduce may send half."""
    cluster = load_cluster(name)
    node = cluster.node
    for point in (p for p in cluster.calibration if p.algbw_bytes_per_s is not None):
        ring = 2 if point.op == "all_reduce" else 1
        sent = point.algbw_bytes_per_s * ring * (point.ranks - 1) / point.ranks
        if point.nodes == 1:
            limit = node.scale_up.bytes_per_s.value * (2 if node.scale_up.in_switch_reduction else 1)
            assert sent <= limit, point
            continue
        if point.op == "all_to_all":  # each rank sends to the ranks of other nodes, or other domains
            near = domain.value if (domain := node.scale_up.domain_gpus) else point.ranks_per_node
            sent = point.algbw_bytes_per_s * point.ranks_per_node * (1 - near / point.ranks)
        assert sent <= node.nics.count.value * node.nics.nic.bytes_per_s.value, point


@pytest.mark.parametrize("name", ["dgx_a100_40", "dgx_a100_80", "selene", "dgx1_v100", "dgx2_v100", "dgx_b200"])
def test_assumed_points_between_nodes_have_the_share_measured_on_h100(name):
    """The rule of docs/reference/hardware.md: the nearest measured fabric's share of the port rate."""
    measured = {p.op: p for p in load_cluster("dgx_h100").calibration if p.nodes > 1}
    cluster = load_cluster(name)
    rate = cluster.node.nics.count.value * cluster.node.nics.nic.bytes_per_s.value
    for point in (p for p in cluster.calibration if p.nodes > 1):
        assert point.grade == "assumed"
        # four of the eight 50 GB/s ports of each H100 node took part
        assert share(point, rate) == pytest.approx(share(measured[point.op], 4 * 50e9), rel=1e-3)


def test_assumed_points_between_nodes_have_the_share_of_the_nearest_fabric():
    """Polaris: Slingshot-11 of Alps. RoCE: ZionEX. Inside a rack of NVL72: the NVLink share of 8 H100 and 8 B200."""
    polaris, alps = load_cluster("polaris"), load_cluster("alps")
    gathered = [next(p for p in c.calibration if p.nodes > 1) for c in (polaris, alps)]
    busbw = [p.algbw_bytes_per_s * (p.ranks - 1) / p.ranks for p in gathered]
    assert busbw[0] / 50e9 == pytest.approx(busbw[1] / 100e9, rel=1e-3)

    roce, zionex = ({p.op: p for p in load_cluster(n).calibration if p.nodes > 1} for n in ("roce_a100", "zionex"))
    assert roce.keys() == zionex.keys()
    for op, point in roce.items():
        assert share(point, 200e9) == pytest.approx(share(zionex[op], 200e9), rel=1e-3)

    tray, h100 = ({p.op: p for p in load_cluster(n).calibration if p.nodes == 1} for n in ("gb200_nvl72", "dgx_h100"))
    for op in ("all_to_all", "all_gather", "reduce_scatter"):
        assert tray[op].algbw_bytes_per_s * 3 / 4 / 900e9 == pytest.approx(
            h100[op].algbw_bytes_per_s * 7 / 8 / 450e9, rel=1e-3
        )


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
            "from 1 kB/s to 1 EB/s",
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
        ({"nics": {"nic": "connectx_6_200gbe", "count": sourced(0)}}, "nics.count.value", "from 1 to 1,024"),
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


def test_an_nvlink_domain_is_larger_than_a_node():
    """72 ranks on 18 trays are one domain: nothing of an all_reduce leaves NVLink; 144 are two."""
    rack = load_cluster("gb200_nvl72")
    one, two = Topology.build(rack, 72), Topology.build(rack, 144)
    assert (one.nodes, len(set(one.domain_of.tolist()))) == (18, 1)
    assert len(set(two.domain_of.tolist())) == 2
    used = CollectiveModel.of(rack, one)
    stage = used.time(idle_call(used, "all_reduce", 1e9)).stages[0]
    assert set(stage.work.usage) == {"nvlink_tx", "nvlink_rx"}


@pytest.mark.parametrize("name", CATALOGS["cluster"].names())
def test_no_fitted_constant_is_outside_its_physical_range(name):
    """Shares of links are at most 1, NCCL's latencies within a factor of 5, a method of timing adds 200 us at most."""
    cluster = load_cluster(name)
    fit = cluster.fitted
    if fit is None:
        return
    shares = [*fit.near_fraction.values(), *fit.network_fraction.values(), fit.together_fraction, fit.ll_fraction]
    assert all(0 < share.value <= 1 for share in shares if share is not None)
    assert fit.span_exponent is None or 0 <= fit.span_exponent.value <= 0.5
    assert all(0 <= launch.value <= 200e-6 for launch in fit.launch_s.values())
    factors = [getattr(fit, key).value for key in FACTORS]
    most = LARGEST_FACTOR if cluster.collectives.messages is None else LARGEST_FACTOR_OF_HOSTS
    assert all(1 / most <= factor <= most for factor in factors)
    copies = fit.copy_bytes_per_s.value
    memory = cluster.node.gpu.memory_bytes_per_s.value if cluster.node.gpu else cluster.node.ddr_bytes_per_s.value
    assert copies < memory


@pytest.mark.parametrize("name", CATALOGS["cluster"].names())
def test_no_constant_of_the_messages_of_a_node_is_outside_its_physical_range(name):
    """A host passes on no more than its links, a post takes 0.1 to 100 us, an announcement up to 1 ms."""
    node = load_cluster(name).node
    tree, nic = node.pcie_tree, node.nics.nic
    if tree is not None and tree.peer_bytes_per_s is not None:
        assert 0 < tree.peer_bytes_per_s.value <= tree.uplink_bytes_per_s.value
    if tree is not None and tree.far_peer_bytes_per_s is not None:
        assert 0 < tree.far_peer_bytes_per_s.value <= tree.socket_link_bytes_per_s.value
    assert nic.post_s is None or 1e-7 < nic.post_s.value < 1e-4
    assert nic.rendezvous is None or (nic.rendezvous.above.value >= 1024 and nic.rendezvous.hop_s.value < 1e-3)


@pytest.mark.parametrize("name", CATALOGS["gpu"].names())
def test_no_achieved_rate_of_a_gpu_is_outside_its_physical_range(name):
    """Fractions of a peak are at most 1, starts of kernels 1 to 20 us, edges of balanced tiles 16 to 1,024."""
    achieved = load_gpu(name).achieved
    fractions = (
        "gemm_fraction",
        "gemm_memory_fraction",
        "gemm_unaligned_fraction",
        "embedding_fraction",
        "stream_fraction",
    )
    assert all(0.1 < getattr(achieved, key).value <= 1 for key in fractions)
    assert 16 <= achieved.gemm_balanced_tile.value <= 1024
    assert all(1e-6 < getattr(achieved, key).value < 20e-6 for key in ("gemm_start_s", "kernel_floor_s"))
