from ace.agent.states import Observing, Thinking
from ace.tools import ToolCall


def f(state: Thinking, call: ToolCall) -> Observing:
    return state.act((call,), "").observe()
