from ace.agent.states import Acting, Observing
from ace.tools import ToolCall


def f(state: Observing, call: ToolCall) -> Acting:
    return state.act((call,), "")
