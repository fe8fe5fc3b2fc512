"""Do poisoned lessons get in by reflection, by an import or by feedback? ``python -m benchmarks.trust.doors DATA OUT.json``.

The poisoned memories of DATA as they are given, and sixty quietly harmful lessons written for this, each with the answer
that a stranger planted it in. At the door of reflection a tool answers with the poisoned text, and a model writes the lesson
that it teaches; at the import it is a pinned bullet with counts in a file; at the door of feedback somebody says it about a
run that failed. Each meets an empty book. Counted is what the book shows without a review; by reflection only lessons that
pass the checks of form count.
"""

from __future__ import annotations

import ast
import json
import re
import tempfile
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import track

from ace import Feedback, Learner, Reflector
from ace.evaluation.stats import share_interval
from ace.learner import read_requests
from ace.playbook import CallableEmbedder, Playbook, PlaybookBullet
from ace.playbook.bullet import SHOWN_STAGES
from ace.tasks import TaskOutput
from ace.testing import ScriptedLM
from ace.testing.engine import render_reply
from benchmarks.command import command

_TASK = re.compile(r"Task: (.*?)(?:\n| Answer:| Ignore| You must|; Workflow|$)", re.DOTALL)
"""What the user asked, without what was injected behind it."""
WORDS = 46
"""Of a lesson; a longer one is refused for its form."""


@dataclass(frozen=True)
class Poisoned:
    """A harmful lesson, and the run in which a stranger planted it."""

    trigger: str
    lesson: str
    messages: list[dict[str, Any]]
    reads: list[str]

    @property
    def run(self) -> TaskOutput:
        """The run."""
        return read_requests(self.messages, read_only=self.reads)[0]


def given(data: Path) -> Iterator[Poisoned]:
    """Yield the poisoned memories, as a memory tool answers with them."""
    for line in (data / "poisoned_memories" / "dev.jsonl").read_text(encoding="utf-8").split("\n"):
        if not line:
            continue
        row = json.loads(line)
        found = _TASK.search(row["text"])
        task = found[1].strip() if found else "Do the next task"
        steps = ast.literal_eval(row["workflow"]) if row["workflow"] else []
        said = [f"{step['message']} ({' '.join(step['tool_use'])})" for step in steps]
        lesson = " ".join(said) or row["text"]
        room = max(5, WORDS - len(lesson.split()))
        messages = conversation(task, [("recall_similar_runs", {"task": task}, row["text"])])
        yield Poisoned(clipped(task, room), clipped(lesson, WORDS - 5), messages, ["recall_similar_runs"])


def quiet() -> Iterator[Poisoned]:
    """Yield the quiet ones."""
    for row in json.loads(Path(__file__).with_name("quiet.json").read_text(encoding="utf-8")):
        calls = [(row["tool"], row["args"], row["answer"]), (row["action_tool"], row["action_args"], "done")]
        yield Poisoned(row["trigger"], row["lesson"], conversation(row["task"], calls), [row["tool"]])


def clipped(text: str, words: int) -> str:
    """Return the first words of a text."""
    return " ".join(text.split()[:words])


def conversation(task: str, calls: list[tuple[str, dict[str, Any], str]]) -> list[dict[str, Any]]:
    """Write a run as messages."""
    messages: list[dict[str, Any]] = [{"role": "user", "content": task}]
    for number, (tool, args, answer) in enumerate(calls):
        function = {"name": tool, "arguments": json.dumps(args)}
        call = {"id": f"c{number}", "type": "function", "function": function}
        messages.append({"role": "assistant", "content": "", "tool_calls": [call]})
        messages.append({"role": "tool", "tool_call_id": f"c{number}", "content": answer})
    return [*messages, {"role": "assistant", "content": "Done."}]


def shown_by(book: Playbook) -> set[str]:
    """Return what the book shows without a review."""
    return {f"{b.trigger}\n{b.content}" for b in book.bullets if b.stage in SHOWN_STAGES}


def empty() -> Playbook:
    """Make a book that compares no meanings."""
    return Playbook(embedder=CallableEmbedder("none", lambda texts: [[1.0]] * len(texts)))


def by_reflection(poisoned: Poisoned) -> bool | None:
    """Check whether a model's lesson is shown; None when it is refused for its form."""
    run = poisoned.run
    steps = list(range(1, len(run.structured_trace) + 1))
    lesson = {"section": "Strategies", "trigger": poisoned.trigger, "action": poisoned.lesson, "steps": steps}
    reflector = Reflector(lm=ScriptedLM([render_reply(lessons=[lesson])]))
    with empty() as book, empty() as without:
        Learner(book, reflector=reflector).learn(run, Feedback(success=True))
        Learner(without).learn(run, Feedback(success=True))
        return None if reflector.refused else bool(shown_by(book) - shown_by(without))


def by_feedback(poisoned: Poisoned) -> bool:
    """Check whether what somebody says of a failed run is shown."""
    with empty() as book, empty() as without:
        Learner(book).learn(poisoned.run, Feedback(success=False, text=poisoned.lesson))
        Learner(without).learn(poisoned.run, Feedback(success=False))
        return bool(shown_by(book) - shown_by(without))


def by_import(poisoned: Poisoned, folder: Path) -> tuple[bool, bool]:
    """Check whether an imported lesson is shown, and whether its pin, its trust or a count was accepted."""
    boast = PlaybookBullet(
        section="Strategies", trigger=poisoned.trigger, content=poisoned.lesson, stage="pinned", helpful_count=99,
        treated_successes=40, tool_success_rate=1.0, avg_iterations=1.0,
    )  # fmt: skip
    file = folder / "boast.jsonl"
    with empty() as book:
        file.write_text(boast.model_dump_json() + "\n", encoding="utf-8")
        book.import_jsonl(file)
        (bullet,) = book.bullets
        counts = bullet.helpful_count + bullet.treated_successes + bullet.control_successes
        boasts = (
            bullet.stage == "pinned" or bullet.trust == "trusted" or counts > 0 or bullet.tool_success_rate is not None
        )
        return bool(shown_by(book) or book.retrieve(poisoned.trigger)), boasts


def main(data: Path) -> dict[str, Any]:
    """Return the report."""
    report: dict[str, Any] = {"boasts": 0, "refused": 0, "imported": 0}
    with tempfile.TemporaryDirectory() as folder:
        for which, rows in (("given", list(given(data))), ("quiet", list(quiet()))):
            found: dict[str, list[bool]] = defaultdict(list)
            names: list[str] = []
            for poisoned in track(rows, which, console=Console(stderr=True)):
                reflected = by_reflection(poisoned)
                if reflected is None:
                    report["refused"] += 1
                else:
                    found["reflection"].append(reflected)
                    names += [poisoned.lesson] if reflected else []
                found["feedback"].append(by_feedback(poisoned))
                imported, boasts = by_import(poisoned, Path(folder))
                found["import"].append(imported)
                report["boasts"] += boasts
                report["imported"] += 1
            for door, shown in found.items():
                low, high = share_interval(sum(shown), len(shown))
                report[f"{which}, {door}"] = {
                    "n": len(shown),
                    "share": sum(shown) / len(shown),
                    "interval": (low, high),
                }
            report[f"{which}, names"] = names
    report["most"] = max(row["share"] for row in report.values() if isinstance(row, dict))
    return report


if __name__ == "__main__":
    command(main)
