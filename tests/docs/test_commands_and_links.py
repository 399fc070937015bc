"""Commands in README and docs are real ones, their links lead somewhere, and every page can be found."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
import typer

from benchmarks.__main__ import BENCHMARKS
from dlrmsim.cli import application
from inputs.quantities import parse_range

ROOT = Path(__file__).parents[2]
DECISIONS = ROOT / "docs" / "decisions"
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]


def commands(page: Path) -> Iterator[str]:
    """Every ``dlrmsim ...`` and ``python -m benchmarks ...`` in a code block or in backticks."""
    text = page.read_text(encoding="utf-8")
    blocks = re.findall(r"```\w*\n(.*?)```", text, re.DOTALL)
    lines = [line for block in blocks for line in block.replace("\\\n", " ").splitlines()]
    inline = re.findall(r"`([^`\n]+)`", re.sub(r"```.*?```", "", text, flags=re.DOTALL))
    for line in [*lines, *inline]:
        for part in line.split("#")[0].split(";"):
            if re.match(r"(dlrmsim|python -m (benchmarks|dlrmsim)) \S", part.strip()):
                yield part.strip()


ALL = [pytest.param(c, id=f"{p.name}: {c}"[:80]) for p in PAGES for c in dict.fromkeys(commands(p))]


def test_there_are_commands_to_check() -> None:
    assert len(ALL) > 20
    assert parse_range("1KiB..1GiB") == (1024, 2**30)


def test_benchmarks_are_listed_without_pytorch() -> None:
    """Names need no package beyond those of ``make demo``; modules are imported when they run."""
    listed = "import sys, benchmarks.__main__; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", listed], cwd=ROOT, check=False).returncode == 0


@pytest.mark.parametrize("command", ALL)
def test_command_parses(command: str) -> None:
    words = shlex.split(command)
    if words[:3] == ["python", "-m", "benchmarks"]:
        assert words[3] in BENCHMARKS
        return
    arguments = words[1:] if words[0] == "dlrmsim" else words[3:]
    group = typer.main.get_command(application())
    assert isinstance(group, click.Group) or hasattr(group, "commands")
    subcommand = group.commands[arguments[0]]
    if len(arguments) > 1 or arguments[0] in {"list", "init"}:
        subcommand.make_context(arguments[0], list(arguments[1:]))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    text = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    targets = [t.split("#")[0] for t in re.findall(r"\]\(([^)\s]+)\)", text) if not t.startswith(("http", "#"))]
    assert [t for t in targets if not (page.parent / t).exists()] == []


def test_files_that_pages_name_exist() -> None:
    path = re.compile(
        r"`((?:simulator|workloads|scenarios|tests|reports|validation|hardware_specs|inputs|traces)/[\w./-]+)`"
    )
    named = {(page.name, found) for page in PAGES for found in path.findall(page.read_text(encoding="utf-8"))}
    assert [entry for entry in sorted(named) if not (ROOT / entry[1]).exists()] == []


def test_every_page_but_single_records_is_in_the_navigation() -> None:
    navigation = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    assert [page for page in pages_of_docs() if f": {page}\n" not in navigation] == []


def test_every_page_but_single_records_is_in_the_index() -> None:
    index = (ROOT / "docs" / "index.md").read_text(encoding="utf-8")
    assert [page for page in pages_of_docs() if page != "index.md" and f"]({page}" not in index] == []


MOST_DECISIONS = 35
"""Files in `docs/decisions`: choices that a reader would question, merged where one explains another."""
RECORD = re.compile(
    r"# (?P<number>\d{3}): (?P<title>.+)\n\n"
    r"Status: (?P<status>accepted|replaced by \[\d{3}\]\(\d{3}-[\w-]+\.md\))\n"
    r"(Replaces: (?P<replaces>\d{3}(, \d{3})*)\n)?\n"
)


def line_of(record: Path) -> str:
    """Line of the list of decisions for a record."""
    head = RECORD.match(record.read_text(encoding="utf-8"))
    assert head, f"{record.name}: title, Status and Replaces are not as in the other records"
    assert record.name.startswith(head["number"])
    replaces = f"; replaces {head['replaces']}" if head["replaces"] else ""
    return f"- [{head['number']}]({record.name}) {head['title']} ({head['status']}{replaces})"


def test_the_list_of_decisions_has_every_record_with_its_title_status_and_numbers() -> None:
    index = (DECISIONS / "README.md").read_text(encoding="utf-8").splitlines()
    records = sorted(DECISIONS.glob("[0-9]*.md"))
    assert sorted(line for line in index if line.startswith("- [")) == [line_of(record) for record in records]


def test_decisions_are_few() -> None:
    assert len(list(DECISIONS.glob("*.md"))) <= MOST_DECISIONS


def pages_of_docs() -> list[str]:
    """Pages of docs/ but single decision records, relative to it."""
    pages = [page.relative_to(ROOT / "docs") for page in sorted((ROOT / "docs").rglob("*.md"))]
    return [str(page) for page in pages if page.parent.name != "decisions" or page.name == "README.md"]
