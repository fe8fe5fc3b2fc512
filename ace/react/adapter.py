"""DSPy's chat adapter at less than half the CPU: equal prompts, and equal results from equal replies."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, cast
from weakref import WeakKeyDictionary

import dspy

from ace.core import InvalidModelAction
from ace.react.reading.reader import CallReader, Reading

_DECISION = {"next_thought", "next_tool_name", "next_tool_args"}
_DECISION_LAYOUT = re.compile(
    r"\[\[ ## next_thought ## \]\]\n(.*?)\n\[\[ ## next_tool_name ## \]\]\n(.*?)\n\[\[ ## next_tool_args ## \]\]\n(.*?)\n"
    r"\[\[ ## completed ## \]\]\s*",
    re.S,
)
_NAME_HEADING = "[[ ## next_tool_name ## ]]"
"""Where it stands twice, two decisions were written: the reader says what becomes of each."""
_HEADING = re.compile(r"\[\[ ## (\w+) ## \]\]")


class SignatureTexts:
    """The fixed texts of signatures, each rendered once."""

    def __init__(self) -> None:
        self._texts: WeakKeyDictionary[type, dict[str, tuple[str | None, str | None]]] = WeakKeyDictionary()

    def get(self, what: str, signature: Any, render: Callable[[Any], str | None]) -> str | None:
        """What `render` gave for this signature, unless its instructions were changed since."""
        texts = self._texts.setdefault(signature, {})
        instructions, text = texts.get(what, (None, None))
        if text is None or instructions != signature.__doc__:  # `signature.instructions` cleans them again each time
            text = render(signature)
            texts[what] = (signature.__doc__, text)
        return text


def user_message(
    signature: Any, inputs: dict[str, Any], prefix: str = "", suffix: str = "", asked: str | None = None
) -> str | None:
    """A user message as DSPy writes it; None where an input is no text, which is left to DSPy."""
    names = [name for name in signature.input_fields if name in inputs]
    if not all(isinstance(inputs[name], str) for name in names):
        return None
    parts = [prefix, *(f"[[ ## {name} ## ]]\n{inputs[name]}" for name in names)]
    return "\n\n".join([*parts, *([asked] if asked is not None else []), suffix]).strip()


class CachedChatAdapter(dspy.ChatAdapter):
    """A `dspy.ChatAdapter` that renders a signature's fixed text once, and reads plain replies by itself.

    DSPy renders that text again for each request, which takes more time than everything else in it, and builds a pydantic
    validator for each value that it reads. What is not plain is left to DSPy. One request is one request: asking
    again after a bad reply is the policy's business, so the fallback to JSON is off.
    """

    def __init__(self, **options: Any) -> None:
        super().__init__(use_json_adapter_fallback=False, **options)
        self._texts = SignatureTexts()

    def format_system_message(self, signature: Any) -> str:
        """As DSPy's; rendered once for each signature."""
        return self._texts.get("system", signature, super().format_system_message) or ""

    def user_message_output_requirements(self, signature: Any) -> str | None:  # pyright: ignore[reportIncompatibleMethodOverride]
        """As DSPy's; rendered once for each signature."""
        return self._texts.get("requirements", signature, super().user_message_output_requirements)

    def format_user_message_content(
        self, signature: Any, inputs: dict[str, Any], prefix: str = "", suffix: str = "", main_request: bool = False
    ) -> str:
        """As DSPy's; the fixed parts are rendered once for each signature."""
        asked = self.user_message_output_requirements(signature) if main_request else None
        shown = user_message(signature, inputs, prefix, suffix, asked)
        if shown is None:
            return super().format_user_message_content(signature, inputs, prefix, suffix, main_request)
        return shown

    def parse(self, signature: Any, completion: str) -> dict[str, Any]:
        """As DSPy's; plain replies are read without building a validator for each value."""
        found = plain_fields(signature.output_fields, completion)
        if found is not None:
            return found
        # DSPy knows what to make of it; unwrapped, because callbacks hear of this very parse already
        parse: Any = dspy.ChatAdapter.parse
        return parse.__wrapped__(self, signature, completion)

    def __deepcopy__(self, memo: dict[int, Any]) -> CachedChatAdapter:
        return self


def reading(adapter: Any, reader: CallReader, shown: Callable[[], str]) -> Any:
    """A copy of an adapter that reads a decision's reply in any shape; its prompts, and other replies, stay its own.

    An adapter for one request. It asks no second model: what to do about a bad reply is the policy's business.

    Args:
        adapter: DSPy's chat, JSON or XML adapter, or one derived from them; another comes back as it is.
        reader: Reads the calls.
        shown: Gives the prompt's data.
    """
    if not isinstance(adapter, dspy.ChatAdapter):
        return adapter
    made: Any = _reading_class(cast(Any, type(adapter)))
    copied: Any = made.__new__(made)
    copied.__dict__.update(cast(Any, adapter).__dict__)
    copied.use_json_adapter_fallback = False
    copied.reader, copied.shown, copied.unmade = reader, shown, ()
    return copied


@lru_cache(maxsize=32)
def _reading_class(base: type) -> type:
    """The adapter's class with another `parse`, by its own name: DSPy looks at names."""

    def parse(self: Any, signature: Any, completion: str) -> dict[str, Any]:
        fields = signature.output_fields
        if fields.keys() != _DECISION:
            return _undecorated(base)(self, signature, completion)
        plain = _plain_decision(completion) or plain_fields(fields, completion)
        if plain is not None and self.reader.has(plain["next_tool_name"]) and completion.count(_NAME_HEADING) == 1:
            return plain
        found = self.reader.read(completion, self.shown)
        if not found.calls:
            raise nothing_to_do(found, completion)
        first = next((call for call in found.calls if call.name != "finish"), found.calls[0])
        self.unmade = tuple(str(call.name) for call in found.calls if call is not first)
        return {"next_thought": found.thought, "next_tool_name": first.name, "next_tool_args": first.args}

    return type(base.__name__, (base,), {"parse": parse, "__doc__": base.__doc__})


