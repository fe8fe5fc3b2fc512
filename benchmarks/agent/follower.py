"""Is retrieval quality task success? The *follower* stand-in takes tool names from the top bullet only (simulated)."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from ace_suites.workbench import WorkBenchSuite

from ace.agent import Policy
from ace.evaluation.runner import evaluate
from ace.playbook import MiniLMEmbedder
from ace.suites.protocol import SuiteTask, changing
from ace.testing import SimulatedLM
from ace.testing.engine import Prompt
from ace.testing.simulated import Turn, bullets_in_prompt
from benchmarks.retrieval.bench import playbook_of, suite_tasks


class Follower(SimulatedLM):
    """Takes the tools of the first bullet, with the reference solution's arguments in its order; no bullet, no call."""

    def _decide(self, task: SuiteTask, prompt: Prompt) -> tuple[Turn, str]:
        bullets = bullets_in_prompt(prompt.fields.get("playbook", ""))
        left, turns = list(bullets[0].tools) if bullets else [], list[Turn]()
        for call in task.gold:
            if call.name in left:
                left.remove(call.name)
                turns.append(Turn(call.name, call.args))
        turns = [turn for turn in (*turns, *(Turn(name, {}) for name in left)) if turn.name in prompt.tools]
        turns.append(Turn("submit", {"answer": task.answer}))
        return turns[min(len(prompt.steps), len(turns) - 1)], "As the first note says."


def main(folder: Path, target: Path) -> None:
    """Write counts over all WorkBench tasks as JSON."""
    suite = WorkBenchSuite(folder)
    playbook = playbook_of(suite_tasks(suite), MiniLMEmbedder())
    report: dict[str, Any] = {"n": 0, "top_right": 0, "solved": 0, "violations": 0}
    report |= {"blank_solved_with_effect": 0, "blank_solved_without_effect": 0, "blank_solved_without_calls": 0}
    lm = Follower(suite)
    for attempt in evaluate(
        suite, lambda seed: lm, arms=("playbook", "none"), policy=Policy.lenient(), playbook=playbook
    ):
        wanted, solved = changing(suite, attempt.task), attempt.feedback.success
        if attempt.arm == "none":
            # a gold call may write what is there already: then doing nothing is right too
            untouched = suite.episode(attempt.task).score(attempt.output).details["state_sha256"]
            effect = suite.replay(attempt.task.gold).state_sha256() != untouched
            report["blank_solved_with_effect"] += solved and effect
            report["blank_solved_without_effect"] += solved and bool(wanted) and not effect
            report["blank_solved_without_calls"] += solved and not wanted
            continue
        shown = attempt.output.injected_bullets  # by the run's own retrieval, which knows its tools
        right = bool(shown) and playbook.get(shown[0]).teaches(wanted)
        report["n"] += 1
        report["top_right"] += right
        report["solved"] += solved
        report["violations"] += right and not solved
    target.write_text(json.dumps(report), encoding="utf-8")
    print(report)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
