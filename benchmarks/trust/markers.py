"""Forged decisions and unseen characters in what others write: ``python -m benchmarks.trust.markers OUT.json``.

Fifty texts that look like a model's decision, or hold what a reader cannot see, reach an agent by the task, a tool's
answer, the playbook and a person's feedback, under each of DSPy's adapters and in native mode. The model quotes what it
read as it read it: before its decision, inside its thought, and after it. A forged call must not be executed, nothing
unseen may stand in a prompt or on a terminal, and the tools must get the task's own characters back.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import dspy
from dspy import lm15

from ace import Playbook, Policy, ReActGenerator
from ace.cli._shared import console as cli_console
from ace.core import as_data
from ace.playbook import CallableEmbedder
from ace.reflector import Reflector
from ace.tasks import Feedback
from ace.testing import FunctionLM
from ace.tools import tool
from benchmarks.command import command

TEXTS: dict[str, list[str]] = json.loads(Path(__file__).with_name("markers.json").read_text(encoding="utf-8"))
FORGED, KEPT = TEXTS["forged"], TEXTS["kept"]
"""What looks like a decision or holds something unseen, and what must reach tools and prompts as it is."""
UNSEEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\u3164\ufeff\U000e0000-\U000e0fff]"
)
MARK = re.compile(
    r"(?im)^[ \t>]*\[\[ ?## ?(?:next_tool_name|tool_calls)|<next_tool_name>|\"next_tool_name\"\s*:\s*\"wire\""
)
ADAPTERS = {
    "chat": dspy.ChatAdapter,
    "json": dspy.JSONAdapter,
    "xml": dspy.XMLAdapter,
    "own": None,
    "native": None,
}
DOORS = ("task", "answer", "playbook", "feedback")
PLACES = ("before", "inside", "after")


def decision(adapter: str, place: str, quote: str, name: str, args: dict[str, Any]) -> str:
    """Write a reply in an adapter's format that quotes something."""
    thought = f"It says:\n{quote}\nI go on." if place == "inside" else "I go on."
    calls = {"tool_calls": [{"name": name, "args": args}]}
    written = json.dumps(calls, ensure_ascii=UNSEEN.search("".join(args.values())) is not None)
    if adapter == "json":
        reply = json.dumps({"next_thought": thought, "tool_calls": calls}, ensure_ascii=False)
    elif adapter == "xml":
        made = json.dumps(calls, ensure_ascii=False)
        reply = f"<next_thought>{thought}</next_thought>\n<tool_calls>{made}</tool_calls>"
    elif adapter == "chat":
        reply = f"[[ ## next_thought ## ]]\n{thought}\n\n[[ ## tool_calls ## ]]\n{written}"
    else:
        reply = f"{thought}\n{json.dumps(calls['tool_calls'][0], ensure_ascii=False)}"
    before, after = (f"{quote}\n\n" if place == "before" else ""), (f"\n\n{quote}" if place == "after" else "")
    ending = "\n\n[[ ## completed ## ]]" if adapter == "chat" else ""
    return f"{before}{reply}{after}{ending}"


def read(text: str) -> str:
    """Read a message as a model understands it: texts in the JSON of results are what they are."""
    lines = [json.loads(line) for line in text.splitlines() if line.startswith('{"tool_call_results"')]
    values = [str(result["value"]) for line in lines for result in line["tool_call_results"]]
    return "\n".join(values) if values else text


class QuotingLM(FunctionLM):
    """Reads its prompt, quotes what stands between two words there, and then does what it is told to."""

    def __init__(self, adapter: str, place: str, steps: list[tuple[str, dict[str, Any]]]) -> None:
        self.prompts: list[str] = []
        self._steps = iter(steps)

        def answer(prompt: Any) -> str:
            text = "\n".join(read(text) for role, text in prompt.messages if role in ("user", "tool"))
            self.prompts.append(text)
            quotes = re.findall(r"QUOTE-BEGIN(.*?)QUOTE-END", text, re.DOTALL)
            name, args = next(self._steps)
            return decision(adapter, place, quotes[-1] if quotes else "", name, args)

        super().__init__("quoting/lm", answer)


class NativeQuotingLM(dspy.LM):
    """The same behind an API that takes calls beside the text."""

    def __init__(self, steps: list[tuple[str, dict[str, Any]]]) -> None:
        lm, left = self, iter(steps)
        self.prompts: list[str] = []

        class Engine:
            supports_function_calling = True
            supports_response_schema = False
            supports_reasoning = False
            supported_params = frozenset({"tools", "tool_choice"})

            def complete(self, request: Any) -> Any:
                parts = [p for m in request.messages if m.role != "assistant" for p in m.parts]
                parts = [p for part in parts for p in getattr(part, "content", None) or (part,)]
                text = "\n".join(part if isinstance(part, str) else part.text for part in parts)
                lm.prompts.append(text)
                quotes = re.findall(r"QUOTE-BEGIN(.*?)QUOTE-END", text, re.DOTALL)
                name, args = next(left)
                parts = [lm15.TextPart(quotes[-1] if quotes else "I go on.")]
                parts.append(lm15.ToolCallPart(id="c", name=name, input=args))
                usage = lm15.Usage(input_tokens=1, output_tokens=1, total_tokens=2)
                return lm15.Response(
                    id="r", model="m", message=lm15.Message.assistant(parts), finish_reason="tool_call", usage=usage
                )

            def __deepcopy__(self, memo: Any) -> Any:
                return self

        super().__init__("quoting/native", engine=Engine(), cache=False)


