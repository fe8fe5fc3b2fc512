"""What a tool raised, as one error with a text for the model and one for the operator."""

from __future__ import annotations

from asyncio import CancelledError

from ace.core import ToolError, ToolErrorKind, clean_text, describe_error
from ace.core.text import exception_leaves, join_leaves

_MAX_CAUSES = 5
"""At most so many causes are named, each behind the other."""


def tool_error(raised: BaseException) -> ToolError:
    """Read any exception as a `ToolError`; of a group, what is in it counts.

    The operator's text names the causes (``raise ... from``), the model's does not.

    Examples:
        >>> failed = tool_error(ExceptionGroup("1 task", [ToolError("refused", "quota of shop 9", "Offer tomorrow.")]))
        >>> failed.kind, failed.message, failed.model_message
        ('refused', 'quota of shop 9', 'Offer tomorrow.')
    """
    leaves = exception_leaves(raised)
    decides = min(leaves, key=lambda leaf: (not isinstance(leaf, ToolError), not isinstance(leaf, Exception)))
    message = clean_text(join_leaves(raised, _for_the_operator))
    return ToolError(_kind(decides), message, clean_text(join_leaves(raised, _for_the_model)), raised)


def _kind(error: BaseException) -> ToolErrorKind:
    match error:
        case ToolError():
            return error.kind
        case CancelledError():
            return "cancelled"
        case ConnectionError() | TimeoutError():  # a time-out of its own, further down the line
            return "network"
        case PermissionError():
            return "permission_denied"
        case _:
            return "exception"


def _for_the_model(error: BaseException) -> str:
    if isinstance(error, CancelledError):
        return "The tool cancelled itself."
    return error.model_message if isinstance(error, ToolError) else describe_error(error)


def _for_the_operator(error: BaseException, depth: int = 0) -> str:
    text = error.message if isinstance(error, ToolError) else describe_error(error)
    cause = error.source if isinstance(error, ToolError) and error.source is not None else error.__cause__
    if cause is None or depth == _MAX_CAUSES or describe_error(cause) in text:
        return text
    return f"{text} (caused by {_for_the_operator(cause, depth + 1)})"
