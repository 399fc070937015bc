"""docs/reference/hardware.md says what the code accepts."""

import re
from pathlib import Path

import pytest

from hardware_specs import load_cluster
from hardware_specs.collectives import LatencyPoint
from hardware_specs.cpu_rates import CpuRates
from hardware_specs.library import (
    Choice,
    Choices,
    CollectiveLibrary,
    MessageConstants,
    MessageTime,
    NcclConstants,
    NetworkPost,
)
from hardware_specs.links import PcieTree, ScaleUp
from hardware_specs.processors import AchievedRates
from hardware_specs.types import CalibrationPoint, Cluster, Cpu, Fabric, Gpu, Nic, Node, NodeNics
from inputs.sourced import Grade, Sourced
from simulator.network.calibration import calibrate

PAGE = (Path(__file__).parents[2] / "docs/reference/hardware.md").read_text()
MODELS = [
    *(Gpu, AchievedRates, Cpu, CpuRates, Nic, NodeNics, ScaleUp, Node, Fabric, Cluster),
    *(CollectiveLibrary, NcclConstants, MessageConstants, MessageTime, Choices, Choice, CalibrationPoint, LatencyPoint),
]


HOW_TO = (Path(__file__).parents[2] / "docs/how-to/add-a-cluster.md").read_text()


@pytest.fixture
def example(tmp_path):
    file = tmp_path / "lab_a100.yaml"
    [text] = re.findall(r"```yaml\n(.*?)```", PAGE, flags=re.DOTALL)
    file.write_text(text)
    return file


def test_the_example_loads_as_the_page_says(example):
    cluster = load_cluster(example)

    assert cluster.name == example.stem
    assert cluster.node.gpu.name == "a100_sxm4_80"  # named
    assert cluster.node.name == "lab_server"  # written in place
    assert cluster.node.nics.nic.bytes_per_s.value == pytest.approx(12.5e9)  # 100 Gb/s
    assert cluster.node.ddr_bytes.value == 2**40
    assert len(example.read_text().splitlines()) <= 35  # "in about 30 lines"


def test_the_example_is_a_machine_that_the_network_model_can_calibrate(example):
    fractions = calibrate(load_cluster(example)).fractions

    assert len(fractions) == 4
    assert all(0.1 < fraction.value < 1.0 for fraction in fractions)  # its invented points are plausible


def test_each_field_is_on_the_page():
    words = set(re.findall(r"`(\w+)`", PAGE))
    fields = {name for model in MODELS for name in model.model_fields}

    assert fields - words == set()


TABLES = (Gpu, AchievedRates, Cpu, CpuRates, Nic, Node, ScaleUp, PcieTree, Cluster, Fabric)
"""Parts with a table of keys, units and meanings, in the order of the page."""


def test_each_table_of_keys_has_those_of_its_part():
    found = re.findall(r"^\| key \| unit \| meaning \|\n\|---\|---\|---\|\n((?:\|.*\n)+)", PAGE, re.MULTILINE)
    keys = [set(re.findall(r"`(\w+)`", " ".join(re.findall(r"^\|([^|]*)\|", rows, re.MULTILINE)))) for rows in found]
    assert keys == [set(part.model_fields) for part in TABLES]


def test_each_grade_and_key_of_a_value_is_on_the_page():
    assert all(f"| `{grade}` |" in PAGE for grade in Grade.__args__)
    assert all(f"{key}: " in PAGE for key in Sourced.model_fields)
    assert "simple_factor" in NetworkPost.model_fields
    assert "`simple_factor`" in PAGE


def test_each_shipped_cluster_is_in_the_table_of_points():
    from hardware_specs.catalogs import CATALOGS

    rows = "\n".join(line for line in PAGE.splitlines() if line.startswith("| `"))
    assert all(f"`{name}`" in rows for name in CATALOGS["cluster"].names())


def test_the_torus_of_the_how_to_loads(tmp_path):
    """In 14 lines; its second block is a part of a node."""
    file = tmp_path / "lab_torus.yaml"
    text, nics = re.findall(r"```yaml\n(.*?)```", HOW_TO, flags=re.DOTALL)
    file.write_text(text)
    assert load_cluster(file).fabric.dimensions.value == (4, 4, 4)
    assert "gpudirect: {value: false" in nics
