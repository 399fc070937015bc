"""The table of versions in docs/reference/hardware.md names each cluster with NCCL, and what its sources say."""

from __future__ import annotations

import re

import pytest

from benchmarks.figures import ROOT
from hardware_specs import load_cluster
from hardware_specs.catalogs import CATALOGS

PAGE = ROOT / "docs" / "reference" / "hardware.md"
IN_A_SOURCE = re.compile(r"nccl[/_ ](\d+[._]\d+(?:\.\d+)?)", re.IGNORECASE)
CLUSTERS = [name for name in CATALOGS["cluster"].names() if load_cluster(name).collectives.nccl is not None]


def versions() -> dict[str, str]:
    """Text of the second column, by cluster."""
    section = PAGE.read_text(encoding="utf-8").split("### Versions of NCCL")[1].split("\n## ")[0]
    rows = [line.strip("| ").split(" | ") for line in section.splitlines() if line.startswith("| `")]
    return {name: text for names, text in rows for name in re.findall(r"`(\w+)`", names)}


@pytest.mark.parametrize("name", CLUSTERS)
def test_each_cluster_is_in_the_table_with_the_versions_that_its_sources_name(name):
    text, cluster = versions()[name], load_cluster(name)
    for point in cluster.calibration:
        for found in IN_A_SOURCE.findall(point.source):
            assert found.replace("_", ".") in text, point.source
    measured = cluster.fitted is not None or any(point.algbw_bytes_per_s for point in cluster.calibration)
    assert measured != (text == "nothing was measured")


def test_the_table_names_no_other_cluster():
    assert set(versions()) == set(CLUSTERS)
