"""The browser for measurements of web pages."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from playwright.sync_api import Error, Page

NAMES = ("chromium", "chromium-browser", "google-chrome")


def chromium() -> str:
    """Return the path of the installed Chromium.

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


@contextmanager
def served(book: Path) -> Iterator[str]:
    """Serve a playbook on loopback for as long as the block runs; gives the address that shows the token."""
    command = [sys.executable, "-m", "ace", "serve", str(book), "--port", "0", "--no-browser"]
    environment = {**os.environ, "COLUMNS": "200"}
    server = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment)
    try:
        assert server.stdout is not None
        address = re.search(r"http\S+", server.stdout.readline())
        assert address is not None
        yield address[0]
    finally:
        server.terminate()
        server.wait()
