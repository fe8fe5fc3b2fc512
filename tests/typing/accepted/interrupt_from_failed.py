from ace.agent.states import Acting, Interrupted


def f(state: Acting) -> Interrupted:
    return state.interrupt("wait")
