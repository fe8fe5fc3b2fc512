from ace.agent.states import Completed, Failed


def f(state: Completed) -> Failed:
    return state.fail("tool_dispatch", "late")
