from ace.agent.states import Failed, Thinking


def f(state: Thinking) -> Failed:
    return state.fail("tool_dispatch", "late")
