from typing import assert_never

from ace.agent.states import Acting, Completed, Failed, Idle, Observing, State, Thinking


def f(state: State) -> str:
    match state:
        case Idle() | Thinking() | Acting() | Observing():
            return "active"
        case Completed() | Failed():
            return "over"
        case _:
            assert_never(state)
