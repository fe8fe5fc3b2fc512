"""An observer on the console: every event of a run as it happens.

``python examples/console_observer.py``; the model is scripted.
"""

from __future__ import annotations

from rich.console import Console

from ace import Event, ReActGenerator
from ace.testing import ScriptedLM, decision
from ace.tools import calculator

CONSOLE = Console(highlight=False)
COLOURS = {"completed": "green", "error": "red", "started": "dim", "paused": "yellow", "cancelled": "yellow"}


def show(event: Event) -> None:
    """Print one line per event; an observer that raised or hung would not hurt the run."""
    colour = COLOURS.get(event.kind.rsplit("_", 1)[-1], "white")
    details = " ".join(f"{name}={value}" for name, value in event.data.items())
    CONSOLE.print(f"[{colour}]{event.seq:>3} {event.step_id:<4} {event.kind:<24}[/{colour}] {details}")


def main() -> None:
    """Run, and watch."""
    script = [
        decision("calculator", expression="1 / 0"),
        decision("calculator", expression="6 * 7"),
        decision("submit", answer="42"),
    ]
    ReActGenerator(tools=[calculator], lm=ScriptedLM(script), observers=[show]).run("What is 6 times 7?")


if __name__ == "__main__":
    main()
