"""Pages open in a browser, with everything they complain about."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from playwright.sync_api import Page

CANVAS = "#timeline-canvas"


def chromium_path(own: str) -> str:
    """The first browser there is."""
    candidates = (os.environ.get("DLRMSIM_CHROMIUM", ""), "/usr/bin/chromium", own)
    found = next((path for path in candidates if path and Path(path).exists()), None)
    if found is None:
        pytest.skip("no Chromium: set DLRMSIM_CHROMIUM, install chromium, or run `playwright install chromium`")
    return found


class Visit:
    """A page open in the browser, with everything it complained about or asked the network for."""

    def __init__(self, page: Page) -> None:
        self.page, self.complaints, self.requests = page, [], []
        page.on("console", lambda m: self.complaints.append(m.text) if m.type in ("error", "warning") else None)
        page.on("pageerror", lambda error: self.complaints.append(str(error)))
        page.on("request", lambda r: self.requests.append(r.url) if r.url.startswith(("http", "ws")) else None)

    def open(self, file: Path) -> None:
        self.page.goto(file.as_uri())
        self.page.wait_for_selector("body[data-ready=yes]", timeout=30_000)

    def shown(self) -> list[str]:
        """Ranks the timeline draws."""
        return (self.page.get_attribute(CANVAS, "data-ranks") or "").split(",")

    def number(self, name: str) -> float:
        return float(self.page.get_attribute(CANVAS, f"data-{name}") or "nan")

    def pixels(self) -> str:
        return self.page.eval_on_selector(CANVAS, "canvas => canvas.toDataURL()")
