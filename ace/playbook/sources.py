"""Where each part of a lesson came from, and what that allows; `docs/trust.md` has the same table in more words."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal, NamedTuple

from ace.playbook.plan import Binding, Constant, FromAnswer, FromTask, Plan

Source = Literal["task", "schema", "field", "text", "program", "model", "judge", "feedback", "person", "import"]
"""Where a part of a lesson came from; `SOURCES` says what each may bring."""
SOURCES: dict[Source, str] = {
    "task": "the words of the user: may be anything",
    "schema": "a tool's name, schema or description: may be anything",
    "field": "a field of an answer: its path is kept, never its value",
    "text": "running text of an untrusted tool's answer: may be an argument; where it asked for a call, the lesson waits",
    "program": "the answer of a trusted tool: may be anything",
    "model": "a language model: may propose; what rests on one untrusted answer waits",
    "judge": "a language model that judged the run: may propose, as a model",
    "feedback": "the words of feedback: may propose, and wait for a person unless the feedback is trusted",
    "person": "a person: may do anything, named in the journal",
    "import": "another book: comes in as shadow, without counts, neither pinned nor trusted until a person or a run says so",
}
"""What a source is, and what a lesson may take from it."""


class Part(NamedTuple):
    """One part of a lesson with its source: `Part("refund(order_id)", "field", "find_order")`."""

    part: str
    source: Source
    tool: str = ""
    """Whose answer it came from."""


def sources_of(plan: Plan | None, words_from: Iterable[Source], *, situations: bool, taught: bool) -> tuple[Part, ...]:
    """Return the parts of a lesson with their sources.

    Args:
        plan: Of a mined lesson.
        words_from: Who gave the words of a lesson without a plan.
        situations: Whether it has situations that were made of requests.
        taught: Whether it rests on runs.

    Examples:
        >>> from ace.playbook.plan import Call
        >>> find = Call(tool="find", args={"number": FromTask(slot="number")})
        >>> refund = Call(tool="refund", args={"order": FromAnswer(call=0, path="id"), "why": Constant(value="damaged")})
        >>> [tuple(part) for part in sources_of(Plan(calls=(find, refund)), (), situations=False, taught=True)]
        [('find(number)', 'task', ''), ('refund(order)', 'field', 'find'), ('refund(why)', 'schema', '')]
    """
    found = [Part("situation", "task")] if situations else []
    if plan is None:
        unknown: tuple[Source, ...] = ("model",) if taught else ("person",)
        return (*found, *(Part("words", source) for source in tuple(words_from) or unknown))
    for call in plan.calls:
        found += [Part(f"{call.tool}({name})", *_source(binding, plan)) for name, binding in call.args.items()]
    return tuple(found)


def _source(binding: Binding, plan: Plan) -> tuple[Source, str]:
    match binding:
        case FromTask():
            return "task", ""
        case FromAnswer(call=index, path=path):
            call = plan.calls[index]
            return ("program" if call.trusted else "field" if path else "text"), call.tool
        case Constant(named=True):
            return "schema", ""
        case _:
            return "model", ""
