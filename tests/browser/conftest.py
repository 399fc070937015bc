"""A real Chromium for tests of pages.

The browser is the one named by DLRMSIM_CHROMIUM, else /usr/bin/chromium, else playwright's own.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import BrowserContext, sync_playwright

from tests.page_visits import chromium_path

FLAGS = [
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
]  # fmt: skip


@pytest.fixture(scope="session")
def context() -> Iterator[BrowserContext]:
    """A browser without a network."""
    with sync_playwright() as playwright:
        path = chromium_path(playwright.chromium.executable_path)
        browser = playwright.chromium.launch(executable_path=path, args=FLAGS)
        offline = browser.new_context(offline=True, viewport={"width": 1320, "height": 900})
        offline.route(lambda url: url.startswith("http"), lambda route: route.abort())
        yield offline
        browser.close()
