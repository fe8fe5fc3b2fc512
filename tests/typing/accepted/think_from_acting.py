from ace.agent.states import Acting, Thinking


def f(state: Acting) -> Thinking:
    return state.observe().think()
