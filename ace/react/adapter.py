"""How a decision is asked for and read: a form of our own for models of every size, and DSPy's adapters as they are.

Nothing of an adapter is changed but `parse`: a reply is read in whatever shape the model wrote it. `TurnsAdapter` alone
writes prompts of its own, because small models need it: chat turns instead of fields, the tools as signatures in the system
message, and one example of a reply instead of a schema.
"""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Callable, Sequence
from typing import Any

import dspy
from dspy.adapters import utils

from ace.agent.hints import ids_in
from ace.agent.history import CALLS, NOTE, PLAYBOOK, RESULTS, SUBMIT, THOUGHT, TOOLS, as_text, ends_run
from ace.core import InvalidModelAction, value_to_text
from ace.react.catalog import ToolCatalog
from ace.react.reading.objects import is_object, strict
from ace.react.reading.reader import MARKUP, Reading, Written

_UTILS: Any = utils
WrittenTurns = list[tuple[dict[str, Any], list[dict[str, Any]]]]
_SHAPE = (
    "Reply in each turn with one line of JSON: the one call that comes next, for example:\n"
    '{{"name": "{name}", "args": {args}}}\n'
    "You may say why in a few words before it. Its result comes as the next message; then write the call after it. When all "
    "of the task is done, call {end}."
)
_RANKS = {NOTE: 0, PLAYBOOK: 1}
"""What stands first in a message: what the run-time says, then notes of earlier runs, then the inputs."""


class ReplyReader:
    """Reads the reply to one request, and keeps what it found: DSPy's prediction holds only what is well formed.

    Args:
        catalog: The tools.
        shown: Gives the prompt's data: a call that stands there word for word is a quotation.
        outputs: The outputs that the reply has to give, where the answer is asked for; none for a decision.
    """

    def __init__(self, catalog: ToolCatalog, shown: Callable[[], str], outputs: Sequence[str] = ()) -> None:
        self.catalog = catalog
        self.shown = shown
        self.outputs = outputs
        self.text: str | None = None
        """The reply, where it was text."""
        self.made: tuple[Written, ...] = ()
        """The calls of a text that are made."""
        self.ignored: tuple[str, ...] = ()
        """Tools of further calls of the reply that are not made."""

    def read(self, completion: str) -> tuple[str, Any]:
        """Read thought and calls of a reply in text.

        Raises:
            InvalidModelAction: No call stands in it.
        """
        self.text = completion
        found = self.catalog.reader.read(completion, self.shown)
        if self.outputs and not any(ends_run(call.name) for call in found.calls):
            found = self._answer(completion)
        if not found.calls:
            raise nothing_to_do(found, completion)
        self.made = self.together(completion, found.calls)
        self.ignored = tuple(str(call.name) for call in found.calls[len(self.made) :])
        return found.thought or _before(completion, self.made[0]), tool_calls(self.made)

    def _answer(self, completion: str) -> Reading:
        """Read a last reply without a call: the outputs by their headings, or, where there is one output, the text."""
        given: dict[str, Any] = _parts(completion, self.outputs)
        if not given and len(self.outputs) == 1 and "[[ ##" not in completion:
            given = {self.outputs[0]: completion.strip()} if completion.strip() else {}
        typed = self.catalog.reader.arguments(SUBMIT, given, as_text=True)
        return Reading("", (Written(SUBMIT, typed),)) if given else Reading()

    def together(self, reply: str, calls: Sequence[Written]) -> tuple[Written, ...]:
        """Choose the calls of a reply that are made: the first, those of one list with it, and others that only read.

        What stands in a list is meant to be done at once. Of calls that merely follow each other, a small model has often
        made up what the first would give: those that change something wait for that, and those with an id that stands
        nowhere in the prompt. So does what comes after words.
        """
        first, *others = calls
        made, position = [first], reply.find(first.source) + len(first.source) if first.source else -1
        for call in others:
            start = reply.find(call.source, position) if call.source and position >= 0 else -1
            between = reply[position:start] if start >= 0 else ""
            in_one = call.source == first.source
            if not in_one and (start < 0 or MARKUP.sub("", between)):
                break
            listed = in_one or between.strip().startswith(",")
            if not listed and not self._harmless(made, call):
                break
            made.append(call)
            position = max(position, start + len(call.source))
        return tuple(made)

    def _harmless(self, made: Sequence[Written], call: Written) -> bool:
        """Check whether a call can be made beside others: all of them only read, and its ids stand in the prompt."""
        reads = all(self.catalog.only_reads(one.name) for one in (*made, call))
        return reads and all(one in self.shown() for one in ids_in(call.args))


