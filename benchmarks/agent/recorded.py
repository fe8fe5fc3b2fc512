"""Drives the four recorded WorkBench runs through `ReActGenerator` and compares with the published scores."""

from __future__ import annotations

import re
import time
from pathlib import Path
from typing import Any

from ace_suites.workbench import WorkBenchSuite, read_recordings
from ace_suites.workbench.compare import replay_is_right, ways
from ace_suites.workbench.recorded_lm import RecordedLM

from ace.agent import Policy
from ace.evaluation.report.summary import by_domain
from ace.evaluation.runner import evaluate
from benchmarks.command import command

RUNS = ("gpt-4_domains", "gpt-4_all", "gpt-3.5_domains", "llama2-70b_domains")


def reference(folder: Path) -> dict[tuple[str, str], int]:
    """Read (run, domain) to the published number of correct tasks, from the first table of REFERENCE.md."""
    text = (folder / "REFERENCE.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| ([\w.-]+) \| (\w+) \| \d+ \| (\d+) \|", text, re.M)
    return {(run, domain): int(correct) for run, domain, correct in rows}


def drive(folder: Path, run: str) -> dict[str, Any]:
    """Drive one recorded run: correct tasks per domain, calls that differ, runs that differ live from replayed."""
    suite = WorkBenchSuite(folder, toolkits="all" if run.endswith("_all") else "domains")
    lm = RecordedLM(run, read_recordings(folder, run))
    rows, unequal, crashes, named = [], 0, 0, []
    for attempt in evaluate(suite, lambda seed: lm, policy=Policy.replay()):
        recording = lm.recordings[" ".join(attempt.task.task.text.split())]
        row = attempt.report()
        rows.append(row)
        crashes += attempt.output.termination_reason == "internal_invariant"
        steps = attempt.output.structured_trace
        crashes += len(steps) != len(recording.steps)
        for done, recorded in zip(steps, recording.steps, strict=False):
            unequal += done.executed and (done.tool_name, done.tool_args) != (recorded.tool, recorded.args)
        if replay_is_right(suite, attempt.task, recording) != row.correct:
            named.append({"id": row.id, "domain": row.domain, "ways": ways(recording, attempt.output)})
    return {"domains": by_domain(rows), "unequal": unequal, "crashes": crashes, "named": named}


def main(folder: Path) -> dict[str, Any]:
    """Return the comparison."""
    started, published = time.monotonic(), reference(folder)
    report: dict[str, Any] = {"correct": {}, "runs": 0, "unexplained": 0, "unequal_calls": 0, "crashes": 0, "named": {}}
    for run in RUNS:
        result = drive(folder, run)
        report["correct"][run] = sum(row.correct for row in result["domains"].values())
        report["runs"] += sum(row.n for row in result["domains"].values())
        report["unequal_calls"] += result["unequal"]
        report["crashes"] += result["crashes"]
        report["named"][run] = result["named"]
        for domain, row in result["domains"].items():
            explained = sum(named["domain"] == domain for named in result["named"])
            report["unexplained"] += abs(row.correct - published[run, domain]) > explained
    report["seconds"] = time.monotonic() - started
    return report


if __name__ == "__main__":
    command(main)
