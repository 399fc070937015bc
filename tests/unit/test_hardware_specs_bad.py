"""Machines that cannot be: one message with file, line and key, exit code 2, nothing written."""

from __future__ import annotations

import copy
import re

import pytest
import yaml

from dlrmsim.cli import main
from hardware_specs import load_cluster
from inputs.errors import InputError
from inputs.keys import parse_key
from tests.network_machines import pcie_box, sourced, through_host, torus

ZIONEX = load_cluster("zionex")
MACHINES = {
    "torus": torus(ZIONEX, [4, 4]),
    "pcie": through_host(pcie_box(ZIONEX)),
    "direct": pcie_box(ZIONEX),
    "mesh": load_cluster("dgx1_v100"),
    "dragonfly": load_cluster("polaris"),
}


def plain(name):
    """The machine as a YAML file would have it, without empty keys."""

    def filled(value):
        if isinstance(value, dict):
            return {key: filled(part) for key, part in value.items() if part is not None}
        return [filled(part) for part in value] if isinstance(value, list) else value

    return filled(MACHINES[name].to_dict())


def sizes(data, path=()):
    """Where a capacity, an amount or a number of parts stands: (path, a zero of its kind)."""
    if isinstance(data, dict):
        for key, value in data.items():
            last = key if key != "value" else path[-1]
            zero = zero_like(last, value)
            if zero is not None:
                yield (*path, key), zero
            yield from sizes(value, (*path, key))
    elif isinstance(data, list):
        for number, value in enumerate(data):
            yield from sizes(value, (*path, number))


def zero_like(key, value):
    if isinstance(value, str) and re.fullmatch(r"[0-9.]+ (B|B/s)", value):
        return value.replace(value.split()[0], "0")
    counts = ("gpus", "sockets", "count", "switches", "max_nodes", "leaf_nodes", "ranks", "ranks_per_node")
    return 0 if key in counts and isinstance(value, int) else None


ZEROS = [(name, path, zero) for name in ("torus", "pcie", "mesh", "dragonfly") for path, zero in sizes(plain(name))]


def with_value(data, path, value):
    changed = copy.deepcopy(data)
    at = changed
    for key in path[:-1]:
        at = at[key]
    at[path[-1]] = value
    return changed


def refused(tmp_path, data):
    file = tmp_path / "machine.yaml"
    file.write_text(yaml.safe_dump(data, sort_keys=False, width=1000))
    with pytest.raises(InputError) as caught:
        load_cluster(file)
    error = caught.value
    assert error.file == str(file)
    assert error.line is not None
    assert error.key is not None
    return error


def test_there_are_many_sizes_to_be_wrong():
    assert len(ZEROS) > 60


@pytest.mark.parametrize(("name", "path", "zero"), ZEROS[::3], ids=lambda value: str(value)[-60:])
def test_no_capacity_and_no_number_of_parts_is_zero(tmp_path, name, path, zero):
    error = refused(tmp_path, with_value(plain(name), path, zero))
    assert parse_key(error.key) == path
    assert re.search(r"expected from 1 |expected from 2 ", str(error)), error


def test_a_torus_has_no_links_of_zero(tmp_path):
    error = refused(
        tmp_path, with_value(plain("torus"), ("fabric", "link_bytes_per_s", "value"), ["10 GB/s", "0 GB/s"])
    )
    assert error.key == "fabric.link_bytes_per_s.value[1]"


def without(data, *path):
    changed = copy.deepcopy(data)
    at = changed
    for key in path[:-1]:
        at = at[key]
    del at[path[-1]]
    return changed


