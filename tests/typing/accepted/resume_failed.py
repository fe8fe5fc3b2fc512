from ace.agent.states import Acting, Failed, Interrupted, Thinking


def f(state: Failed | Interrupted) -> Thinking | Acting | None:
    return state.resume() if isinstance(state, Interrupted) else None
