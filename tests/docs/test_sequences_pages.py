"""Pages about sequences: refusals as the commands before them print them, operations as the task graph has them."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from benchmarks import sequences
from dlrmsim.cli import main
from workloads.dlrm.model.hstu import Hstu

DOCS = Path(__file__).parents[2] / "docs"
HOW_TO = (DOCS / "how-to" / "size-a-sequence-recommender.md").read_text(encoding="utf-8")
BACKGROUND = (DOCS / "explanation" / "sequences.md").read_text(encoding="utf-8")
MODELS = (DOCS / "how-to" / "add-a-model.md").read_text(encoding="utf-8")
REFUSALS = re.findall(r"```\n(dlrmsim [^\n]*)\n```\n[^`]*(?:`[^`\n]+`[^`]*)*?```text\n(.*?)```", HOW_TO, re.DOTALL)
"""Commands, and the lines of their output that the page shows."""


def test_the_page_shows_refusals():
    assert len(REFUSALS) == 2


@pytest.mark.parametrize(("command", "lines"), REFUSALS, ids=[command for command, _ in REFUSALS])
def test_a_refusal_is_printed_as_the_page_shows_it(command, lines, capsys):
    assert main(shlex.split(command)[1:]) == 3
    printed = capsys.readouterr().err
    assert [line for line in lines.splitlines() if line not in printed] == []


def test_operations_are_those_of_the_task_graph():
    """Every row of ``python -m benchmarks sequences``, to a tenth of a GFLOP; small ones to two digits."""
    shown = dict(re.findall(r"^\| ([\w, ]+) \| ([\d.]+) \|", BACKGROUND.split("## Operations")[1], re.MULTILINE))
    *operations, elementwise = sequences.rows()
    assert elementwise.name == sequences.ELEMENTWISE
    assert f"activations: {elementwise.value:.0f} % of the computation on the critical path" in BACKGROUND
    for row in operations:
        assert shown[row.name] == (f"{row.value:.1f}" if row.value >= 1 else f"{row.value:.2g}"), row.name


def test_every_key_of_layers_stands_with_its_default():
    """Optional keys by the value that the model takes without them."""
    rows = re.findall(r"^\| `(\w+)` \| ([^|]+) \| [^|]+ \|$", MODELS.split("| key of `hstu` |")[1], re.MULTILINE)
    least = {"sequence": "history"} | dict.fromkeys(("layers", "width", "heads", "qk_width", "value_width"), 1)
    layers = Hstu.model_validate(least)
    used = {"recompute": layers.recomputes, "bias_stored": layers.stores_bias, "kernel": layers.attention_kernel}
    defaults = {key: str(used.get(key, "none")).lower() for key in Hstu.model_fields} | dict.fromkeys(least, "required")
    assert {key: default.strip("`") for key, default in rows} == defaults
