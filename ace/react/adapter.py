"""DSPy's chat adapter at less than half the CPU: equal prompts, and equal results from equal replies."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from typing import Any, cast
from weakref import WeakKeyDictionary

import dspy

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
        fields = signature.output_fields
        found: dict[str, Any] = {}
        for name, text in _sections(completion):
            if name not in fields or name in found:
                continue
            if fields[name].annotation is str:
                found[name] = text
            elif fields[name].annotation == dict[str, Any] and (value := _json_object(text)) is not None:
                found[name] = value
            else:
                break
        if found.keys() == fields.keys():
            return {name: found[name] for name in fields}
        # DSPy knows what to make of it; unwrapped, because callbacks hear of this very parse already
        parse: Any = dspy.ChatAdapter.parse
        return parse.__wrapped__(self, signature, completion)

    def __deepcopy__(self, memo: dict[int, Any]) -> CachedChatAdapter:
        return self


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
