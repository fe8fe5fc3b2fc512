"""Exports the JSON Schemas of everything that leaves the library as JSON: ``make contracts``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from ace.agent import RunSnapshot
from ace.core import Event
from ace.evaluation.report import models as reports
from ace.graph import GraphEvent, ProposedChange, Review
from ace.playbook import Explanation, PlaybookBullet
from ace.playbook.delta import Delta
from ace.playbook.history import Diff, VerifyReport
from ace.playbook.results import BookStats
from ace.suites.check import SuiteCheckReport
from ace.tasks import TaskInput, TaskOutput

FOLDER = Path(__file__).resolve().parent
MODELS: dict[str, Any] = {
    "task-input": TaskInput,
    "task-output": TaskOutput,
    "event": Event,
    "run-snapshot": RunSnapshot,
    "graph-event": GraphEvent,
    "graph-proposed-change": ProposedChange,
    "graph-review": Review,
    "playbook-bullet": PlaybookBullet,
    "delta": Delta,
    "playbook-search": Explanation,
    "playbook-diff": Diff,
    "playbook-verify": VerifyReport,
    "playbook-stats": BookStats,
    "demo": reports.DemoReport,
    "evaluate": reports.EvaluateReport,
    "suite-check": SuiteCheckReport,
    "learn": reports.LearnReport,
    "optimize": reports.OptimizeReport,
}


def schemas() -> dict[str, str]:
    """Return file name to contents."""
    return {
        f"{name}.schema.json": json.dumps(
            TypeAdapter(model).json_schema(mode="serialization", by_alias=True), indent=1, sort_keys=True
        )
        + "\n"
        for name, model in MODELS.items()
    }


if __name__ == "__main__":
    for name, text in schemas().items():
        (FOLDER / name).write_text(text, encoding="utf-8")
        print(FOLDER / name)
