from ace.agent.states import Acting, Idle
from ace.tools import ToolCall


def f(state: Idle, call: ToolCall) -> Acting:
    return state.start().act((call,), "")
