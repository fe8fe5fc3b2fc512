"""Spans of OpenTelemetry's GenAI conventions, where the host has set OpenTelemetry up; without that, nothing is done.

Names and attributes are those of semantic-conventions-genai v0.1. What tasks, tools and lessons say is left out unless the
variable OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT asks for it.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

from ace.core import value_to_text

CONTENT = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"


class Span:
    """A span that is open, or none: `with span("search_memory") as open_span: open_span.fail("timeout")`."""

    def __init__(self, inner: Any = None) -> None:
        self._inner = inner
        self._tells = inner is not None and os.environ.get(CONTENT, "").lower() == "true"

    def set(self, **attributes: Any) -> None:
        """Set attributes of the conventions: `memory__record__count` is ``gen_ai.memory.record.count``."""
        if self._inner is not None:
            for name, value in attributes.items():
                self._inner.set_attribute(f"gen_ai.{name.replace('__', '.')}", value)

    def tell(self, **contents: Any) -> None:
        """Set attributes as `set` does, for what tasks, tools and lessons say."""
        if self._tells:
            self.set(**{name: value_to_text(value) for name, value in contents.items()})

    def fail(self, kind: str) -> None:
        """End it with an error of this kind."""
        if self._inner is not None:
            from opentelemetry.trace import Status, StatusCode

            self._inner.set_attribute("error.type", kind)
            self._inner.set_status(Status(StatusCode.ERROR))


_NONE = Span()


def traced() -> bool:
    """Check whether the host has set up a provider of spans."""
    api = sys.modules.get("opentelemetry.trace")
    if api is None:
        return False
    return type(api.get_tracer_provider()).__name__ not in ("ProxyTracerProvider", "NoOpTracerProvider")


@contextmanager
def span(operation: str, name: str = "", **attributes: Any) -> Generator[Span]:
    """Open a span around a block; what the block raises is its error.

    Args:
        operation: As the conventions call it: ``invoke_agent``, ``search_memory`` ...
        name: Of the agent or the tool, the second word of the span's name; none by default.
        **attributes: As for `Span.set`.
    """
    if not traced():
        yield _NONE
        return
    tracer = sys.modules["opentelemetry.trace"].get_tracer("ace")
    title = f"{operation} {name}".strip()
    named = {f"gen_ai.{key.replace('__', '.')}": value for key, value in attributes.items()}
    named["gen_ai.operation.name"] = operation
    options: dict[str, Any] = {"record_exception": False, "set_status_on_exception": False}
    with tracer.start_as_current_span(title, attributes=named, **options) as inner:
        opened = Span(inner)
        try:
            yield opened
        except BaseException as error:
            opened.fail(type(error).__name__)
            raise
