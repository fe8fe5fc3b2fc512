"""How the steps so far are shown to the model: the layout of `dspy.ReAct`, without building a signature per step."""

from __future__ import annotations

import json
from collections.abc import Sequence

from ace.core import clean_text, value_to_text
from ace.tasks import ReasoningStep


def render_trajectory(steps: Sequence[ReasoningStep], notes: Sequence[str] = ()) -> str:
    """The steps as text, then notes about replies that were thrown away.

    The layout is the one `dspy.ReAct` prints under its chat adapter (``[[ ## thought_0 ## ]]`` and so on), so that
    prompts and demonstrations made for it stay valid.

    Example:
        >>> render_trajectory([], ["Reply was not parseable."])
        '[[ ## rejected_reply_0 ## ]]\\nReply was not parseable.'
    """
    parts: list[str] = []
    for index, step in enumerate(steps):
        args = step.tool_args if step.error is None else (step.error.received_args or step.tool_args)
        shown = json.dumps(args, ensure_ascii=False, default=value_to_text)
        for name, text in (
            ("thought", step.thought),
            ("tool_name", step.tool_name),
            ("tool_args", shown),
            ("observation", step.observation),
        ):
            parts.append(f"[[ ## {name}_{index} ## ]]\n{text}")
    parts.extend(f"[[ ## rejected_reply_{i} ## ]]\n{note}" for i, note in enumerate(notes))
    return clean_text("\n\n".join(parts))
