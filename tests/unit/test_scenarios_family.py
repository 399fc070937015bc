"""Kinds of workload are known to their families alone."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from scenarios.family import FAMILIES, default_of
from scenarios.types import DEFAULT_KIND, Scenario, Section

ROOT = Path(__file__).parents[2]
ROOMS = ("dlrmsim", "reports", "validation", "scenarios", "traces", "workloads/graph", "simulator")
OWN = ("scenarios/dlrm/", "scenarios/dlrm_ps/", "scenarios/convnet/", "scenarios/transformer/", "reports/dlrm/")
DEFAULTS = "scenarios/types.py"
"""The file that names the kind of scenarios that name none."""


def named_kinds(file: Path) -> Iterator[str]:
    """Kinds of workload that code names, docstrings apart."""
    kinds = {*FAMILIES.names(), "dlrm", "convnet"}
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Constant) and node.value in kinds:
            yield node.value


def test_no_code_outside_a_family_names_a_kind() -> None:
    files = [file for room in ROOMS for file in (ROOT / room).rglob("*.py")]
    found = {str(file.relative_to(ROOT)): [*named_kinds(file)] for file in files}
    others = {name: kinds for name, kinds in found.items() if kinds and not name.startswith(OWN)}
    assert len(files) > 200
    assert others == {DEFAULTS: [DEFAULT_KIND]}


@pytest.mark.parametrize("kind", FAMILIES.names())
def test_a_family_has_its_kind_in_its_section(kind: str) -> None:
    """Only the default kind may be left out of a file: its section alone fits one without a kind."""
    family = FAMILIES.get(kind)
    section = family.scenario.model_fields["workload"].annotation
    assert family.kind == kind
    assert issubclass(family.scenario, Scenario)
    assert issubclass(section, Section)
    assert section.model_fields["kind"].is_required() is (kind != DEFAULT_KIND)
    assert isinstance(default_of(family, "framework"), str)
