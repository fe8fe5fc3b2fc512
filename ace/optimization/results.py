"""A job's folder: which job it belongs to, its results, and a readable diff of the program."""
# pyright: basic, reportAttributeAccessIssue=false, reportArgumentType=false
# pyright: reportOptionalMemberAccess=false

from __future__ import annotations

import difflib
import inspect
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import dspy
from dspy.clients.backend_selection import CLIENT_KEYS
from pydantic import ValidationError

from ace.core import AceError, value_to_text
from ace.core.durable import digest
from ace.evaluation.report.models import OptimizeReport
from ace.optimization.workload import Workload
from ace.playbook import Playbook
from ace.react import ReActGenerator
from ace.react.tool_cards import descriptions
from ace.tools.changes import describe_tools

DIFF, SCORES, CONFIG, JOURNAL, LOG = "diff.md", "scores.json", "config.json", "journal.jsonl", "optimizer.log"
"""The files of a job's folder, besides those of the optimized program."""


def changes(before: ReActGenerator, after: ReActGenerator) -> tuple[str, dict[str, int]]:
    """What is different between two agents: as Markdown, and counted.

    Args:
        before: The agent that was optimized.
        after: The same with other instructions, demos, tool descriptions or bullets.
    """
    parts: list[str] = []
    counts: dict[str, int] = dict.fromkeys(("instructions", "tool_descriptions", "demos", "bullets"), 0)
    own = {name: p.signature.instructions for name, p in before.named_predictors() if not name.startswith("cards[")}
    for name, text in own.items():
        new = dict(after.named_predictors())[name]
        if new.signature.instructions != text:
            counts["instructions"] += 1
            parts.append(_section(f"Instructions of `{name}`", text, new.signature.instructions))
    old_descriptions = {tool.name: tool.description for tool in before.registry} | descriptions(before.cards)
    for name, text in descriptions(after.cards).items():
        if text != old_descriptions.get(name, ""):
            counts["tool_descriptions"] += 1
            parts.append(_section(f"Description of the tool `{name}`", old_descriptions.get(name, ""), text))
    for name in own:
        old, new = (dict(agent.named_predictors())[name].demos for agent in (before, after))
        if old != new:
            counts["demos"] += len(new)
            parts.append(f"## Demos of `{name}`: {len(old)} before, {len(new)} now\n\n" + "".join(map(_demo, new)))
    old, new = _bullets(before), _bullets(after)
    if old != new:
        counts["bullets"] = len(old.keys() ^ new.keys())
        text = "".join(
            f"{line}\n" for line in difflib.unified_diff(list(old), list(new), "before", "after", lineterm="", n=0)
        )
        parts.append(f"## Bullets of the playbook: {len(old)} before, {len(new)} now\n\n```diff\n{text}```\n")
    return "\n".join(parts) or "Nothing is different: the optimizer found nothing better.\n", counts


def _section(title: str, before: str, after: str) -> str:
    lines = difflib.unified_diff(before.splitlines(), after.splitlines(), "before", "after", lineterm="", n=0)
    return f"## {title}\n\n```diff\n" + "".join(f"{line}\n" for line in lines) + "```\n"


def _demo(demo: Any) -> str:
    shown = {name: value_to_text(demo[name], 200) for name in demo if name not in ("tools", "playbook", "augmented")}
    return "".join(f"* {name}: {' '.join(text.split())}\n" for name, text in shown.items()) + "\n"


def _bullets(agent: ReActGenerator) -> dict[str, None]:
    if not isinstance(agent.playbook, Playbook):
        return {}
    return {f"({b.section}) {b.trigger + ': ' if b.trigger else ''}{b.content}": None for b in agent.playbook.bullets}


def finished(folder: Path) -> OptimizeReport | None:
    """The report of a job that has ended; None while it has not.

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
    """The language model that an agent or its predictors were given."""
    return agent.lm or agent.agent.react.lm


def digests_of(workload: Workload, lm: dspy.LM, reflection_lm: dspy.LM | None) -> dict[str, str]:
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
    except (OSError, TypeError):  # a partial, a built-in, something defined at run time: its name must do
        return str(getattr(func, "__qualname__", type(func).__qualname__))
