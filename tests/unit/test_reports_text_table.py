"""Tables of the command line: nothing is lost at any width, nothing is read as markup."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from io import StringIO
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from dlrmsim.cli.printing import text_console
from reports.text_table import GAP, LONGEST_WORD, TextTable

ROOT = Path(__file__).parents[2]
ROOMS = ("dlrmsim", "reports", "validation", "scenarios")
WORD = st.text("abc[]:/_.%7", min_size=1, max_size=12)
CELL = st.lists(WORD, max_size=5).map(" ".join)


@st.composite
def tables(draw: st.DrawFn) -> TextTable:
    made = TextTable(indent=draw(st.integers(0, 2))).words(draw(WORD))
    for number in draw(st.lists(st.booleans(), max_size=7)):
        (made.numbers if number else made.words)(draw(WORD))
    for _ in range(draw(st.integers(0, 4))):
        made.add_row(*(draw(CELL if column.words else WORD) for column in made.columns))
    return made


@given(tables(), st.integers(30, 200))
def test_every_word_of_every_column_is_there_at_any_width(made: TextTable, width: int) -> None:
    """Headers and cells are whole words of the output, however narrow; lines keep to the width and end in no blank."""
    text = made.text(width)
    shown = text.split()
    for column in made.columns:
        assert column.name in shown
    for cells, _ in made.rows:
        for cell in cells:
            assert all(word in shown for word in cell.split())
    assert "\N{HORIZONTAL ELLIPSIS}" not in text
    for line in text.splitlines():
        assert len(line) <= width
        assert line == line.rstrip()


@given(tables())
def test_a_wide_table_has_a_line_for_each_row(made: TextTable) -> None:
    assert len(made.text(1000).split("\n")) == 1 + len(made.rows)


def test_a_word_that_no_terminal_holds_is_folded_and_none_of_it_lost() -> None:
    made = TextTable(header=False).words("").words("")
    made.add_row("path", "x" * (LONGEST_WORD + 60))
    assert made.text(60).count("x") == LONGEST_WORD + 60


def test_columns_that_do_not_fit_follow_in_blocks_that_begin_with_the_first() -> None:
    made = TextTable().numbers("rank", *(f"column_{n}" for n in range(8)))
    made.add_row("17", *(f"{n}.25" for n in range(8)))
    blocks = made.text(8 + 4 * (8 + GAP)).split("\n\n")
    assert len(blocks) > 1
    assert all(block.split("\n")[0].split()[0] == "rank" for block in blocks if block.strip())


def test_more_cells_than_columns_are_refused() -> None:
    with pytest.raises(ValueError, match="2 cells in 1 columns"):
        TextTable().words("one").add_row("a", "b")


def test_consoles_print_brackets_and_colons_as_they_are(capsys: pytest.CaptureFixture[str]) -> None:
    words = "--set compute_kernels=[fused,key_value] [bold]x[/bold] :warning: [link"
    made = TextTable(title=words).words("")
    made.add_row(words)
    console = text_console()
    console.print(words)
    console.print(made)
    assert capsys.readouterr().out.count(words) == 3


def test_a_styled_table_prints_the_same_text(capsys: pytest.CaptureFixture[str]) -> None:
    made = TextTable(title="t").words("a", style="cyan").numbers("b")
    made.add_row("[x]", "1", style="yellow")
    console = Console(file=StringIO(), force_terminal=True, color_system=None, width=80, markup=False)
    console.print(made)
    assert console.file.getvalue() == made.text(80) + "\n"  # type: ignore[attr-defined]


def calls(name: str) -> Iterator[tuple[str, ast.Call]]:
    """Calls of a name, or of an attribute with that name, in the rooms that print."""
    for file in (path for room in ROOMS for path in sorted((ROOT / room).rglob("*.py"))):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and ast.unparse(node.func).rpartition(".")[2] == name:
                yield f"{file.relative_to(ROOT)}:{node.lineno}", node


def test_no_source_lets_rich_read_text_as_markup() -> None:
    """Every console and progress column is made without markup, and tables of rich, which pad and cut, are not used."""
    made = [entry for entry in calls("__init__") if "plain_console" in entry[0]]
    assert len(made) == 1
    assert len(list(calls("PlainConsole"))) >= 2
    for place, call in [*made, *calls("Console"), *calls("TextColumn")]:
        options = {keyword.arg: ast.unparse(keyword.value) for keyword in call.keywords}
        assert options.get("markup") == "False", f"{place}: a console reads markup unless markup=False"
        if ast.unparse(call.func) != "TextColumn":
            assert options.get("emoji") == "False", f"{place}: a console reads :names: unless emoji=False"
    assert [place for place, _ in calls("from_markup")] == []
    for file in (path for room in ROOMS for path in sorted((ROOT / room).rglob("*.py"))):
        assert "rich.table" not in file.read_text(encoding="utf-8"), f"{file}: print with reports.text_table"
