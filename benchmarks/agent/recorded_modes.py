"""Recorded WorkBench runs in text and in native mode, served by an OpenAI-compatible server on loopback, side by side.

``python -m benchmarks.agent.recorded_modes WORKBENCH OUT.json [--runs RUN]...``: the decisions are the same, so must be the
outcome classes and the final states; text mode over HTTP is also compared with the embedded replay.
"""

from __future__ import annotations

import re
import time
from pathlib import Path
from typing import Any

import dspy
from ace_suites.workbench import WorkBenchSuite, read_recordings
from ace_suites.workbench.recorded_lm import RecordedLM
from rich.console import Console
from rich.progress import track

from ace import Policy, ReActGenerator
from ace.evaluation.runner import Attempt
from ace.testing.engine import Prompt
from benchmarks.command import command
from benchmarks.model_server import Calls, serve

RUNS = ("gpt-4_domains", "gpt-4_all", "gpt-3.5_domains", "llama2-70b_domains")


class Recorded:
    """Recorded decisions as an HTTP model: as text, or as tool calls when the request brings tools."""

    def __init__(self, lm: RecordedLM) -> None:
        self.lm = lm

    def __call__(self, prompt: Prompt, native: bool) -> str | tuple[str, Calls]:
        """Return the next decision."""
        if not native:
            return self.lm._answer(prompt)
        recording = self.lm.recording(prompt.fields["task"])
        assert recording is not None
        position = sum(role == "assistant" for role, _ in prompt.messages)
        if position < len(recording.steps):
            step = recording.steps[position]
            return " ".join(step.log.split()), [(step.tool, step.args)]
        if recording.answer is None:
            raise LookupError("the recording is cut off here")  # the server fails, as the recording did
        # an empty text is no answer, and one that writes a call means it, which the recorded run took for its answer
        if recording.answer.strip() and not re.search(r"[{(]|Action:", recording.answer):
            return recording.answer
        return "", [("finish", {"answer": recording.answer})]


def outcome(attempt: Attempt) -> tuple[Any, ...]:
    """Return what must be the same in both modes."""
    row = attempt.report()
    steps = [(s.tool_name, s.executed, s.outcome) for s in attempt.output.structured_trace]
    return row.termination, row.correct, row.state_sha256, tuple(steps)


def play(folder: Path, run: str) -> dict[str, Any]:
    """Play one run in three ways: embedded, text over HTTP, native over HTTP."""
    suite = WorkBenchSuite(folder, toolkits="all" if run.endswith("_all") else "domains")
    recorded = RecordedLM(run, read_recordings(folder, run))
    report: dict[str, Any] = {"runs": 0, "correct": 0, "crashes": 0, "native_differs": [], "text_differs": []}
    agents: dict[tuple[Any, ...], ReActGenerator] = {}
    with serve(Recorded(recorded)) as (url, _requests):
        remote = dspy.LM("openai/recorded", api_base=url, api_key="none", cache=False, num_retries=0)
        for task in track(suite.tasks, description=run, transient=True, console=Console(stderr=True)):
            if recorded.recording(task.task.text) is None:
                continue
            seen = {}
            for mode, lm in (("text", recorded), ("http", remote), ("native", remote)):
                episode = suite.episode(task)
                calling = "native" if mode == "native" else "text"
                key = (calling, episode.registry.names)
                if key not in agents:
                    signature = dspy.Signature("task -> answer", suite.instructions)
                    agents[key] = ReActGenerator(
                        signature, tools=episode.registry, policy=Policy.replay(), tool_calling=calling
                    )
                output = agents[key].bound_to(episode.registry, lm=lm).run(episode.task)
                attempt = Attempt(task, "none", 0, output, episode.score(output))
                report["crashes"] += output.termination_reason in ("internal_invariant", "policy_runtime_violation")
                seen[mode] = outcome(attempt)
            report["runs"] += 1
            report["correct"] += seen["text"][1]
            if seen["http"] != seen["text"]:
                report["text_differs"].append([task.id, str(seen["text"]), str(seen["http"])])
            if seen["native"] != seen["text"]:
                report["native_differs"].append([task.id, str(seen["text"]), str(seen["native"])])
    return report


def main(folder: Path, runs: list[str] | None = None) -> dict[str, Any]:
    """Return the comparison."""
    dspy.configure(trace=None, disable_history=True)
    started = time.monotonic()
    report: dict[str, Any] = {"by_run": {run: play(folder, run) for run in runs or RUNS}}
    rows = report["by_run"].values()
    report["runs"] = sum(row["runs"] for row in rows)
    report["crashes"] = sum(row["crashes"] for row in rows)
    report["differ"] = sum(len(row["native_differs"]) + len(row["text_differs"]) for row in rows)
    report["seconds"] = time.monotonic() - started
    return report


if __name__ == "__main__":
    command(main)
