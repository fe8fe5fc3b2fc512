"""How the steps so far are shown to the model: the layout of `dspy.ReAct`, without building a signature per step."""

from __future__ import annotations

import json
from collections.abc import Sequence

from ace.core import as_data, clean_text, value_to_text
from ace.tasks import ReasoningStep, RunSummary


def render_step(index: int, step: ReasoningStep) -> str:
    """One step; `index` from 0 is part of the field names.

    The layout is that of `dspy.ReAct` under its chat adapter: prompts and demonstrations made for it stay valid.
    """
    args = step.tool_args if step.error is None else (step.error.received_args or step.tool_args)
    shown = json.dumps(args, ensure_ascii=False, default=value_to_text)
    return clean_text(
        f"[[ ## thought_{index} ## ]]\n{as_data(step.thought)}\n\n"
        f"[[ ## tool_name_{index} ## ]]\n{as_data(step.tool_name)}\n\n"
        f"[[ ## tool_args_{index} ## ]]\n{as_data(shown)}\n\n"
        f"[[ ## observation_{index} ## ]]\n{as_data(step.observation)}"
    )


def render_notes(notes: Sequence[str]) -> list[str]:
    """The notes for the model about rejected replies."""
    return [clean_text(f"[[ ## rejected_reply_{i} ## ]]\n{as_data(note)}") for i, note in enumerate(notes)]


def render_summary(summary: RunSummary) -> str:
    """The running summary, in front of the steps."""
    return clean_text(f"Conversation so far:\n{as_data(summary.text)}")
