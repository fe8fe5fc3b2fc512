from ace.agent.states import Interrupted, Thinking


def f(state: Interrupted) -> Thinking | None:
    then = state.resume()
    return then if isinstance(then, Thinking) else None
