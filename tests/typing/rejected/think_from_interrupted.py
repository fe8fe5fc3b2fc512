from ace.agent.states import Interrupted, Thinking


def f(state: Interrupted) -> Thinking:
    return state.think()
