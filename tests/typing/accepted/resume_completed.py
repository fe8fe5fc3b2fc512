from ace.agent.states import Acting, Interrupted, Thinking


def f(state: Interrupted) -> Thinking | Acting:
    return state.resume()
