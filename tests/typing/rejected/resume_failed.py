from ace.agent.states import Acting, Failed, Thinking


def f(state: Failed) -> Thinking | Acting:
    return state.resume()
