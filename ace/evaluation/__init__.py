"""`Study`: what is compared, the runner, honest intervals and the report."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ace.evaluation.arms import ARMS
    from ace.evaluation.models import ModelChoice, ModelSource
    from ace.evaluation.runner import Caps, evaluate
    from ace.evaluation.study import Study, StudyConfig, StudyObserver

_HOME_OF = {
    "ARMS": "ace.evaluation.arms",
    "Caps": "ace.evaluation.runner",
    "ModelChoice": "ace.evaluation.models",
    "ModelSource": "ace.evaluation.models",
    "Study": "ace.evaluation.study",
    "StudyConfig": "ace.evaluation.study",
    "StudyObserver": "ace.evaluation.study",
    "evaluate": "ace.evaluation.runner",
}

__all__ = [
    "ARMS",
    "Caps",
    "ModelChoice",
    "ModelSource",
    "Study",
    "StudyConfig",
    "StudyObserver",
    "evaluate",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME_OF:
        raise AttributeError(f"module 'ace.evaluation' has no attribute {name!r}")
    return getattr(import_module(_HOME_OF[name]), name)