def _parts(reply: str, names: Sequence[str]) -> dict[str, Any]:
    """Read the outputs that stand in a reply: under headings, in an object, or in tags."""
    value = strict(re.sub(r"\A```\w*\n|\n```\Z", "", reply.strip()))
    if is_object(value):
        return {name: value[name] for name in names if name in value}
    _, *found = re.split(r"^\[\[ ## (\w+) ## \]\][ \t]*\n?", reply, flags=re.M)
    pairs = zip(found[::2], found[1::2], strict=True)
    headed = {name: text.strip() for name, text in pairs if name in names}
    tagged = (re.search(rf"<{re.escape(name)}>(.*?)</{re.escape(name)}>", reply, re.S) for name in names)
    return headed or {name: tag[1].strip() for name, tag in zip(names, tagged, strict=True) if tag is not None}


def _before(reply: str, call: Written) -> str:
    """Return what a reply says before its first call."""
    said = reply.partition(call.source)[0].strip() if call.source else ""
    return re.sub(r"(?:```\w*|<\w+>)\Z", "", said).strip() if MARKUP.sub("", said) else ""


def tool_calls(calls: Sequence[Written]) -> dspy.ToolCalls:
    """Convert calls to DSPy's; arguments that are no object are left out there."""
    items = [{"name": str(call.name), "args": call.args if is_object(call.args) else {}} for call in calls]
    made = dspy.ToolCalls.from_dict_list(items)
    for call in made.tool_calls:
        # DSPy's optimizers draw by a hash of pickled demonstrations: a set of several words lies otherwise in each process
        call.model_fields_set.clear()
    return made


def reading(adapter: Any, replies: ReplyReader, *, native: bool = False) -> Any:
    """Copy an adapter, for one request, so that it reads a decision's reply in any shape; its prompts stay its own.

    It asks no second model: what to do about a bad reply is the policy's business.

    Args:
        adapter: DSPy's chat, JSON or XML adapter, or one derived from them; another comes back as it is.
        replies: Reads and keeps the reply.
        native: Whether calls come beside the text.
    """
    if not isinstance(adapter, dspy.ChatAdapter):
        return adapter
    copied: Any = copy.copy(adapter)
    copied.use_json_adapter_fallback = False
    copied.use_native_function_calling = native
    own: Callable[[Any, str], dict[str, Any]] = copied.parse

    def parse(signature: Any, completion: str) -> dict[str, Any]:
        fields = signature.output_fields
        if native:  # the calls are the API's; what is left is the thought, or the answer as text
            replies.text = completion
            return {name: completion for name in fields if name == THOUGHT}
        if CALLS not in fields:
            return own(signature, completion)
        thought, calls = replies.read(completion)
        return {name: dspy.Reasoning(content=thought) if name == THOUGHT else calls for name in fields}

    copied.parse = parse
    return copied


