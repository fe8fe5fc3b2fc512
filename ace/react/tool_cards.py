"""Tool cards: what a program says of each tool, as predictors that optimizers may rewrite and that never ask a model.

An optimizer sees one component per tool. Its instructions are the tool's description in the catalog, and each call of the
tool is an example for it. Names and arguments stay the tool's own, so that no optimizer can lose them.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable, Mapping
from typing import Any, cast

import dspy

from ace.agent.history import CALLS
from ace.tasks import ReasoningStep
from ace.tools import ToolRegistry
from ace.tools.changes import describe_tools, interface_changed, tool_changes

_log = logging.getLogger(__name__)
_DSPY: Any = dspy
"""What DSPy leaves untyped."""
TOOLS_KEY = "tools"
"""Where a saved program's state keeps the tools it was saved with."""


def build_cards(registry: ToolRegistry) -> dict[str, Any]:
    """Build one card per tool."""
    return {
        tool.name: _DSPY.Predict(_DSPY.Signature(f"{arguments_of(tool.name)} -> observation", tool.description))
        for tool in registry
    }


def arguments_of(name: str) -> str:
    """Name the card's input field for a tool, whose name need not be a Python identifier."""
    plain = re.sub(r"\W", "_", name)
    return f"{plain}_arguments" if name.isidentifier() and name[0] != "_" else f"tool_{plain}_arguments"


def descriptions(cards: Mapping[str, Any]) -> dict[str, str]:
    """Return what the cards say."""
    return {name: card.signature.instructions for name, card in cards.items()}


def record_calls(cards: Mapping[str, Any], steps: Iterable[ReasoningStep]) -> None:
    """Append the calls of a run to DSPy's trace, where an optimizer looks for examples of its components."""
    trace = _DSPY.settings.trace
    if trace is None:
        return
    for step in steps:
        if step.tool_name in cards:
            if len(trace) >= _DSPY.settings.max_trace_size:
                trace.pop(0)
            inputs = {arguments_of(step.tool_name): step.tool_args}
            trace.append((cards[step.tool_name], inputs, _DSPY.Prediction(observation=step.observation)))


def adopt_cards(
    state: dict[str, Any], registry: ToolRegistry, own: Mapping[str, Any]
) -> tuple[dict[str, Any], list[str]]:
    """Fit a saved program's state to the tools that are there now, and say in words what has changed.

    The card of a tool whose arguments have changed is left behind, and so are demos that call such a tool: they would teach
    calls that no longer work.

    Args:
        state: As `dump_state` gave it; without a list of tools (a plain `dspy.ReAct`) nothing can be compared.
        registry: The tools that are there now.
        own: This program's state, for cards that the saved one lacks.
    """
    saved = state.get(TOOLS_KEY)
    kept = {name: value for name, value in state.items() if name != TOOLS_KEY}
    cards = {name for name in own if name.startswith("cards[")}
    if saved is None:
        return {**{name: own[name] for name in cards}, **kept}, []
    changes = tool_changes(saved, describe_tools(registry))
    lost = {name for name, words in changes.items() if interface_changed(words) and words != ["is new"]}
    warnings = [f"tool {name!r} {'; '.join(words)}" for name, words in changes.items()]
    for name in cards:
        if name not in kept or name.removeprefix("cards['").removesuffix("']") in lost:
            kept[name] = own[name]
    for name, value in kept.items():
        demos = cast("list[Any]", cast("dict[str, Any]", value).get("demos")) if isinstance(value, dict) else []
        if demos and changes:
            fit = [demo for demo in demos if not _mentions(demo, lost)]
            if len(fit) < len(demos):
                warnings.append(f"{len(demos) - len(fit)} demos of {name!r} call such a tool and are left out")
            kept[name] = {**value, "demos": [without_catalog(demo) for demo in fit]}
    for words in warnings:
        _log.warning("the program was saved with other tools: %s", words)
    return kept, warnings


def without_catalog(demo: Any) -> Any:
    """Return a demo without the tools it was made with: the prompt lists those of today."""
    return {name: demo[name] for name in demo if name != TOOLS_KEY}


def _mentions(demo: Any, tools: set[str]) -> bool:
    """Check whether a demo calls one of some tools, now or in an earlier turn."""
    calls = str([demo.get(name) for name in (CALLS, "history")])
    return any(re.search(rf"(?<!\w){re.escape(tool)}(?!\w)", calls) for tool in tools)
