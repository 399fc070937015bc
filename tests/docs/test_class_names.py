"""A public class has a name of its own: a reader who searches for it finds one definition."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path

ROOT = Path(__file__).parents[2]
NO_ROOMS = {"docs", "tests"}
"""Folders without code of their own."""
EXAMPLES = "examples"
"""Folder of programs as users write them; each file stands alone."""


def places_of_classes(files: Iterable[tuple[str, str]]) -> Mapping[str, list[str]]:
    """Files that define each public class, from (path, source) of files."""
    places: defaultdict[str, list[str]] = defaultdict(list)
    for path, source in files:
        for node in ast.parse(source).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places[node.name].append(path)
    return places


def shared_names(files: Iterable[tuple[str, str]]) -> dict[str, list[str]]:
    return {name: found for name, found in sorted(places_of_classes(files).items()) if len(found) > 1}


def source_files() -> list[tuple[str, str]]:
    rooms = [room for room in ROOT.iterdir() if room.is_dir() and room.name[0] != "." and room.name not in NO_ROOMS]
    files = [file for room in rooms for file in sorted(room.rglob("*.py")) if file.parent.name != EXAMPLES]
    return [(str(file.relative_to(ROOT)), file.read_text(encoding="utf-8")) for file in files]


def test_no_two_public_classes_share_a_name():
    files = source_files()
    assert {path.split("/")[0] for path, _ in files} >= {"dlrmsim", "simulator", "trainer", "workloads", "benchmarks"}
    assert shared_names(files) == {}


def test_a_second_class_of_a_name_is_found():
    files = [("a.py", "class Job: ...\nclass _Step: ..."), ("b.py", "class Job(int): ...\nclass _Step: ...")]
    assert shared_names(files) == {"Job": ["a.py", "b.py"]}
