from ace.agent.states import Completed, Observing


def f(state: Observing) -> Completed:
    return state.think().complete()
