"""The browser for measurements of web pages."""

from __future__ import annotations

import shutil

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
