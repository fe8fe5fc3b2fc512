from dataclasses import replace

from ace.agent.states import Thinking


def f(state: Thinking) -> Thinking:
    return replace(state, iteration=2)
