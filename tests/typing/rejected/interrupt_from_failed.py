from ace.agent.states import Failed, Interrupted


def f(state: Failed) -> Interrupted:
    return state.interrupt("wait")
