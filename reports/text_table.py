"""Tables of the command line: plain text that keeps every column and every digit whole at any width.

A table that is too wide wraps its columns of words; where that is not enough it goes on in blocks, each with the first
column again. No line ends with blanks, and no text of a cell is read as markup.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest
from textwrap import wrap
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:  # rich is imported by the command that prints
    from rich.console import Console, ConsoleOptions
    from rich.text import Text

GAP = 2
"""Blanks between two columns."""

LONGEST_WORD = 40
"""Characters of a word that a column of words keeps on one line."""

Piece: TypeAlias = tuple[str, str]
"""Text and its style in rich's syntax; no style is ``""``."""


@dataclass(frozen=True, slots=True)
class Column:
    """A column.

    Attributes:
        name: its header.
        words: whether it is left-aligned and may wrap; columns of numbers are right-aligned and never do.
        style: style of its cells in rich's syntax.
    """

    name: str
    words: bool
    style: str = ""


@dataclass(slots=True)
class TextTable:
    """A table that rich prints.

    Attributes:
        title: line above; empty: none.
        caption: line below; empty: none.
        header: whether names of columns are printed.
        indent: blanks before each line.
        rows: cells of each row, and the row's style.
    """

    title: str = ""
    caption: str = ""
    header: bool = True
    indent: int = 0
    columns: list[Column] = field(default_factory=list)
    rows: list[tuple[tuple[str, ...], str]] = field(default_factory=list)

    def words(self, *names: str, style: str = "") -> TextTable:
        """Add columns of words; returns the table."""
        self.columns += [Column(name, True, style) for name in names]
        return self

    def numbers(self, *names: str, style: str = "") -> TextTable:
        """Add columns of numbers; returns the table."""
        self.columns += [Column(name, False, style) for name in names]
        return self

    def add_row(self, *cells: str, style: str = "") -> None:
        """Add a row; missing cells are empty.

        Raises:
            ValueError: more cells than columns.
        """
        if len(cells) > len(self.columns):
            raise ValueError(f"{len(cells)} cells in {len(self.columns)} columns")
        self.rows.append(((*cells, *[""] * (len(self.columns) - len(cells))), style))

    def lines(self, width: int) -> Iterator[list[Piece]]:
        """Lines of at most ``width`` characters where words are short enough for it, as pieces."""
        yield from ([(part, "bold")] for part in wrap(self.title, width))
        blocks = self._blocks(width)
        for block in blocks:
            yield from self._block(block, self._widths(block, width))
            if len(blocks) > 1:
                yield []
        yield from ([(part, "")] for part in wrap(self.caption, width))

    def text(self, width: int) -> str:
        """The lines without styles."""
        return "\n".join("".join(piece for piece, _ in line).rstrip() for line in self.lines(width))

    def _cells(self, column: int) -> Iterator[str]:
        if self.header:
            yield self.columns[column].name
        yield from (cells[column] for cells, _ in self.rows)

    def _natural(self, column: int) -> int:
        return max((len(cell) for cell in self._cells(column)), default=0)

    def _least(self, column: int) -> int:
        """Width below which numbers or words are cut."""
        if not self.columns[column].words:
            return self._natural(column)
        words = (len(word) for cell in self._cells(column) for word in cell.split())
        return min(max(words, default=0), LONGEST_WORD)

    def _blocks(self, width: int) -> list[list[int]]:
        """Columns of each block; every block begins with the first column."""
        blocks, room = [[0]], width - self.indent - self._least(0)
        for column in range(1, len(self.columns)):
            needed = GAP + self._least(column)
            if needed > room and len(blocks[-1]) > 1:
                blocks.append([0])
                room = width - self.indent - self._least(0)
            blocks[-1].append(column)
            room -= needed
        return blocks

    def _widths(self, block: Sequence[int], width: int) -> list[int]:
        """Widths of the columns of a block; spare width goes to columns of words, the narrowest first."""
        widths = {column: self._least(column) for column in block}
        room = width - self.indent - GAP * (len(block) - 1) - sum(widths.values())
        wanting = sorted(block, key=lambda column: self._natural(column) - widths[column])
        for place, column in enumerate(wanting):
            more = min(max(room, 0) // (len(wanting) - place), self._natural(column) - widths[column])
            widths[column] += more
            room -= more
        return [widths[column] for column in block]

    def _block(self, block: Sequence[int], widths: Sequence[int]) -> Iterator[list[Piece]]:
        if self.header:
            heads = [Column(self.columns[c].name, self.columns[c].words, "bold") for c in block]
            yield from self._row(heads, [head.name for head in heads], widths, "")
        for cells, style in self.rows:
            yield from self._row([self.columns[c] for c in block], [cells[c] for c in block], widths, style)

    def _row(
        self, columns: Sequence[Column], cells: Sequence[str], widths: Sequence[int], style: str
    ) -> Iterator[list[Piece]]:
        wrapped = [
            wrap(cell, max(width, 1), break_on_hyphens=False) or [""] if len(cell) > width or "\n" in cell else [cell]
            for cell, width in zip(cells, widths, strict=True)
        ]
        for parts in zip_longest(*wrapped, fillvalue=""):
            last = max((place for place, part in enumerate(parts) if part), default=-1)
            pieces: list[Piece] = [(" " * self.indent, "")] if self.indent and last >= 0 else []
            for place, (column, part, width) in enumerate(zip(columns, parts, widths, strict=True)):
                if place > last:
                    break
                before = " " * (0 if column.words else width - len(part))
                after = " " * (width - len(part) + GAP if column.words else GAP) if place < last else ""
                pieces += [(before, ""), (part, style or column.style), (after, "")]
            yield pieces

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Text]:
        """Lines for rich without wrapping or padding."""
        from rich.text import Text

        for line in self.lines(options.max_width):
            yield Text.assemble(*line, no_wrap=True, overflow="ignore")
