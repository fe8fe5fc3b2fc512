"""A job's folder: which job it belongs to, its results, and a readable diff of the program."""
# pyright: basic, reportAttributeAccessIssue=false, reportArgumentType=false
# pyright: reportOptionalMemberAccess=false

from __future__ import annotations

import difflib
from typing import Any

from ace.core import value_to_text
from ace.playbook import Playbook
from ace.react import ReActGenerator
from ace.react.tool_cards import descriptions

DIFF, SCORES, CONFIG, REPLIES, LOG = "diff.md", "scores.json", "config.json", "replies", "optimizer.log"
"""The files of a job's folder, besides those of the optimized program."""


def changes(before: ReActGenerator, after: ReActGenerator) -> tuple[str, dict[str, int]]:
    """Say what is different between two agents: as Markdown, and counted.

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
