"""Names, paths and parts in place resolve; each mistake is one message with file, line and key."""

import pytest
import yaml

from hardware_specs import Cluster, load_cluster, load_gpu, read_cluster
from hardware_specs.catalogs import CATALOGS
from inputs.errors import InputError
from inputs.yaml_lines import load_yaml


def text_of(kind, name):
    """The text of a shipped file."""
    return CATALOGS[kind].find(name).read_text(encoding="utf-8")


@pytest.fixture
def shipped(tmp_path):
    """Write a shipped file, changed, and return its path."""

    def write(kind, name, *changes):
        text = text_of(kind, name)
        for old, new in changes:
            assert old in text
            text = text.replace(old, new, 1)
        file = tmp_path / f"{kind}_{name}.yaml"
        file.write_text(text)
        return file

    return write


def test_a_path_beside_the_file_names_a_part(shipped):
    shipped("gpu", "a100_sxm4_40", ("name: a100_sxm4_40", "name: mine"))
    shipped("node", "zionex", ("gpu: a100_sxm4_40", "gpu: gpu_a100_sxm4_40.yaml"))
    cluster = load_cluster(shipped("cluster", "zionex", ("node: zionex", "node: node_zionex.yaml")))

    assert cluster.node.gpu.name == "mine"
    assert cluster.node.cpu == load_cluster("zionex").node.cpu


def test_a_whole_cluster_in_place_is_the_named_one(tmp_path):
    named = load_cluster("dgx1_v100")
    file = tmp_path / "scenario.yaml"
    file.write_text(yaml.safe_dump({"nodes": 2, "cluster": named.to_dict()}))

    assert read_cluster(load_yaml(file), ("cluster",)) == named


def test_a_part_in_place_may_name_its_own_parts(tmp_path):
    node = {"node": yaml.safe_load(text_of("node", "zionex"))}
    file = tmp_path / "scenario.yaml"
    file.write_text(yaml.safe_dump({"cluster": yaml.safe_load(text_of("cluster", "zionex")) | node}))

    assert read_cluster(load_yaml(file), ("cluster",)) == load_cluster("zionex")


def test_a_scenario_names_a_cluster(tmp_path):
    file = tmp_path / "scenario.yaml"
    file.write_text("nodes: 2\ncluster: dgx_h100\n")

    assert read_cluster(load_yaml(file), ("cluster",)) == load_cluster("dgx_h100")


def test_reading_leaves_the_document_as_it_was(tmp_path):
    file = tmp_path / "c.yaml"
    file.write_text("cluster:\n" + "".join(f"  {line}\n" for line in text_of("cluster", "zionex").splitlines()))
    document = load_yaml(file)
    read_cluster(document, ("cluster",))

    assert document.data["cluster"]["node"] == "zionex"


def test_a_missing_cluster_is_named(tmp_path):
    file = tmp_path / "scenario.yaml"
    file.write_text("nodes: 2\n")

    with pytest.raises(InputError, match="cluster: the key is missing"):
        read_cluster(load_yaml(file), ("cluster",))


def test_an_unknown_cluster_gives_the_nearest_name():
    with pytest.raises(InputError) as caught:
        load_cluster("zionx")

    assert caught.value.nearest == "zionex"
    assert "dgx_h100" in str(caught.value)


def changed_line(file, kind, name):
    """Number of the first line that is not as shipped."""
    pairs = zip(file.read_text().splitlines(), text_of(kind, name).splitlines(), strict=True)
    return next(number for number, (line, original) in enumerate(pairs, 1) if line != original)


