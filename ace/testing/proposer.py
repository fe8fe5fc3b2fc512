"""`SimulatedProposer`: a stand-in for the model that an optimizer asks for better instructions.

It answers any DSPy signature with something of the right shape; asked for an instruction, it gives back the one in the
prompt with one more sentence. That lets whole optimization jobs run without a key or a network; it does not
show how good a proposal is. Its results are labelled *simulated*.
"""

from __future__ import annotations

import json
import re
from typing import Any

from ace.testing.engine import FunctionLM, Prompt, render_reply

ADVICE = "Look at each result before the next call."
"""What every proposal adds."""
_FIELDS = re.compile(r"Your output fields are:\n(.*?)\nAll interactions", re.DOTALL)
_FIELD = re.compile(r"^\d+\. `(\w+)` \((.*?)\)", re.MULTILINE)


class SimulatedProposer(FunctionLM):
    """Answers whatever an optimizer asks.

    Examples:
        >>> import dspy
        >>> with dspy.context(lm=SimulatedProposer()):
        ...     dspy.Predict("current_instruction -> new_instruction")(current_instruction="Be brief.").new_instruction
        'Be brief. Look at each result before the next call.'
    """

    label = "simulated"

    def __init__(self) -> None:
        super().__init__("simulated/proposer", _answer)


def _answer(prompt: Prompt) -> str:
    found = _FIELDS.search(prompt.system)
    values = {name: _value(name, kind, prompt) for name, kind in _FIELD.findall(found[1])} if found else {}
    if not values:
        return ADVICE
    return json.dumps(values) if "JSON object" in prompt.system else render_reply(**values)


def _value(name: str, kind: str, prompt: Prompt) -> Any:
    if kind.startswith("dict"):  # advice by module
        return dict.fromkeys(re.findall(r"[\w.]+", prompt.fields.get("module_names", "")), ADVICE)
    if kind.startswith("list"):
        return []
    if kind == "bool":
        return True
    if kind in ("int", "float"):
        return 1
    if kind.startswith("Literal"):
        return re.split(r"[\[\],]", kind)[1].strip("'\" ")
    if "instruction" in name:
        inputs = ("current_instruction", "basic_instruction")
        instruction = next((prompt.fields[key] for key in inputs if key in prompt.fields), "")
        return instruction if ADVICE in instruction else f"{instruction} {ADVICE}".strip()
    return ADVICE
