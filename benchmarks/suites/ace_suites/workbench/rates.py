"""How often real models err, estimated from WorkBench's recorded runs: ``python -m ace_suites.workbench.rates PATH``.

What is counted:

* A run counts when the model was heard at all and its task needs at least one changing call. A run is *open* while it has
  tried fewer changing calls than the reference solution has, and *settled* afterwards.
* Over the decisions of the open phase: `malformed` (unknown tool, unknown argument, arguments that are no object), `refused`
  (the tool said no), `wasted` (a read that found nothing, or repeated one while nothing had changed), `stopped` (finished).
* Over the changing calls tried in the open phase: `wrong_write` (not one of the reference solution's).
* Over the decisions of the settled phase: `extra_step` (anything but finishing that changes nothing), `extra_write`.
"""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path
from typing import Any

from ace.evaluation.stats import share_interval
from ace.testing.rates import RATES_FILE
from ace_suites.workbench.recordings import Recording, read_recordings
from ace_suites.workbench.sandbox import WRITING, Sandbox
from ace_suites.workbench.suite import WorkBenchSuite

RUNS = {
    "without_bullet": "gpt-3.5_domains",
    "with_bullet": "gpt-4_domains",
    "misled": "llama2-70b_domains",
}
"""Which recorded run stands for which condition."""

_BASE = {
    "malformed": "open",
    "refused": "open",
    "wasted": "open",
    "stopped": "open",
    "wrong_write": "tried",
    "extra_step": "settled",
    "extra_write": "settled",
}
_REFUSALS = ("not found", "not provided", "not valid", "Missing task details", "must be one of", "Invalid", "No search")


def count(suite: WorkBenchSuite, recordings: dict[str, Recording]) -> Counter[str]:
    """Count what happened in the recorded runs of one model; each is executed in a fresh sandbox."""
    counts: Counter[str] = Counter()
    for task in suite.tasks:
        recording = recordings[task.task.text]
        if not task.gold or (recording.empty and recording.answer is None):
            continue
        counts["runs"] += 1
        gold = Counter(_key(call.name, call.args) for call in task.gold)
        _count_run(suite.sandbox(), recording, gold, counts)
    return counts


def _key(name: str, args: dict[str, Any]) -> tuple[Any, ...]:
    return (name, *sorted((k, str(v).lower()) for k, v in args.items()))


def _count_run(sandbox: Sandbox, recording: Recording, gold: Counter[tuple[Any, ...]], counts: Counter[str]) -> None:
    wanted, tried = gold.total(), 0
    seen: set[tuple[Any, ...]] = set()
    for step in recording.steps:
        phase = "open" if tried < wanted else "settled"
        counts[phase] += 1
        kind = _kind(sandbox, step.tool, step.args, seen)
        if kind == "write":
            right = gold[_key(step.tool, step.args)] > 0
            gold[_key(step.tool, step.args)] -= right
            tried += 1
            seen.clear()
            if phase == "open":
                counts["tried"] += 1
                counts["wrong_write"] += not right
            else:
                counts["extra_write"] += 1
        elif phase == "settled":
            counts["extra_step"] += 1
        elif kind != "read":
            counts[kind] += 1
    if recording.answer is not None:
        phase = "open" if tried < wanted else "settled"
        counts[phase] += 1
        counts["stopped"] += phase == "open"


def _kind(sandbox: Sandbox, tool: str, args: Any, seen: set[tuple[Any, ...]]) -> str:
    if not isinstance(args, dict):
        return "malformed"
    named: dict[str, Any] = {str(k): v for k, v in args.items()}  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
    result = sandbox.call(tool, named)
    if isinstance(result, dict) and "error_type" in result:
        return "malformed"
    if isinstance(result, str) and any(words in result for words in _REFUSALS):
        return "refused"
    if tool in WRITING:
        return "write"
    key = _key(tool, named)
    nothing = result in ([], {}) or (isinstance(result, str) and result.startswith("No "))
    if key in seen or nothing:
        return "wasted"
    seen.add(key)
    return "read"


def estimate(path: Path) -> str:
    """Write the contents of ``rates.toml``, with counts and 95 % Wilson intervals."""
    suite = WorkBenchSuite(path)
    lines = [
        "# How often real models err; written by `python -m ace_suites.workbench.rates`, never by hand.",
        "# See that module for what is counted. Intervals: Wilson, 95 %.",
    ]
    for condition, run in RUNS.items():
        counts = count(suite, read_recordings(path, run))
        lines += ["", f"[{condition}]", f'run = "{run}"', f"runs = {counts['runs']}"]
        for rate, base in _BASE.items():
            n, of = counts[rate], counts[base]
            low, high = share_interval(n, of)
            lines.append(
                f"{rate} = {{ rate = {n / of:.4f}, count = {n}, of = {of}, interval = [{low:.4f}, {high:.4f}] }}"
            )
    return "\n".join(lines) + "\n"


def main() -> int:
    """Write the rates file and print it."""
    if len(sys.argv) != 2:
        print("usage: python -m ace_suites.workbench.rates PATH_TO_WORKBENCH", file=sys.stderr)
        return 2
    text = estimate(Path(sys.argv[1]))
    RATES_FILE.write_text(text, encoding="utf-8")
    print(text)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
