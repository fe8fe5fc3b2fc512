"""How the parts of a decision are called, and what makes no difference in a name."""

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True)
class Words:
    """How the parts of a decision are called: `OWN`, `ANY`."""

    thought: frozenset[str]
    name: frozenset[str]
    args: frozenset[str]

    @property
    def all(self) -> frozenset[str]:
        """Every one of them."""
        return self.thought | self.name | self.args


OWN = Words(frozenset({"next_thought"}), frozenset({"next_tool_name"}), frozenset({"next_tool_args"}))
"""The fields that a decision is asked for. Foreign text never holds them, nor a marker: `as_data` takes both apart."""
ANY = Words(
    OWN.thought | {"thought", "thoughts", "reasoning", "rationale", "analysis"},
    OWN.name
    | {"tool_name", "tool", "name", "function_name", "function", "action", "action_name", "recipient_name", "next_tool"}
    | {"tool_to_use", "next_action"},
    OWN.args
    | {
        "tool_args",
        "args",
        "arguments",
        "parameters",
        "params",
        "input",
        "inputs",
        "action_input",
        "kwargs",
        "tool_input",
    }
    | {"tool_arguments", "next_tool_arguments", "tool_parameters", "action_args", "action_arguments"},
)
"""What models call them as well; what others wrote may use these words too."""
WRAPPERS = frozenset(
    {"tool_call", "tool_calls", "call", "calls", "function_call", "function_calls", "tool_use", "tool_uses", "actions"}
    | {"tools", "params"}
)
"""Fields and tags that hold a call, or several."""


def word(name: str) -> str:
    """A name without what makes no difference to a reader: `word("Next Tool name")` is ``next_tool_name``."""
    return re.sub(r"\s+", "_", name.strip()).casefold()


def plain(name: str) -> str:
    """`word` where hyphens, and capitals in place of them, make no difference either: `plain("lookUp")` is ``look_up``."""
    parted = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name.replace("\\_", "_").strip())
    return re.sub(r"[\s_-]+", "_", parted).casefold()
