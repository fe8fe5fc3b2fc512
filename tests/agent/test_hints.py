"""What a forgiving agent says after a call with an id that is not there."""

import pytest

from ace.agent.hints import LONGEST, where_to_find
from ace.agent.policy import Policy
from ace.core import ToolError
from ace.tasks import ReasoningStep
from ace.tools import ToolRegistry, tool
from tests.agent.kit import call, play


@tool(read_only=True)
def find_orders(customer: str) -> list[dict[str, str]]:
    """Find a customer's orders."""
    return [{"order_id": "o-1", "status": "open"}, {"order_id": "o-2", "status": "shipped"}]


@tool
def cancel_order(order_id: str) -> str:
    """Cancel an order."""
    if order_id not in ("o-1", "o-2"):
        raise ToolError("not_found", f"There is no order {order_id!r}.")
    return "cancelled"


TOOLS = ToolRegistry([find_orders, cancel_order])


def step(observation, outcome="success"):
    return ReasoningStep(
        iteration=1, tool_call_id="c", tool_name="find_orders", outcome=outcome, observation=observation
    )


@pytest.mark.parametrize(
    ("args", "observations", "said"),
    [
        ({"order_id": "5"}, [], "(Look `order_id` up with find_orders first.)"),
        ({"orderId": "5"}, [], "(Look `orderId` up with find_orders first.)"),
        (
            {"order_id": "5"},
            ['{"orders": [{"order_id": "o-1"}]} (Not made.)'],
            "(`order_id` in the results above: 'o-1'.)",
        ),
        ({"order_id": "o-1"}, ['{"order_id": "o-1"}'], ""),
        ({"order_id": 5}, [], ""),
        ({"paid": "5", "id": "5"}, [], ""),
        ({"invoice_id": "5"}, [], ""),
        (
            {"order_id": "5"},
            ['{"order_id": "%s"}' % ("x" * (LONGEST + 1))],
            "(Look `order_id` up with find_orders first.)",
        ),
        ({"order_id": "5"}, ["[" * 100_000], "(Look `order_id` up with find_orders first.)"),
    ],
)
def test_ids_come_from_results_or_from_the_tools_that_find_them(args, observations, said):
    assert where_to_find(args, TOOLS, [step(one) for one in observations]) == said


def test_what_a_failed_call_gave_is_no_place_to_find_an_id():
    failed = step('{"order_id": "o-9"}', "failed")
    assert where_to_find({"order_id": "5"}, TOOLS, [failed]) == "(Look `order_id` up with find_orders first.)"


def play_guess(policy):
    replies = [
        call("cancel_order", order_id="5"),
        call("find_orders", customer="Ada"),
        call("cancel_order", order_id="6"),
    ]
    out, _ = play(*replies, call("submit", answer="x"), tools=[find_orders, cancel_order], policy=policy)
    return [one.observation for one in out.structured_trace if one.outcome == "failed"]


def test_a_forgiving_agent_says_it_after_a_failed_call():
    assert play_guess(Policy.forgiving()) == [
        "There is no order '5'. (Look `order_id` up with find_orders first.)",
        "There is no order '6'. (`order_id` in the results above: 'o-1', 'o-2'.)",
    ]


def test_what_the_tool_said_stays_in_the_error_as_it_was():
    replies = [call("cancel_order", order_id="5"), call("submit", answer="x")]
    out, _ = play(*replies, tools=[find_orders, cancel_order], policy=Policy.forgiving())
    [one] = out.structured_trace
    assert (one.error.message, one.observation.endswith("first.)")) == ("There is no order '5'.", True)


def test_other_policies_say_what_the_tool_said():
    assert play_guess(Policy()) == ["There is no order '5'.", "There is no order '6'."]
