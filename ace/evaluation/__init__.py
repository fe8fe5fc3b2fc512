"""Task suites, the runner that compares arms on them, and honest intervals."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ace.evaluation.arms import ARMS, arm_source
    from ace.evaluation.retrieval_bench import bench_retrieval
    from ace.evaluation.runner import evaluate
    from ace.evaluation.splits import halves, split
    from ace.evaluation.suite import GoldCall, Suite, SuiteTask, load_suite

_HOME_OF = {
    "ARMS": "ace.evaluation.arms",
    "GoldCall": "ace.evaluation.suite",
    "Suite": "ace.evaluation.suite",
    "SuiteTask": "ace.evaluation.suite",
    "arm_source": "ace.evaluation.arms",
    "bench_retrieval": "ace.evaluation.retrieval_bench",
    "evaluate": "ace.evaluation.runner",
    "halves": "ace.evaluation.splits",
    "split": "ace.evaluation.splits",
    "load_suite": "ace.evaluation.suite",
}

__all__ = [
    "ARMS",
    "GoldCall",
    "Suite",
    "SuiteTask",
    "arm_source",
    "bench_retrieval",
    "evaluate",
    "halves",
    "load_suite",
    "split",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME_OF:
        raise AttributeError(f"module 'ace.evaluation' has no attribute {name!r}")
    return getattr(import_module(_HOME_OF[name]), name)
