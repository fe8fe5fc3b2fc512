"""Task suites: what one is, the registry that loads them, suites from files, and the office demo."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ace.suites.check import check_suite
    from ace.suites.examples import ExamplesSuite
    from ace.suites.files import FileSuite
    from ace.suites.protocol import GoldCall, GoldenSuite, Suite, SuiteTask
    from ace.suites.registry import load_suite
    from ace.suites.splits import halves, split

_HOME_OF = {
    "ExamplesSuite": "ace.suites.examples",
    "FileSuite": "ace.suites.files",
    "GoldCall": "ace.suites.protocol",
    "GoldenSuite": "ace.suites.protocol",
    "Suite": "ace.suites.protocol",
    "SuiteTask": "ace.suites.protocol",
    "check_suite": "ace.suites.check",
    "halves": "ace.suites.splits",
    "load_suite": "ace.suites.registry",
    "split": "ace.suites.splits",
}

__all__ = [
    "ExamplesSuite",
    "FileSuite",
    "GoldCall",
    "GoldenSuite",
    "Suite",
    "SuiteTask",
    "check_suite",
    "halves",
    "load_suite",
    "split",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME_OF:
        raise AttributeError(f"module 'ace.suites' has no attribute {name!r}")
    return getattr(import_module(_HOME_OF[name]), name)