ODD = {
    "a mesh in two halves": (
        "mesh", ("node", "scale_up", "links", "value"),
        [{"gpus": [a, b], "links": 3} for a, b in ((0, 1), (1, 2), (2, 3), (4, 5), (5, 6), (6, 7))],
        "node.scale_up.links", "no NVLinks lead from GPU 0 to GPU 4",
    ),
    "a GPU without links": (
        "mesh", ("node", "scale_up", "links", "value"), [{"gpus": [a, a + 1], "links": 6} for a in range(6)],
        "node.scale_up.links", "GPU 7 hangs on no link of the mesh",
    ),
    "a link to nowhere": (
        "mesh", ("node", "scale_up", "links", "value", 0, "gpus"), [0, 8],
        "node.scale_up.links.value[0].gpus", "two different GPUs of 0 to 7",
    ),
    "a pair linked twice": (
        "mesh", ("node", "scale_up", "links", "value"),
        [{"gpus": [a, (a + 1) % 8], "links": 2} for a in range(8)] + [{"gpus": [1, 0], "links": 1}],
        "node.scale_up.links.value[8].gpus", "one entry for a pair",
    ),
    "no NIC": ("pcie", ("node", "nics", "count", "value"), 0, "node.nics.count.value", "from 1 to 1,024"),
    "a NIC of no GPU": ("pcie", ("node", "nics", "count", "value"), 3, "node.nics.count.value", "cannot share these"),
    "NICs on some switches": ("direct", ("node", "pcie_tree", "nics_at"), "switch", "node.pcie_tree.nics_at", "root"),
    "a GPU on no switch": (
        "pcie", ("node", "pcie_tree", "switches", "value"), 3, "node.pcie_tree.switches.value", "cannot hang on these",
    ),
    "a torus too small": (
        "torus", ("fabric", "dimensions", "value"), [4, 3], "fabric.dimensions.value", "a product of 16 or more",
    ),
    "a torus of none": (
        "torus", ("fabric", "dimensions", "value"), [4, 0], "fabric.dimensions.value[1]", "from 1 to 1,000,000",
    ),
    "a torus without dimensions": ("torus", ("fabric", "dimensions", "value"), [], "fabric.dimensions.value", "one"),
    "a rate too few": (
        "torus", ("fabric", "link_bytes_per_s", "value"), ["10 GB/s"],
        "fabric.link_bytes_per_s.value", "2, one for each",
    ),
    "a torus with leaves": ("torus", ("fabric", "leaf_nodes"), sourced(2), "fabric.leaf_nodes", "torus has no leaf"),
    "a tree with dimensions": (
        "dragonfly", ("fabric", "dimensions"), sourced([4]), "fabric.dimensions", "a dragonfly has no dimensions",
    ),
    "detours on a torus": ("torus", ("fabric", "detour_share"), sourced(0.5), "fabric.detour_share", "has no detour"),
    "more detours than traffic": (
        "dragonfly", ("fabric", "detour_share"), sourced(1.5), "fabric.detour_share.value", "from 0.000001 to 1",
    ),
    "half direct": (
        "pcie", ("node", "nics", "gpudirect"), sourced("partly"), "node.nics.gpudirect.value", "true or false",
    ),
    "NVLink between nodes of a torus": (
        "torus", ("node", "scale_up", "domain_gpus"), sourced(16), "fabric.kind", "NVLink joins nodes of a torus",
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", ODD)
def test_a_machine_that_cannot_be_is_told_at_its_key(tmp_path, what):
    name, path, value, key, words = ODD[what]
    error = refused(tmp_path, with_value(plain(name), path, value))
    assert error.key == key
    assert words in str(error)


@pytest.mark.parametrize(("name", "key"), [("torus", "link_bytes_per_s"), ("dragonfly", "spine_oversubscription")])
def test_each_kind_of_fabric_needs_its_own_keys(tmp_path, name, key):
    error = refused(tmp_path, without(plain(name), "fabric", key))
    assert error.key == f"fabric.{key}"
    assert "the key is missing" in str(error)


def test_the_command_line_refuses_them_with_exit_code_2_and_writes_nothing(tmp_path, capsys):
    file, out = tmp_path / "machine.yaml", tmp_path / "plot.html"
    file.write_text(yaml.safe_dump(with_value(plain("torus"), ("fabric", "dimensions", "value"), [4, 3])))
    assert collective(file, "8", "--plot", str(out)) == 2
    assert f"{file}:" in capsys.readouterr().err
    assert not out.exists()


def test_a_job_larger_than_its_torus_has_exit_code_2(tmp_path, capsys):
    file = tmp_path / "machine.yaml"
    file.write_text(yaml.safe_dump(plain("torus")))
    assert collective(file, "136") == 2
    assert "at most 128, on the 16 nodes of its torus" in capsys.readouterr().err


def collective(file, ranks, *more):
    return main(["collective", str(file), "--op", "all_to_all", "--ranks", ranks, "--bytes", "1MiB", *more])


@pytest.mark.parametrize(("key", "left"), [("protocols", ["ll"]), ("ring_protocols", ["ll128"])])
def test_a_fabric_leaves_nccl_a_protocol_for_sends_and_for_rings(tmp_path, key, left):
    """Sends between nodes use Simple alone; NCCL 2.0, which has nothing else, runs no rings by LL128."""
    data = plain("dragonfly") | {"collectives": "nccl_2_0"}
    error = refused(tmp_path, with_value(data, ("fabric", key, "value"), left))
    assert error.key == f"fabric.{key}.value"
    assert "simple" in str(error)


@pytest.mark.parametrize(
    ("key", "given", "words"),
    [
        ("ring_protocols", ["ll128"], "nothing else may"),
        ("protocols", ["ll", "simple", "ll"], "stands twice"),
        ("ring_protocols", ["simple", "simple"], "stands twice"),
    ],
)
def test_protocols_of_rings_are_some_of_the_fabrics_and_each_stands_once(tmp_path, key, given, words):
    data = with_value(plain("dragonfly"), ("fabric", "protocols"), sourced(["ll", "simple"]))
    error = refused(tmp_path, with_value(data, ("fabric", key), sourced(given)))
    assert error.key == f"fabric.{key}.value"
    assert words in str(error)
