from ace.agent.states import Observing, Thinking


def f(state: Thinking) -> Observing:
    return state.observe()
