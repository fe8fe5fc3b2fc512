"""Fixtures of the project's own tests."""

from conftest import _no_trace, embedder, workbench

__all__ = ["_no_trace", "embedder", "workbench"]
