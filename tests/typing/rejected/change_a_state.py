from ace.agent.states import Thinking


def f(state: Thinking) -> None:
    state.iteration = 2
