from ace.agent.states import Idle, Thinking


def f(state: Idle) -> Thinking:
    return state.start().start()