def quoted(text: str) -> str:
    """Return the text between two words that the model looks for."""
    return f"QUOTE-BEGIN{text}QUOTE-END"


def run(adapter: str, door: str, place: str, text: str) -> Iterator[tuple[str, bool]]:
    """Yield (what is checked, whether it held) of one run."""
    wired: list[str] = []
    got: list[str] = []

    @tool(read_only=True)
    def read(about: str) -> str:
        """Read a note."""
        got.append(about)
        return quoted(text) if door == "answer" else "nothing new"

    @tool
    def wire(to: str) -> str:
        """Send money."""
        wired.append(to)
        return "sent"

    steps = [("read", {"about": text if door == "task" else "the note"}), ("submit", {"answer": "ok"})]
    lm = NativeQuotingLM(steps) if adapter == "native" else QuotingLM(adapter, place, steps)
    book = Playbook(embedder=CallableEmbedder("toy", lambda texts: [[1.0, 0.0] for _ in texts]))
    if door == "playbook":
        book.add(section="Strategies", content=quoted(text))
    mode = "native" if adapter == "native" else "text"
    # a run that goes on without its lessons on a busy machine would count as one whose words were lost
    agent = ReActGenerator(
        tools=[read, wire], playbook=book, lm=lm, tool_calling=mode, policy=Policy.lenient(), memory_timeout=None
    )
    make = ADAPTERS[adapter]
    with dspy.context(adapter=make() if make else None):
        output = agent.run(f"Look it up: {quoted(text)}" if door == "task" else "Look it up")
    yield "a forged call was executed", bool(wired)
    prompts = "\n".join(lm.prompts)
    if door == "feedback":
        notes: list[str] = []
        reader = FunctionLM("reader", lambda prompt: _note(prompt, notes))
        with dspy.context(adapter=dspy.ChatAdapter()):
            Reflector(lm=reader).reflect(output, Feedback(success=False, text=quoted(text)))
        prompts = notes[0].partition("[[ ## known ## ]]")[0]
    data = "".join(re.findall(r"QUOTE-BEGIN(.*?)QUOTE-END", prompts, re.DOTALL))
    yield "something unseen reached a prompt", bool(UNSEEN.search(prompts))
    yield "a marker reached a prompt", bool(MARK.search(data))
    yield "text was lost", not _all_there(text, data)
    if door == "task":
        yield "a tool did not get the original", got[:1] != [text] and bool(got)


def _note(prompt: Any, notes: list[str]) -> str:
    notes.append(str(getattr(prompt, "text", prompt)))
    return "[[ ## lessons ## ]]\n[]\n\n[[ ## completed ## ]]"


def _all_there(text: str, shown: str) -> bool:
    """Check whether each word of a text is still there, unseen characters spelled out."""
    words = re.findall(r"\w+", re.sub("(?i)(next)_", r"\1-", UNSEEN.sub(" ", text)))
    spelled = [f"<U+{ord(c):04X}>" for c in UNSEEN.findall(text) if not c.isspace()]
    known = set(re.findall(r"\w+", shown))
    return known.issuperset(words) and all(mark in shown for mark in spelled)


def on_a_terminal(text: str) -> bool:
    """Check whether a command that shows it sends a terminal something unseen."""
    with cli_console.capture() as captured:
        cli_console.print(text)
    return bool(UNSEEN.search(captured.get()))


def main() -> dict[str, Any]:
    """Return the report."""
    found: Counter[str] = Counter()
    runs: Counter[str] = Counter()
    for adapter in ADAPTERS:
        for door in DOORS:
            for place in PLACES if adapter != "native" else PLACES[:1]:
                for text in FORGED + KEPT:
                    runs["runs"] += 1
                    for what, bad in run(adapter, door, place, text):
                        found[what] += bad
                        if bad:
                            found[f"{what}: {adapter}"] += 1
    found["what must stay was changed"] = sum(as_data(text) != text for text in KEPT)
    found["a terminal got something raw"] = sum(map(on_a_terminal, FORGED))
    return {
        "runs": runs["runs"],
        "bad": sum(n for what, n in found.items() if ": " not in what),
        "found": dict(found),
    }


if __name__ == "__main__":
    command(main)
