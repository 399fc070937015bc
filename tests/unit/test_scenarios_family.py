"""Kinds of workload are known to their families alone."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from scenarios.family import FAMILIES, default_of
from scenarios.types import DEFAULT_KIND, Scenario, Section

ROOT = Path(__file__).parents[2]
ROOMS = (
    "dlrmsim",
    "reports",
    "validation",
    "scenarios",
    "traces",
    "workloads",
    "simulator",
    "hardware_specs",
    "inputs",
)
OWN = tuple(f"{room}/{kind}/" for room in ("scenarios", "workloads", "reports") for kind in FAMILIES.names())
WRITERS = (
    "dlrmsim/cli/capture", "dlrmsim/verbs/capture.py", "dlrmsim/verbs/export.py", "dlrmsim/output/captured",
    "trainer/capture/", "trainer/examples/",
)  # fmt: skip
"""Files of the command that writes captured jobs."""
NAMES = re.compile(rf"\b({'|'.join(FAMILIES.names())})s?\b", re.IGNORECASE)
"""Kinds of workload as words, one or several of them."""
OF_A_FAMILY = re.compile(rf"scenarios\.({'|'.join(FAMILIES.names())})\.(family|section)")
PACKAGE = re.compile(r"(scenarios|workloads)\.\w+(\.\w+)*(:\w+)?")
"""Names of packages, with a class or alone, by which the registry of families and formats of files are found."""
DEFAULTS = "scenarios/types.py"
"""The file that names the kind of scenarios that name none."""


def docstrings(tree: ast.AST) -> set[int]:
    """Identities of the nodes that are docstrings, of constants too."""
    bodies = [node.body for node in ast.walk(tree) if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef)]
    return {id(line.value) for body in bodies for line in body if isinstance(line, ast.Expr)}


def named_kinds(file: Path) -> Iterator[str]:
    """Texts in code that name a kind of workload, and imports of a family's scenario, by which code asks for it."""
    tree = ast.parse(file.read_text(encoding="utf-8"))
    left_out = docstrings(tree)
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in left_out:
            if NAMES.search(node.value) and not PACKAGE.fullmatch(node.value):
                yield node.value
        elif isinstance(node, ast.ImportFrom) and OF_A_FAMILY.fullmatch(node.module or ""):
            yield str(node.module)


def test_no_code_outside_a_family_names_a_kind() -> None:
    files = [file for room in ROOMS for file in (ROOT / room).rglob("*.py")]
    found = {str(file.relative_to(ROOT)): [*named_kinds(file)] for file in files}
    others = {name: kinds for name, kinds in found.items() if kinds and not name.startswith(OWN + WRITERS)}
    own = {name for name, kinds in found.items() if kinds and name.startswith(OWN)}
    assert len(files) > 200
    assert {f"scenarios/{kind}/family.py" for kind in FAMILIES.names()} <= own, "the search finds what it looks for"
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
