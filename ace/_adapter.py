"""DSPy's chat adapter with the parts of a prompt that do not change kept: same prompts, less than half the CPU."""
# pyright: basic, reportAttributeAccessIssue=false, reportOptionalMemberAccess=false, reportArgumentType=false
# pyright: reportCallIssue=false, reportReturnType=false

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from weakref import WeakKeyDictionary

import dspy


class KeepingChatAdapter(dspy.ChatAdapter):
    """A `dspy.ChatAdapter` that renders a signature's fixed text once.

    DSPy renders it anew for each request, which takes more time than everything else in it. One request is one request:
    asking again after a bad reply is the policy's business, so the fallback to JSON is off.
    """

    def __init__(self, **options: Any) -> None:
        super().__init__(use_json_adapter_fallback=False, **options)
        self._kept: WeakKeyDictionary[type, dict[str, tuple[str, str | None]]] = WeakKeyDictionary()

    def _keep(self, what: str, signature: Any, render: Callable[[Any], str | None]) -> str | None:
        """What `render` gave for this signature, unless its instructions were changed since."""
        texts = self._kept.setdefault(signature, {})
        instructions, text = texts.get(what, (None, None))
        if instructions != signature.instructions:
            text = render(signature)
            texts[what] = (signature.instructions, text)
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

    def __deepcopy__(self, memo: dict[int, Any]) -> KeepingChatAdapter:
        return self
