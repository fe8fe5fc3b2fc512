"""Do conversations survive? ``python -m benchmarks.agent.conversations_kept OUT.json``.

Twenty customers name a number in their first message. The process that talks with them is killed by SIGKILL: between two
messages, inside a request to the model, or inside a tool. Another process opens the chat again, finishes what was cut off,
and asks for the number, which the stand-in knows only where the first message stands in its prompt; the same with the
history as a JSON file. Then three threads hold conversations of their own over one agent, and no answer may hold what
another one said.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from ace import ReActGenerator
from ace.testing import FunctionLM, decision
from ace.testing.engine import Prompt
from ace.tools import tool
from benchmarks.command import command

CUSTOMERS = 20
PLACES = ("between", "model", "tool")
THREADS = 3
ROUNDS = 20


@tool(read_only=True)
def count_parcels(street: str) -> str:
    """Count the parcels for a street."""
    if os.environ.get("KILL") == "tool":
        os.kill(os.getpid(), signal.SIGKILL)
    return f"3 parcels for {street}"


def clerk(prompt: Prompt) -> str:
    """Look up parcels where they are asked for, and answer with all numbers that the prompt's messages hold."""
    said = prompt.fields["task"]
    if "parcels" in said and not prompt.steps:
        if os.environ.get("KILL") == "model":
            os.kill(os.getpid(), signal.SIGKILL)
        return decision("count_parcels", street="Elm Street")
    numbers = dict.fromkeys(re.findall(r"my number is (\d+)", prompt.whole))
    return decision("finish", answer=" ".join(numbers) or "none")


def agent(folder: str | None = None) -> ReActGenerator:
    """Make the agent of every process."""
    return ReActGenerator(tools=[count_parcels], lm=FunctionLM("bench/clerk", clerk), run_store=folder)


def talk(folder: str, number: str) -> None:
    """Do what the process does that is killed."""
    chat = agent(folder).chat(f"customer-{number}")
    chat.send(f"Hello, my number is {number}")
    Path(folder, f"customer-{number}.history").write_text(json.dumps(chat.history.messages), encoding="utf-8")
    if os.environ["KILL"] == "between":
        os.kill(os.getpid(), signal.SIGKILL)
    chat.send("How many parcels are there for me?")


def survives(folder: str, customer: int) -> dict[str, Any]:
    """Ask for one customer whether the number was found, in the chat and out of the file."""
    number, place = str(1_000 + customer), PLACES[customer % len(PLACES)]
    killed = subprocess.run(
        [sys.executable, __file__, "--talk", folder, number], env={**os.environ, "KILL": place}, check=False
    )
    chat = agent(folder).chat(f"customer-{number}")
    finished = chat.resume().answer if chat.waiting else number
    found = chat.send("Which number did I give you?").answer
    stored = json.loads(Path(folder, f"customer-{number}.history").read_text(encoding="utf-8"))
    loaded = agent()("Which number did I give you?", history=stored).answer
    return {
        "killed": killed.returncode == -signal.SIGKILL,
        "cut_off": place != "between",
        "kept": (finished, found, loaded) == (number, number, number) and len(chat) == (2 if place == "between" else 3),
    }


def mixed() -> tuple[int, int]:
    """Count answers of three threads, and how many of them hold what another thread said."""
    shared = agent()

    def hold(number: int) -> list[str]:
        chat = shared.chat()
        chat.send(f"Hello, my number is {number}")
        return [chat.send("Which number did I give you?").answer for _ in range(ROUNDS)]

    with ThreadPoolExecutor(THREADS) as pool:
        answers = list(pool.map(hold, range(THREADS)))
    wrong = sum(answer != str(number) for number, own in enumerate(answers) for answer in own)
    return sum(map(len, answers)), wrong


def main() -> dict[str, Any]:
    """Return the report."""
    with tempfile.TemporaryDirectory() as folder:
        each = [survives(folder, customer) for customer in range(CUSTOMERS)]
    answers, wrong = mixed()
    return {
        "simulated": True,
        "customers": CUSTOMERS,
        "killed": sum(one["killed"] for one in each),
        "cut_off_inside": sum(one["cut_off"] for one in each),
        "lost": sum(not one["kept"] for one in each),
        "answers_of_threads": answers,
        "mixed_up": wrong,
    }


if __name__ == "__main__":
    talk(*sys.argv[2:]) if sys.argv[1:2] == ["--talk"] else command(main)