@pytest.mark.parametrize(
    ("old", "new", "key", "words"),
    [
        ("node: zionex", "node: zionx", "node", "unknown node"),
        ("node: zionex", "node: no/such.yaml", "node", "no such node file"),
        ("max_nodes:", "max_node:", "max_node", "unknown key"),
        ("kind: fat_tree", "kind: fattree", "fabric.kind", "unknown value"),
        ("value: 1.275 us", "value: 1.275", "fabric.hop_latency_s.value", "the unit is missing"),
        ("{value: 1.0,", "{value: 0.5,", "fabric.spine_oversubscription.value", "1.0 or more"),
        ("{value: 16,", "{value: 0,", "max_nodes.value", "from 1 to 1,000,000"),
        ("{value: 16,", "{value: 1.5,", "max_nodes.value", "whole number"),
        ("grade: read}", "grade: guess}", "max_nodes.grade", "read, secondary"),
        ("algbw_bytes_per_s: 7.0 GB/s", "algbw_bytes_per_s: 0 GB/s",
         "calibration[0].algbw_bytes_per_s", "from 1 kB/s to 1 EB/s"),
        ("ranks_per_node: 8", "ranks_per_node: 9", "calibration[0].ranks_per_node", "at most 8"),
        ("op: all_reduce", "op: all_to_all", "calibration[1]", "the same collective again"),
    ],
)  # fmt: skip
def test_a_mistake_in_a_cluster_has_its_line(shipped, old, new, key, words):
    file = shipped("cluster", "zionex", (old, new))
    with pytest.raises(InputError) as caught:
        load_cluster(file)

    assert caught.value.file == str(file)
    assert caught.value.key == key
    assert words in str(caught.value)
    assert caught.value.line == changed_line(file, "cluster", "zionex")


def test_a_cost_of_a_kernel_that_is_not_counted_so_has_its_line(shipped):
    file = shipped("cluster", "zen5_2_cores", ("output_byte:", "outputs_byte:"))
    with pytest.raises(InputError, match="did you mean 'output_byte'") as caught:
        load_cluster(file)
    assert caught.value.key == "node.cpu.kernels[0].costs.lookup.seconds_per.outputs_byte"
    assert caught.value.line == changed_line(file, "cluster", "zen5_2_cores")


@pytest.mark.parametrize(
    ("old", "new", "key", "words"),
    [
        ("value: 40 GB,", "value: 0 GB,", "memory_bytes.value", "from 1 B to 1 EB"),
        ("value: 1555 GB/s", "value: 1555 GB", "memory_bytes_per_s.value", "unknown unit 'GB'"),
        (
            "gemm_fraction: {value: 0.",
            "gemm_fraction: {value: 1.",
            "achieved.gemm_fraction.value",
            "from 0.000001 to 1",
        ),
        ("  fp32: {", "  fp31: {", "peak_flops.fp31", "unknown key"),
    ],
)
def test_a_mistake_in_a_gpu_has_its_line(shipped, old, new, key, words):
    file = shipped("gpu", "a100_sxm4_40", (old, new))
    with pytest.raises(InputError) as caught:
        load_gpu(file)

    assert (caught.value.file, caught.value.key, caught.value.line) == (
        str(file),
        key,
        changed_line(file, "gpu", "a100_sxm4_40"),
    )
    assert words in str(caught.value)


def test_a_mistake_in_a_part_names_the_file_of_the_part(shipped):
    node = shipped("node", "zionex", ("count: {value: 8,", "count: {value: 3,"))
    with pytest.raises(InputError) as caught:
        load_cluster(shipped("cluster", "zionex", ("node: zionex", f"node: {node}")))

    assert (caught.value.file, caught.value.key) == (str(node), "nics.count.value")
    assert "divisor or a multiple of the 8 GPUs" in str(caught.value)


def test_a_gpu_must_say_what_it_does_in_fp32(shipped):
    text = text_of("gpu", "v100_sxm2_16")
    line = next(line for line in text.splitlines() if "fp32:" in line)
    with pytest.raises(InputError, match=r"peak_flops\.fp32: the key is missing"):
        load_gpu(shipped("gpu", "v100_sxm2_16", (line + "\n", "")))


def test_tf32_on_a_gpu_without_it_is_fp32_and_other_formats_are_refused():
    gpu = load_gpu("v100_sxm2_16")

    assert gpu.peak_flops_per_s("tf32") == gpu.peak_flops_per_s("fp32") == 15.7e12
    with pytest.raises(InputError, match="one of fp16, fp32, fp64"):
        gpu.peak_flops_per_s("bf16")


def test_posting_a_message_costs_by_cpu_vendor():
    """NCCL getNetOverhead: Intel 1 us, AMD 2 us."""
    for name, cost_s in (("zionex", 1e-6), ("dgx_a100_40", 2e-6)):
        cluster = load_cluster(name)
        assert cluster.collectives.nccl.network_post.seconds(cluster.node.cpu) == pytest.approx(cost_s)


def test_the_schema_lets_parts_be_named():
    node = Cluster.model_json_schema()["properties"]["node"]

    assert [option.get("type", "object") for option in node["anyOf"]] == ["string", "object"]
