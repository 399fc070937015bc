"""Lengths beyond the maximum that a law cuts: their chances, positions of a job, and a file that is gone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from inputs.yaml_lines import Document
from scenarios.dlrm.sequence_sections import sequences_of
from scenarios.resolve import resolve
from tests.sequence_jobs import model_data, placed, scenario_data
from workloads.dlrm.laws.sequence_lengths import LengthLaw, read_lengths

MAXIMUM = 64
LAWS: dict[str, tuple[dict[str, Any], dict[int, float]]] = {
    "fixed": ({"distribution": "fixed", "mean": 90}, {90: 1.0}),
    "uniform": ({"distribution": "uniform", "low": 62, "high": 71}, dict.fromkeys(range(62, 72), 0.1)),
    "histogram": (
        {"distribution": "histogram", "lengths": [3, 64, 80, 500], "weights": [4, 1, 2, 1]},
        {3: 0.5, 64: 0.125, 80: 0.25, 500: 0.125},
    ),
}


@pytest.mark.parametrize("name", LAWS)
def test_longer_lengths_are_cut_to_the_maximum(name: str) -> None:
    """Chance of min(length, maximum), by hand."""
    law, chances = LAWS[name]
    expected = np.zeros(MAXIMUM + 1)
    for length, chance in chances.items():
        expected[min(length, MAXIMUM)] += chance
    cut = LengthLaw.model_validate({**law, "cut": True})
    assert cut.probabilities(MAXIMUM) == pytest.approx(expected, rel=1e-12)
    assert cut.mean_length(MAXIMUM) == pytest.approx(float(expected @ np.arange(MAXIMUM + 1)), rel=1e-12)


@pytest.mark.parametrize("at", ["model", "scenario"])
@pytest.mark.parametrize("name", LAWS)
def test_jobs_run_over_cut_lengths(name: str, at: str) -> None:
    """No sample has more positions than the maximum, a candidate and a contextual one; some have as many."""
    law = {**LAWS[name][0], "cut": True}
    if at == "model":
        _, workload = placed(model_data(law, max_length=MAXIMUM), 4)
    else:
        _, workload = placed(None, 4, sequence_lengths={"history": law})
    found = sequences_of(workload)["positions_per_sample"]
    assert found["longest"] == found["maximum"] == MAXIMUM + 2
    if name == "fixed":
        assert found["mean"] == MAXIMUM + 2


def test_a_file_of_longer_lengths_is_cut_as_it_is_read(tmp_path: Path) -> None:
    """To a histogram without the longer ones, in the resolved scenario too, which runs without the file."""
    file = tmp_path / "lengths.csv"
    file.write_text("length,count\n3,4\n80,2\n64,1\n500,1\n", encoding="utf-8")
    found = read_lengths(file, MAXIMUM, cut=True)
    assert (found.lengths, found.weights) == ((3, 64), (4.0, 4.0))
    law = {"distribution": "file", "file": str(file), "cut": True}
    first = resolve(Document(scenario_data(None, sequence_lengths={"history": law}), {}, tmp_path / "job.yaml"))
    file.unlink()
    again = resolve(Document(yaml.safe_load(yaml.safe_dump(first.to_dict())), {}, Path("test.yaml")))
    assert again.hash == first.hash
    assert again.model.sequences["history"].lengths.value.mean_length(MAXIMUM) == (4 * 3 + 4 * 64) / 8
