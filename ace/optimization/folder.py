"""A job's folder: which job it belongs to, and what it found."""
# pyright: basic, reportAttributeAccessIssue=false, reportArgumentType=false

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import dspy
from dspy.clients.backend_selection import CLIENT_KEYS
from pydantic import ValidationError

from ace.core import AceError, value_to_text
from ace.core.folders import digest
from ace.evaluation.reports import OptimizeReport
from ace.generator import ReActGenerator
from ace.optimization.results import SCORES
from ace.optimization.workload import Workload
from ace.playbook import Playbook
from ace.tools.changes import describe_tools


def finished(folder: Path) -> OptimizeReport | None:
    """What a job found that has ended.

    Raises:
        AceError: The file is damaged.
    """
    path = folder / SCORES
    if not path.exists():
        return None
    try:
        return OptimizeReport.model_validate_json(path.read_text(encoding="utf-8"))
    except (ValidationError, UnicodeDecodeError) as error:
        raise AceError(
            f"{str(path)!r} is damaged; delete it and run the job again: its requests are in the journal"
        ) from error


def own_lm(agent: ReActGenerator) -> Any:
    """The model that an agent or its predictors were given."""
    return agent.lm or agent.agent.react.lm


def parts_of(workload: Workload, lm: dspy.LM, reflection_lm: dspy.LM | None) -> dict[str, str]:
    """Digests of everything that decides what a job asks and how it is scored."""
    agent = workload.program.agent
    book = agent.playbook
    examples = [
        [value_to_text(dict(e)) for e in some] for some in (workload.trainset, workload.valset, workload.testset)
    ]
    return {
        "program": digest([agent.dump_state(), agent.signature.dump_state(), agent.max_iters, agent.tool_calling]),
        "policy": digest([getattr(agent.policy, "name", ""), type(agent.policy).__name__, agent.limits.model_dump()]),
        "tools": digest(describe_tools(agent.registry)),
        "code of the tools": digest([_source(tool.func) for tool in agent.registry] if workload.metric else ""),
        "metric": digest(_source(workload.metric) if workload.metric else ""),
        "playbook": digest([b.model_dump(mode="json") for b in book.bullets] if isinstance(book, Playbook) else ""),
        "examples": digest(examples),
        "language model": digest(_settings([lm])),
        "reflection model": digest(_settings([reflection_lm] if reflection_lm else [])),
    }


def _settings(models: Sequence[Any]) -> list[Any]:
    """Names and options, without what concerns the connection."""
    return [[lm.model, {k: str(v) for k, v in lm.kwargs.items() if k not in CLIENT_KEYS}] for lm in models]


def _source(func: Callable[..., Any]) -> str:
    try:
        return inspect.getsource(func)
    except (OSError, TypeError):  # a partial, a built-in, something made while running: its name has to do
        return str(getattr(func, "__qualname__", type(func).__qualname__))
