from ace.agent.states import Acting, Completed


def f(state: Acting) -> Completed:
    return state.observe().think().complete()
