"""The browser for measurements of web pages."""

from __future__ import annotations

import shutil

from playwright.sync_api import Error, Page

NAMES = ("chromium", "chromium-browser", "google-chrome")


def chromium() -> str:
    """The path of the installed Chromium.

    Raises:
        SystemExit: None is installed.
    """
    for name in NAMES:
        if found := shutil.which(name):
            return found
    raise SystemExit("no Chromium is installed (Debian: apt-get install chromium)")


def reached(page: Page, address: str) -> None:
    """Open a page of a server that has just been started."""
    for _ in range(600):
        try:
            page.goto(address, timeout=60_000)
            return
        except Error:  # it does not listen yet
            page.wait_for_timeout(200)
    raise SystemExit(f"nothing answers at {address}")
