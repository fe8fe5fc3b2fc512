from ace.agent.states import Acting, Completed, Thinking


def f(state: Completed) -> Thinking | Acting:
    return state.resume()
