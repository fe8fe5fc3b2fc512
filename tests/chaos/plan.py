"""A seeded plan that decides which tool calls and requests go wrong, and how."""

import random
import threading
from dataclasses import dataclass, field

from ace.core import TOOL_ERROR_KINDS
from ace.testing.faulty import fail

TOOL_FAULTS = (*TOOL_ERROR_KINDS, "hang", ValueError("on demand"))
LM_FAULTS = ("transport", "garbage", "truncated", "empty")


@dataclass
class FaultPlan:
    """Decides at random, by a seed, what goes wrong when; the same seed and order of calls give the same faults."""

    seed: int
    tool_rate: float = 0.3
    lm_rate: float = 0.2
    counts: dict = field(default_factory=dict)

    def __post_init__(self):
        self._random = random.Random(self.seed)
        self._lock = threading.Lock()

    def tool_fault(self):
        return self._draw(self.tool_rate, TOOL_FAULTS)

    def _draw(self, rate, faults):
        with self._lock:
            hit, index = self._random.random() < rate, self._random.randrange(len(faults))
            fault = faults[index] if hit else None
            if hit:
                name = fault if isinstance(fault, str) else type(fault).__name__
                self.counts[name] = self.counts.get(name, 0) + 1
            return fault

    def tool(self, inner):
        """The tool, failing by this plan."""

        def body(*args, **kwargs):
            fail(self.tool_fault(), inner.name)
            return inner.func(*args, **kwargs)

        return inner.bind(body)

    def answer(self, inner):
        """A model's answer function, failing by this plan."""
        return lambda prompt: spoil(self._draw(self.lm_rate, LM_FAULTS), lambda: inner(prompt))


def spoil(fault, reply):
    """A reply, or what a fault makes of it."""
    if fault == "transport":
        raise ConnectionError("the model cannot be reached, on demand")
    if fault == "garbage":
        return "\x00 ]] {'not': 'what was asked for' [[ ## next_"
    if fault == "empty":
        return ""
    text = reply()
    return text[: len(text) // 2] if fault == "truncated" else text
