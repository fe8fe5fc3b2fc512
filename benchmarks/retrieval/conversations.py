"""What a conversation with two requests teaches: ``python -m benchmarks.retrieval.conversations RUNS.jsonl OUT.json``.

RUNS.jsonl holds recorded airline conversations of a real model. Twenty chats are put together, each from two that succeeded
and changed something: our agent plays the recorded calls of one after the first message, and of the other after the second;
its tools give the recorded answers. Each message is learned with `chat.learn(True)`. Asked is whether the second message's
own words find the second message's plan among three, and whether a lesson of the second message holds a word that only the
first speaker said: a name, a number, an id.
"""

from __future__ import annotations

import inspect
import json
import random
import re
from collections import defaultdict, deque
from itertools import permutations
from pathlib import Path
from typing import Any

from ace import ReActGenerator
from ace.core.language import common_words
from ace.evaluation.stats import share_interval
from ace.learner import read_requests
from ace.playbook import Playbook
from ace.tasks import TaskOutput
from ace.testing import ScriptedLM, decision
from ace.tools import Tool
from benchmarks.command import command
from benchmarks.retrieval.turns import CHANGES, CONVERSATIONS, calls, changing


def tools_of(runs: list[TaskOutput], reads: set[str]) -> list[Tool]:
    """Make a tool for each name in some runs, which gives the recorded answers in their order."""
    answers: dict[str, deque[str]] = defaultdict(deque)
    names: dict[str, dict[str, None]] = defaultdict(dict)
    for step in (step for run in runs for step in run.structured_trace):
        answers[step.tool_name].append(step.observation)
        names[step.tool_name] |= dict.fromkeys(step.tool_args)
    return [_tool(name, list(names[name]), answers[name], name in reads) for name in answers]


def _tool(name: str, arguments: list[str], answers: deque[str], read_only: bool) -> Tool:
    def play(**_given: Any) -> str:
        return answers.popleft()

    kind = inspect.Parameter.KEYWORD_ONLY
    parameters = [inspect.Parameter(a, kind, default=None, annotation=Any) for a in arguments]
    play.__signature__ = inspect.Signature(parameters)  # pyright: ignore[reportFunctionMemberAccess]
    play.__annotations__ = dict.fromkeys(arguments, Any)
    play.__doc__ = f"{name.replace('_', ' ').capitalize()}."
    return Tool.from_function(play, name=name, read_only=read_only)


def hold(book: Playbook, runs: list[TaskOutput], reads: set[str], learned: tuple[int, ...] = (0, 1)) -> None:
    """Hold a chat with one message for each run, of which some are learned from."""
    replies: list[str] = []
    for run in runs:
        replies += [decision(step.tool_name, step.thought, **step.tool_args) for step in run.structured_trace]
        replies.append(decision("finish", answer="It is done."))
    agent = ReActGenerator(tools=tools_of(runs, reads), lm=ScriptedLM(replies), playbook=book, max_iters=40)
    chat = agent.chat()
    for number, run in enumerate(runs):
        chat.send(run.task.inputs["task"])
        if number in learned:
            chat.learn(True)


def private(run: TaskOutput, others: list[TaskOutput]) -> set[str]:
    """Find words of a message that are its speaker's own: no word of the language, and in no other message or answer."""
    said = set(re.findall(r"\w{3,}", run.task.inputs["task"].lower()))
    elsewhere = " ".join(
        [o.task.inputs["task"] for o in others] + [s.observation for o in others for s in o.structured_trace]
    )
    named = " ".join(f"{s.tool_name} {' '.join(s.tool_args)}" for o in [run, *others] for s in o.structured_trace)
    return {word for word in said if word not in common_words() and word not in f"{elsewhere} {named}".lower()}


def main(runs: Path) -> dict[str, Any]:
    """Return the report."""
    recorded = [json.loads(line) for line in runs.read_text(encoding="utf-8").splitlines()]
    reads = {name for run in recorded for name in calls(run)} - CHANGES
    solved = [run for run in recorded if run["reward"] == 1]
    single = [(run["task_id"], read_requests(run["traj"], read_only=reads)) for run in solved]
    single = [(name, runs[0]) for name, runs in single if len(runs) == 1 and changing(runs[0])]
    pairs = [(a, b) for (one, a), (two, b) in permutations(single, 2) if one != two]
    found, missed, told, shown = 0, list[str](), list[str](), 0
    with Playbook() as book:
        asked: list[tuple[str, list[str]]] = []
        for first, second in random.Random(0).sample(pairs, CONVERSATIONS):
            with Playbook() as alone:
                hold(alone, [first, second], reads, learned=(1,))
                own = private(first, [second])
                shown += len(alone.bullets)
                for bullet in alone.bullets:
                    text = bullet.model_dump_json().lower()
                    told += [
                        f"{word!r} in {bullet.content!r:.100}"
                        for word in own
                        if re.search(rf"\b{re.escape(word)}\b", text)
                    ]
            hold(book, [first, second], reads)
            asked.append((second.task.inputs["task"], changing(second)))
        for words, wanted in asked:
            hit = any(bullet.plan is not None and bullet.teaches(wanted) for bullet in book.retrieve(words))
            found += hit
            if not hit:
                missed.append(f"{words[:200]!r} wants {wanted}")
    low, high = share_interval(found, CONVERSATIONS)
    return {
        "conversations": CONVERSATIONS,
        "found": found / CONVERSATIONS,
        "interval": [low, high],
        "missed": missed,
        "second_lessons": shown,
        "first_speakers_words": len(told),
        "told": told[:20],
    }


if __name__ == "__main__":
    command(main)
