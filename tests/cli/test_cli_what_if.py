"""``dlrmsim what-if``: rows of changes, plans, JSON and exit codes."""

from __future__ import annotations

import json

import pytest

from dlrmsim.cli import main

TINY = ("what-if", "synthetic_tiny")


def test_each_change_is_a_row_beside_the_scenario(capsys):
    assert main([*TINY, "--change", "workload.pipeline=none", "--change", "run.iterations=4 and name=x"]) == 0
    first, second, third = capsys.readouterr().out.splitlines()
    assert first.startswith("synthetic_tiny")
    assert second.startswith("workload.pipeline=none")
    assert "% time per sample, same plan" in second
    assert third.startswith("run.iterations=4 and name=x")


def test_plans_of_their_own_and_json(capsys):
    change = ["--change", "cluster.node.gpu.memory_bytes_per_s=4TB/s"]
    rows = {}
    for own in ([], ["--own-plan"]):
        assert main([*TINY, *change, *own, "--json"]) == 0
        rows[bool(own)] = json.loads(capsys.readouterr().out)["answers"][1]
    assert (rows[False]["plan"], rows[True]["plan"]) == ("kept", "own")
    assert min(row["gain"] for row in rows.values()) > 0.0


@pytest.mark.parametrize(
    ("change", "code", "words"),
    [
        ("workload.pipline=none", 2, "did you mean 'pipeline'"),
        ("faster", 2, "--change: is no change; given 'faster'; expected KEY=VALUE"),
        ("workload.global_batch_size=99999999999", 3, "does not fit"),
    ],
)
def test_a_change_that_is_refused_alone_is_an_error(capsys, change, code, words):
    assert main([*TINY, "--change", change]) == code
    assert words in capsys.readouterr().err


def test_a_change_that_is_refused_beside_others_is_a_row(capsys):
    assert main([*TINY, "--change", "workload.pipline=none", "--change", "run.iterations=4"]) == 0
    assert "unknown key" in capsys.readouterr().out
