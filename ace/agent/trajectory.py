"""How the steps so far are shown to the model: the layout of `dspy.ReAct`, without building a signature per step."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ace.core import as_data, clean_text, value_to_text
from ace.core.text import cut_middle
from ace.tasks import ReasoningStep, RunSummary

LEFT_OUT = 0
"""A cut that leaves a step out of the prompt as a whole."""
STUB = 200
"""Characters of an observation that stay when it is shortened."""
_KEPT = 1_000
"""Characters of a thought, and of a call's arguments, that stay in any case."""


def given_args(step: ReasoningStep) -> Any:
    """The arguments as they came from the model, also where they were no object."""
    return step.tool_args if step.error is None else (step.error.received_args or step.tool_args)


def render_step(index: int, step: ReasoningStep, limit: int | None = None) -> str:
    """One step as `layout` writes it."""
    return layout(index, step.thought, step.tool_name, given_args(step), step.observation, limit)


def layout(index: int, thought: str, name: str, args: Any, observation: str, limit: int | None = None) -> str:
    """A call and its result; `index` from 0 is part of the field names.

    The layout is that of `dspy.ReAct` under its chat adapter: prompts and demonstrations made for it stay valid. With a
    `limit`, about so many characters of the observation are shown.
    """
    shown = json.dumps(args, ensure_ascii=False, default=value_to_text)
    if limit is not None:
        thought, shown = (cut_middle(text, max(limit, _KEPT)) for text in (thought, shown))
        observation = cut_middle(observation, limit)
    return clean_text(
        f"[[ ## thought_{index} ## ]]\n{as_data(thought)}\n\n"
        f"[[ ## tool_name_{index} ## ]]\n{as_data(name)}\n\n"
        f"[[ ## tool_args_{index} ## ]]\n{as_data(shown)}\n\n"
        f"[[ ## observation_{index} ## ]]\n{as_data(observation)}"
    )


def render_steps(rendered: Sequence[str], cuts: Mapping[int, int], first: int) -> list[str]:
    """The rendered steps from `first` on without those that are left out, and a note that says how many are."""
    if not cuts:
        return list(rendered[first:])
    shown = [text for index, text in enumerate(rendered[first:], first) if cuts.get(index) != LEFT_OUT]
    missing = len(rendered) - first - len(shown)
    return [f"[{missing} earlier steps left out: the context window is full]", *shown] if missing else shown


def as_fields(
    steps: Sequence[ReasoningStep], cuts: Mapping[int, int], values: Mapping[str, Any], closing: Iterable[Any] | None
) -> dict[str, Any]:
    """The trajectory as `dspy.ReAct` gives it: ``thought_0``, ``tool_name_0``, ``tool_args_0``, ``observation_0`` ...

    Args:
        steps: All steps; those that were left out of the prompt are left out here.
        cuts: See `shortened`.
        values: What tools returned, by the id of the call; the text that the model read where it is not known.
        closing: Thought and arguments of the `finish` that ended the run.
    """
    fields: dict[str, Any] = {}
    for index, step in enumerate(steps):
        if cuts.get(index) != LEFT_OUT:
            seen = values.get(step.tool_call_id, step.observation) if step.outcome == "success" else step.observation
            fields |= _fields(index, step.thought, step.tool_name, given_args(step), seen)
    if closing is not None:
        thought, args = closing
        fields |= _fields(len(steps), thought, "finish", args, "Completed.")
    return fields


def _fields(index: int, thought: str, name: str, args: Any, observation: Any) -> dict[str, Any]:
    return {
        f"thought_{index}": thought,
        f"tool_name_{index}": name,
        f"tool_args_{index}": args,
        f"observation_{index}": observation,
    }


def render_notes(notes: Sequence[str]) -> list[str]:
    """The notes for the model about rejected replies."""
    return [clean_text(f"[[ ## rejected_reply_{i} ## ]]\n{as_data(note)}") for i, note in enumerate(notes)]


def render_summary(summary: RunSummary) -> str:
    """The running summary, in front of the steps."""
    return clean_text(f"Conversation so far:\n{as_data(summary.text)}")