class TurnsAdapter(dspy.ChatAdapter):
    """Chat turns for a run: the tools in the system message, then what was said, each reply, and each result.

    Each request of a run is the one before and what is new. It is made for one request; see `reading`.

    Args:
        catalog: The tools as text; empty in native mode, where they are the API's parameter.
        written: Turns of earlier requests of the run with their messages: they are not written again.
    """

    def __init__(self, catalog: str = "", written: WrittenTurns | None = None) -> None:
        super().__init__(use_json_adapter_fallback=False)
        self.catalog = catalog
        self.written: WrittenTurns = [] if written is None else written

    def format_system_message(self, signature: Any) -> str:
        """Say what to do, which tools there are, and what a reply looks like."""
        parts = [str(signature.instructions)]
        if not self.use_native_function_calling:
            parts += [f"Tools:\n{self.catalog}", _shape(self.catalog)]
        return "\n\n".join(parts)

    def format_user_message_content(
        self, signature: Any, inputs: dict[str, Any], prefix: str = "", suffix: str = "", main_request: bool = False
    ) -> str:
        """Write the fields that are given, each under its heading; results by themselves."""
        if RESULTS in signature.input_fields:
            return _results(inputs[RESULTS].tool_call_results)
        parts = [prefix]
        for name in sorted(signature.input_fields, key=lambda name: _RANKS.get(name, 2)):
            value = inputs.get(name)
            if name == TOOLS or value is None or value == "":
                continue
            if isinstance(value, dspy.History):  # of a demonstration
                value = as_text(value.messages)
            text = _UTILS.format_field_value(field_info=signature.input_fields[name], value=value)
            parts.append(str(text) if name == NOTE else f"[[ ## {name} ## ]]\n{text}")
        return "\n\n".join(filter(None, [*parts, suffix]))

    def format_conversation_history(
        self, signature: Any, history_field_name: str, inputs: dict[str, Any]
    ) -> list[dict[str, Any]]:
        """Write the turns before this request, as messages."""
        messages: list[dict[str, Any]] = []
        for number, turn in enumerate(inputs.pop(history_field_name).messages):
            if number >= len(self.written) or self.written[number][0] != turn:
                one = {history_field_name: dspy.History(messages=[turn])}
                said = super().format_conversation_history(signature, history_field_name, one)
                self.written[number:] = [(turn, said)]
            messages += map(dict, self.written[number][1])
        return messages

    def user_message_output_requirements(self, signature: Any) -> str | None:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Return None: the system message says what a reply looks like, and each earlier reply shows it."""
        return None

    def format_assistant_message_content(
        self, signature: Any, outputs: dict[str, Any], missing_field_message: str | None = None
    ) -> str:
        """Write a reply: the thought, then each call."""
        thought = outputs.get(THOUGHT) if THOUGHT in signature.output_fields else None
        calls = outputs.get(CALLS) if CALLS in signature.output_fields else None
        made = [] if calls is None else dspy.ToolCalls.model_validate(calls).tool_calls
        lines = [json.dumps({"name": call.name, "args": call.args}, ensure_ascii=False) for call in made]
        return "\n".join(filter(None, [str(thought or ""), *lines]))


def _results(results: Sequence[Any]) -> str:
    """Write the results of a turn."""
    names = ["result"] if len(results) == 1 else [f"result_{number}" for number in range(1, len(results) + 1)]
    named = zip(names, results, strict=True)
    return "\n\n".join(f"[[ ## {name} ## ]]\n{value_to_text(result.value)}" for name, result in named)


def _shape(catalog: str) -> str:
    """Show what a reply looks like, with a tool of the catalog."""
    lines = [line for line in catalog.splitlines() if re.match(r"[^\s(]+\(", line)]
    first = next((line for line in lines if not line.startswith(f"{SUBMIT}(")), lines[0] if lines else f"{SUBMIT}()")
    name, _, rest = first.partition("(")
    names = re.findall(r"(?:^|, )(\w+)\??: ", rest.partition("): ")[0])
    args = "{" + ", ".join(f'"{arg}": ...' for arg in names[:2]) + "}"
    return _SHAPE.format(name=name, args=args, end=SUBMIT)


def nothing_to_do(found: Reading, completion: str) -> InvalidModelAction:
    """Make the error of a reply without a whole call."""
    if found.cut:
        text = "The reply was cut off inside a call, and nothing of it was made. Write the whole call again, with less text."
    else:
        text = (
            "The reply could not be read: no call stands in it. Write one JSON object for each call: "
            f'{{"name": "a tool", "args": {{...}}}}; when you are done, call {SUBMIT}.'
        )
    return InvalidModelAction("unparsable" if completion.strip() else "empty", text, raw_response=completion)
