"""A pytest plugin: coverage.py records which test runs a line, ``-p coverage_contexts``."""

from __future__ import annotations

from typing import Any

import coverage


def pytest_runtest_protocol(item: Any) -> None:
    """Begin before the set-up of a test, fixtures included."""
    running = coverage.Coverage.current()
    if running is not None:
        running.switch_context(item.nodeid)


def pytest_sessionfinish() -> None:
    """End: what runs after the last test is none of its own."""
    running = coverage.Coverage.current()
    if running is not None:
        running.switch_context("")
