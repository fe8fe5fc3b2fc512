from ace.agent.states import Acting, Failed


def f(state: Acting) -> Failed:
    return state.fail("budget_exceeded", "")