def conversing(adapter: Any, turns: Sequence[Mapping[str, Any]], rendered: dict[Any, list[dict[str, Any]]]) -> Any:
    """A copy of an adapter, for one request, that puts earlier turns before the message.

    Args:
        adapter: Any of DSPy's.
        turns: The fields of each turn, inputs and outputs.
        rendered: Keeps the messages of these turns, which are the same for each request of a run.
    """
    made: Any = _conversing_class(cast(Any, type(adapter)))
    copied: Any = made.__new__(made)
    copied.__dict__.update(adapter.__dict__)
    copied.turns, copied.rendered = turns, rendered
    if hasattr(copied, "use_json_adapter_fallback"):
        copied.use_json_adapter_fallback = False  # another adapter would not know of the turns
    return copied


@lru_cache(maxsize=32)
def _conversing_class(base: type) -> type:
    def format(self: Any, signature: Any, demos: Any, inputs: dict[str, Any]) -> list[dict[str, Any]]:
        # the catalog stands in the first message and stays there, so that a prompt only grows
        first = {name: text for name, text in inputs.items() if name == "tools"}
        message = {name: text for name, text in inputs.items() if name != "tools"}
        messages: list[dict[str, Any]] = _plain_format(base)(self, signature, demos, message)
        key = (signature, first.get("tools"))
        if key not in self.rendered:
            earlier: list[dict[str, Any]] = []
            self.rendered[key] = earlier
            for number, turn in enumerate(self.turns):
                asked = self.format_user_message_content(signature, {**first, **turn}, main_request=not number)
                answered = self.format_assistant_message_content(signature, turn)
                earlier += [{"role": "user", "content": asked}, {"role": "assistant", "content": answered}]
                first = {}
        closing: Any = getattr(self, "user_message_output_requirements", None)
        last = _without_closing(messages[-1], closing(signature) if closing is not None else None)
        return [*messages[:-1], *map(dict, self.rendered[key]), last]

    return type(base.__name__, (base,), {"format": format, "__doc__": base.__doc__})


def _without_closing(message: dict[str, Any], closing: str | None) -> dict[str, Any]:
    """A message without the layout of its reply: the first one of the conversation has it, and each answer shows it.

    At the end of each message it would be the one part of a prompt that moves, and that no cache serves.
    """
    content = message["content"]
    if not closing:
        return message
    if isinstance(content, str):
        return {**message, "content": content.removesuffix(closing).rstrip()}
    *others, end = content  # text, and images
    if end.get("type") == "text":
        end = {**end, "text": end["text"].removesuffix(closing).rstrip()}
    return {**message, "content": [*others, end]}


def _plain_format(base: Any) -> Callable[..., list[dict[str, Any]]]:
    """The class's own `format` without DSPy's callbacks, which hear of ours already."""
    return getattr(base.format, "__wrapped__", base.format)


def _undecorated(base: Any) -> Callable[..., dict[str, Any]]:
    """The class's own `parse` without DSPy's callbacks, which hear of ours already."""
    return getattr(base.parse, "__wrapped__", base.parse)


def nothing_to_do(found: Reading, completion: str) -> InvalidModelAction:
    """The error of a reply without a whole call."""
    if found.cut:
        text = "The reply was cut off inside a call, and nothing of it was made. Write the whole call again, with less text."
    else:
        text = (
            "The reply could not be read: no call stands in it. Write each of next_thought, next_tool_name, next_tool_args "
            "once, in the format that was asked for; next_tool_args is a JSON object."
        )
    return InvalidModelAction("unparsable" if completion.strip() else "empty", text, raw_response=completion)


def _plain_decision(completion: str) -> dict[str, Any] | None:
    """`plain_fields` of a decision that is nothing but its four headings: most are, and so they are read at once."""
    found = _DECISION_LAYOUT.fullmatch(completion)
    if found is None or completion.count("[[ ## ") != len(_DECISION) + 1:
        return None
    args = _json_object(found[3])
    return (
        None
        if args is None
        else {"next_thought": found[1].strip(), "next_tool_name": found[2].strip(), "next_tool_args": args}
    )


def plain_fields(fields: Mapping[str, Any], completion: str) -> dict[str, Any] | None:
    """The fields of a reply that keeps to the layout word for word; None for any other."""
    found: dict[str, Any] = {}
    for name, text in _sections(completion):
        if name not in fields or name in found:
            continue
        if fields[name].annotation is str:
            found[name] = text
        elif fields[name].annotation == dict[str, Any] and (value := _json_object(text)) is not None:
            found[name] = value
        else:
            return None
    return {name: found[name] for name in fields} if found.keys() == fields.keys() else None


def _sections(completion: str) -> Iterator[tuple[str, str]]:
    """The fields of a reply: what stands under each heading, up to the next."""
    name, lines = "", list[str]()
    for line in completion.splitlines():
        if "[[ ## " in line and (heading := _HEADING.match(line.strip())):
            yield name, "\n".join(lines).strip()
            name, lines = heading[1], [line[heading.end() :].strip()]
        else:
            lines.append(line)
    yield name, "\n".join(lines).strip()


def _json_object(text: str) -> dict[str, Any] | None:
    """A JSON object without DSPy's repair and the pydantic validator that it builds for each value; else None."""
    try:
        value: Any = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return cast("dict[str, Any]", value) if isinstance(value, dict) else None
