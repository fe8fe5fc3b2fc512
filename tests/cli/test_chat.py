"""`ace chat`."""

import re

from command import ace
from loopback import openai_server

from ace.testing import decision

SHOP = '''
from ace import tool


@tool(read_only=True)
def find_orders(customer: str) -> list[str]:
    """Find the orders of a customer."""
    return [f"o-{customer}"]


@tool(requires_approval=True)
def refund(order_id: str) -> str:
    """Refund an order."""
    return f"{order_id} refunded"


tools = [find_orders, refund]
'''


def clerk(prompt):
    """Finds the order that a message names; "it" is the one that was found before."""
    said, steps = prompt.fields["task"], prompt.steps
    if "badly" in said and steps:
        return decision("no_such_tool")
    if "efund" in said:
        known = re.findall(r"o-\w+", prompt.whole)
        return decision("finish", answer="Refunded") if steps else decision("refund", order_id=known[-1])
    if steps:
        return decision("finish", answer=f"It is {steps[-1]['observation']}")
    return decision("find_orders", customer=re.search(r"(\w+)'s", said)[1])


def talk(tmp_path, typed, *words, code=0):
    (tmp_path / "my_shop.py").write_text(SHOP)
    with openai_server(clerk) as (url, _):
        return ace(
            "chat", "--lm", "openai/x", "--api-base", url, "--tools", "my_shop:tools", "--chats", tmp_path / "chats", *words,
            cwd=tmp_path, code=code, typed=typed, DSPY_CACHEDIR=str(tmp_path / "cache"),
        )  # fmt: skip


def test_messages_know_the_ones_before_also_in_another_process(tmp_path):
    text = talk(tmp_path, "Find Ana's order\nAnd Ben's\n")
    assert "· find_orders" in text
    assert 'It is ["o-Ana"]' in text
    assert "ace chat --name" in text
    again = talk(tmp_path, "Refund it\ny\n", "--resume")
    assert "> Find Ana's order" in again  # what was said before is shown
    assert "refund({'order_id': 'o-Ben'})" in again
    assert "Refunded" in again


def test_a_decision_may_come_in_another_process(tmp_path):
    talk(tmp_path, "Find Ana's order\nRefund it\n", "--name", "ana")
    text = talk(tmp_path, "n\n", "--name", "ana")
    assert "May this be called?" in text
    assert "Refunded" in text  # the stand-in says so whatever happened


def test_a_run_that_fails_after_it_was_approved_has_failed(tmp_path):
    text = talk(tmp_path, "Find Ana's order\nRefund it badly\ny\n", code=1)
    assert "refund({'order_id': 'o-Ana'})" in text
    assert "invalid_model_action" in text


def test_what_was_right_is_learned(tmp_path):
    text = talk(tmp_path, "/nonsense\n/help\nFind Ana's order\n/good\n/quit\n", "--playbook", tmp_path / "shop.db")
    assert "there is no /nonsense" in text
    assert "learned: 1 new" in text
    assert "1 " in ace("playbook", "list", tmp_path / "shop.db")


def test_without_a_conversation_there_is_nothing_to_resume(tmp_path):
    assert "no conversation" in talk(tmp_path, "", "--resume", code=1)
    assert "not both" in talk(tmp_path, "", "--resume", "--name", "x", code=1)
    assert "start the chat with --playbook FILE" in talk(tmp_path, "Find Ana's order\n/good\n")


def test_a_message_is_given_up_only_when_a_person_says_so(tmp_path):
    talk(tmp_path, "Find Ana's order\nRefund it\n", "--name", "ana")
    other = ("--name", "ana", "--tools", "ace.tools:calculator")  # one tool more: the run cannot go on
    for typed in ("", "n\n"):
        text = talk(tmp_path, typed, *other, code=1)
        assert "Give this message up?" in text
        assert "began with other tools" in text
    text = talk(tmp_path, "y\n", *other)
    assert "other tools" in text
    again = talk(tmp_path, "", "--name", "ana")
    assert "> Refund it" in again
    assert "cut off" not in again
