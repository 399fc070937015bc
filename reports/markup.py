"""Small pieces of HTML: everything that comes from data is escaped here, once."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape, unescape
from typing import Any, TypeAlias


@dataclass(frozen=True, slots=True)
class Markup:
    """Text that is HTML already; plain ``str`` is escaped wherever it is put into a page."""

    html: str

    def text(self) -> str:
        """The words without tags, for terminals."""
        return unescape(re.sub("<.*?>", "", self.html))


@dataclass(frozen=True, slots=True)
class Cell:
    """A table cell: shown text, key to sort by, and CSS classes; ``share`` in percent draws a bar under it."""

    shown: str | Markup
    value: float | str | None = None
    style: str = ""
    share: float | None = None


@dataclass(frozen=True, slots=True)
class TableRow:
    """A table row; ``jump`` is (rank, from, to in ns) to show in the timeline on a click."""

    cells: tuple[Cell | str, ...]
    jump: tuple[int, int, int] | None = None
    style: str = ""


@dataclass(frozen=True, slots=True)
class PageSection:
    """A section of a page.

    Attributes:
        anchor: id of the section, used in links.
        title: its heading.
        short: its name in the contents.
        lede: one sentence on its content or how to read it.
        body: HTML.
        payload: data for the page's scripts, by name.
    """

    anchor: str
    title: str
    short: str
    lede: str | Markup
    body: str
    payload: Mapping[str, Any] = field(default_factory=dict)

    def html(self) -> str:
        """The section as HTML."""
        title, lede = escape(self.title), text(self.lede)
        return f'<section id="{self.anchor}"><h2>{title}</h2><p class="lede">{lede}</p>{self.body}</section>'


Content: TypeAlias = str | Markup


def text(content: Content) -> str:
    """HTML of ``content``: escaped unless it is markup."""
    return content.html if isinstance(content, Markup) else escape(content)


def strong(template: str, *values: str) -> Markup:
    """``template`` with each ``{}`` replaced by a value in bold; all of it escaped."""
    pieces = template.split("{}")
    bold = [f"<b>{escape(value)}</b>" for value in values]
    return Markup("".join(escape(piece) + value for piece, value in zip(pieces, [*bold, ""], strict=True)))


def options_marked(words: str) -> Markup:
    """Text in which each ``--set KEY=VALUE`` is code on one line; all of it escaped."""
    code = r'<code style="white-space: nowrap">\g<0></code>'
    return Markup(re.sub(r"--set \S*\w\]?", code, escape(words)))


def number(shown: str, value: float, *, share: float | None = None) -> Cell:
    """A right-aligned cell that sorts by ``value``."""
    return Cell(shown, value, "number", share)


def table(head: Sequence[str], rows: Iterable[TableRow], *, numbers: Sequence[int] = (), anchor: str = "") -> str:
    """A sortable table in a scrolling frame; ``numbers`` are the right-aligned columns."""
    titles = "".join(f"<th{_class('number' if i in numbers else '')}>{escape(t)}</th>" for i, t in enumerate(head))
    body = "".join(_row(row) for row in rows)
    name = f' id="{anchor}"' if anchor else ""
    rows_html = f"<thead><tr>{titles}</tr></thead><tbody>{body}</tbody>"
    return f'<div class="scroll"><table class="sortable"{name}>{rows_html}</table></div>'


def _row(row: TableRow) -> str:
    jump = f' data-jump="{row.jump[0]} {row.jump[1]} {row.jump[2]}"' if row.jump else ""
    cells = "".join(_cell(c if isinstance(c, Cell) else Cell(c)) for c in row.cells)
    return f"<tr{_class(row.style)}{jump}>{cells}</tr>"


def _cell(cell: Cell) -> str:
    value = "" if cell.value is None else f' data-value="{escape(str(cell.value))}"'
    style, bar = cell.style, ""
    if cell.share is not None:
        style, bar = f"{style} share".strip(), f' style="--share:{cell.share:.1f}"'
    return f"<td{_class(style)}{value}{bar}>{text(cell.shown)}</td>"


def _class(names: str) -> str:
    return f' class="{names}"' if names else ""


def terms(pairs: Iterable[tuple[str, str]]) -> str:
    """A list of terms with their values, for `<dl>`."""
    return "".join(f"<div><dt>{escape(name)}</dt><dd>{escape(value)}</dd></div>" for name, value in pairs)


def tile(label: str, value: str, unit: str, note: str) -> str:
    """A headline figure."""
    return (
        f'<div class="tile"><dt>{escape(label)}</dt><dd>{escape(value)} <small>{escape(unit)}</small></dd>'
        f"<p>{escape(note)}</p></div>"
    )
