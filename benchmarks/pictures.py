"""Screenshots of reports in README, taken by a browser; each PNG file contains the text of its page for comparison.

The text chunk of the PNG (``tEXt``, https://www.w3.org/TR/png-3/#11tEXt) contains the head of the page: headline,
findings, key figures and facts. A picture whose text differs from the page's head is out of date.
"""

from __future__ import annotations

import html
import os
import re
import struct
import tempfile
import zlib
from collections.abc import Iterator
from pathlib import Path

from dlrmsim.pages.findings import run_findings
from inputs.errors import InputError
from reports.run_report import render_run
from scenarios.progress import Silent
from scenarios.resolve import load_scenario
from scenarios.runner import simulate

ROOT = Path(__file__).parents[1]
PICTURES = {ROOT / "docs" / "images" / "report.png": "zionex_a_128"}
"""Scenario of each picture."""
WIDTH, HEIGHT = 1400, 1290
KEYWORD = b"Description"
_SIGNATURE = b"\x89PNG\r\n\x1a\n"


def page_of(scenario: str) -> str:
    """The page of a scenario's run."""
    return render_run(run_findings(simulate(load_scenario(scenario), Silent())))


def head_of(page: str) -> str:
    """Text of a page above its sections."""
    found = re.search(r"<header.*?</header>", page, re.DOTALL)
    return " ".join(html.unescape(re.sub(r"<[^>]*>", " ", found[0] if found else "")).split())


def text_in(picture: Path) -> str:
    """Text in a picture; empty if it has none."""
    for kind, data in _chunks(picture.read_bytes()):
        keyword, _, words = data.partition(b"\0")
        if kind == b"tEXt" and keyword == KEYWORD:
            return words.decode("latin-1")
    return ""


def take(picture: Path, page: str) -> None:
    """Write the picture of a page's first screen.

    Raises:
        InputError: playwright finds no browser.
    """
    from playwright.sync_api import Error, sync_playwright

    own = os.environ.get("DLRMSIM_CHROMIUM") or ("/usr/bin/chromium" if Path("/usr/bin/chromium").exists() else None)
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        file = Path(folder) / "report.html"
        file.write_text(page, encoding="utf-8")
        try:
            browser = playwright.chromium.launch(executable_path=own, args=["--headless", "--no-sandbox"])
        except Error as error:
            raise InputError(
                f"no browser: {error.message}", file=picture, expected="make .venv/stamps/browser"
            ) from None
        opened = browser.new_page(viewport={"width": WIDTH, "height": HEIGHT})
        opened.goto(file.as_uri())
        opened.wait_for_selector("body[data-ready=yes]")
        content = opened.screenshot()
        browser.close()
    picture.write_bytes(with_text(content, head_of(page)))


def with_text(png: bytes, words: str) -> bytes:
    """A PNG with an added text chunk."""
    data = KEYWORD + b"\0" + words.encode("latin-1", "replace")
    chunk = struct.pack(">I", len(data)) + b"tEXt" + data + struct.pack(">I", zlib.crc32(b"tEXt" + data))
    end = png.rindex(b"IEND") - 4
    return png[:end] + chunk + png[end:]


def is_current(picture: Path, page: str) -> bool:
    """Whether a picture shows the head of a page."""
    return text_in(picture) == head_of(page).encode("latin-1", "replace").decode("latin-1")


def _chunks(png: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Kind and data of each chunk."""
    place = len(_SIGNATURE)
    while place < len(png):
        (length,) = struct.unpack(">I", png[place : place + 4])
        yield png[place + 4 : place + 8], png[place + 8 : place + 8 + length]
        place += 12 + length
