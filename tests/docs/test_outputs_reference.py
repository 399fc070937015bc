"""Sections of a run's page, and keys of the summary about sequences, as the reference lists them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from dlrmsim.pages.findings import run_findings
from reports.run_report import run_sections
from scenarios.progress import Silent
from scenarios.resolve import load_scenario
from scenarios.runner import Outcome, simulate

REFERENCE = Path(__file__).parents[2] / "docs" / "reference"
OF_OTHER_JOBS = ("Requests", "Blocks of the network", "Memory over the step")
"""Sections of jobs that answer requests, of transformers and convolutional networks, and of captured jobs."""


@pytest.fixture(scope="module")
def outcome() -> Outcome:
    settings = ["workload.global_batch_size=256", "workload.time_to_target={samples: 1e9, evaluation_samples: 1e6}"]
    return simulate(load_scenario("mlperf_dlrm_v4_hstu", settings), Silent(), levers=True)


def test_the_page_has_the_sections_of_the_reference_in_their_order(outcome: Outcome) -> None:
    page = (REFERENCE / "outputs.md").read_text(encoding="utf-8").split("## Page of a run")[1].split("\n## ")[0]
    listed = re.findall(r"^\| (?!section)(\w[^|]*) \|", page, re.MULTILINE)
    titles = [section.title for section in run_sections(run_findings(outcome))]
    assert [name for name in listed if name not in OF_OTHER_JOBS] == titles
    assert set(OF_OTHER_JOBS) < set(listed)


@pytest.mark.parametrize("key", ["sequences", "time_to_target"])
def test_every_key_of_the_section_is_in_the_reference(outcome: Outcome, key: str) -> None:
    rows = (REFERENCE / "metrics.md").read_text(encoding="utf-8")
    (row,) = re.findall(rf"^\| `{key}` \|.*", rows, re.MULTILINE)
    named = set(re.findall(r"`(\w+)`", row))
    section = outcome.summary[key]
    assert set(section) <= named
    assert {inner for value in section.values() if isinstance(value, dict) for inner in value} <= named | {
        "random", "sorted", "balanced",
    }  # fmt: skip
