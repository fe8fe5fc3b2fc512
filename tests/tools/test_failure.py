"""What a tool raised, as the model and the operator read it."""

import asyncio

import pytest

from ace import Tool, ToolError
from ace.tools import ToolCall, acall_tool, call_tool
from ace.tools.failure import tool_error


async def in_a_group(*errors):
    async def fail(error):
        raise error

    async with asyncio.TaskGroup() as group:
        for error in errors:
            group.create_task(fail(error))


def failing(raising):
    async def reserve() -> str:
        """Reserve."""
        await raising()
        return "7"

    tool, call = Tool.from_function(reserve), ToolCall(id="c", name="reserve")
    results = [call_tool(tool, call), asyncio.run(acall_tool(tool, call))]
    assert len({(result.text, result.message, result.error_kind) for result in results}) == 1
    return results[0]


@pytest.mark.parametrize(
    ("error", "kind", "text"),
    [
        (ConnectionError("warehouse 2 is down"), "network", "ConnectionError: warehouse 2 is down"),
        (PermissionError("not yours"), "permission_denied", "PermissionError: not yours"),
        (
            ToolError("refused", "quota of shop 9 is used up", "Nothing is left today."),
            "refused",
            "Nothing is left today.",
        ),
        (ValueError("no such item"), "exception", "ValueError: no such item"),
    ],
)
def test_of_a_group_the_model_reads_the_leaf(error, kind, text):
    result = failing(lambda: in_a_group(error))
    assert (result.error_kind, result.text) == (kind, text)


def test_a_group_in_a_group_is_read_to_its_leaves():
    result = failing(lambda: in_a_group(ExceptionGroup("inner", [ExceptionGroup("deep", [KeyError("pen")])])))
    assert result.text == "KeyError: 'pen'"


def test_a_tool_error_decides_the_kind_of_its_group():
    found = tool_error(
        ExceptionGroup("two", [ValueError("a"), ToolError("not_found", "vault-3 lacks it", "It is gone.")])
    )
    assert (found.kind, found.model_message) == ("not_found", "ValueError: a; It is gone.")
    assert found.message == "ValueError: a; vault-3 lacks it"


def test_the_operator_reads_the_cause_and_the_model_does_not():
    async def price():
        try:
            raise KeyError("price")
        except KeyError as missing:
            try:
                raise LookupError("no row") from missing
            except LookupError as error:
                raise ValueError("no price for the pen") from error

    result = failing(price)
    assert result.text == "ValueError: no price for the pen"
    assert (
        result.message
        == "ValueError: no price for the pen (caused by LookupError: no row (caused by KeyError: 'price'))"
    )


def test_the_operators_text_of_a_tool_error_names_its_source():
    error = ToolError("refused", "card 17 in vault-3", "The card is blocked.", source=ConnectionError("vault-3"))
    assert tool_error(error).message == "card 17 in vault-3 (caused by ConnectionError: vault-3)"
    assert tool_error(error).model_message == "The card is blocked."


def test_a_cause_that_the_text_names_is_not_named_twice():
    try:
        raise ToolError("network", "no answer: ConnectionError: gone") from ConnectionError("gone")
    except ToolError as error:
        assert tool_error(error).message == "no answer: ConnectionError: gone"


def test_causes_that_go_round_end():
    one, other = ValueError("one"), ValueError("other")
    one.__cause__, other.__cause__ = other, one
    assert tool_error(one).message.count("caused by") == 5


def test_a_context_that_was_not_asked_for_is_no_cause():
    async def fail():
        try:
            raise KeyError("a")
        except KeyError:
            raise ValueError("b")  # noqa: B904

    assert failing(fail).message == "ValueError: b"


def test_a_call_that_was_cancelled_beside_an_error_is_of_the_errors_kind():
    found = tool_error(BaseExceptionGroup("two", [asyncio.CancelledError(), ConnectionError("gone")]))
    assert found.kind == "network"
    assert tool_error(asyncio.CancelledError()).kind == "cancelled"
