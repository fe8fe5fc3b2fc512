"""DSPy's chat adapter at less than half the CPU: the same prompts, and the same read from the same replies."""
# pyright: basic, reportAttributeAccessIssue=false, reportOptionalMemberAccess=false, reportArgumentType=false
# pyright: reportCallIssue=false, reportReturnType=false

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from typing import Any
from weakref import WeakKeyDictionary

import dspy

_HEADING = re.compile(r"\[\[ ## (\w+) ## \]\]")


class KeepingChatAdapter(dspy.ChatAdapter):
    """A `dspy.ChatAdapter` that renders a signature's fixed text once, and reads plain replies by itself.

    DSPy renders that text anew for each request, which takes more time than everything else in it, and makes a pydantic
    validator anew for each value that it reads. What is not plain is left to DSPy. One request is one request: asking
    again after a bad reply is the policy's business, so the fallback to JSON is off.
    """

    def __init__(self, **options: Any) -> None:
        super().__init__(use_json_adapter_fallback=False, **options)
        self._kept: WeakKeyDictionary[type, dict[str, tuple[str | None, str | None]]] = WeakKeyDictionary()

    def _keep(self, what: str, signature: Any, render: Callable[[Any], str | None]) -> str | None:
        """What `render` gave for this signature, unless its instructions were changed since."""
        texts = self._kept.setdefault(signature, {})
        instructions, text = texts.get(what, (None, None))
        if text is None or instructions != signature.__doc__:  # `signature.instructions` cleans them anew each time
            text = render(signature)
            texts[what] = (signature.__doc__, text)
        return text

    def format_system_message(self, signature: Any) -> str:
        return self._keep("system", signature, super().format_system_message)

    def user_message_output_requirements(self, signature: Any) -> str | None:
        return self._keep("requirements", signature, super().user_message_output_requirements)

    def format_user_message_content(
        self, signature: Any, inputs: dict[str, Any], prefix: str = "", suffix: str = "", main_request: bool = False
    ) -> str:
        names = [name for name in signature.input_fields if name in inputs]
        if not all(isinstance(inputs[name], str) for name in names):
            return super().format_user_message_content(signature, inputs, prefix, suffix, main_request)
        parts = [prefix, *(f"[[ ## {name} ## ]]\n{inputs[name]}" for name in names)]
        if main_request and (asked := self.user_message_output_requirements(signature)) is not None:
            parts.append(asked)
        return "\n\n".join([*parts, suffix]).strip()

    def parse(self, signature: Any, completion: str) -> dict[str, Any]:
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
        return dspy.ChatAdapter.parse.__wrapped__(self, signature, completion)

    def __deepcopy__(self, memo: dict[int, Any]) -> KeepingChatAdapter:
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
    """A JSON object without DSPy's repair and the pydantic validator that it makes anew for each value; else None."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None
