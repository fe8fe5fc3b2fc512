"""Prompts that show only some of the tools."""

import cloudpickle
import dspy
import pytest

from ace import ReActGenerator
from ace.core import SignatureError
from ace.playbook import Playbook
from ace.testing import FunctionLM, ScriptedLM, decision
from ace.tools import Tool, calculator
from benchmarks.model_server import serve

NAMES = {
    "find_orders": "Find a customer's orders.",
    "refund_order": "Refund an order.",
    "find_events": "Find a colleague's events in the calendar.",
    "move_event": "Move an event of the calendar to another day.",
    "send_mail": "Send a mail.",
    "get_stock": "Show how many of an item there are in the warehouse.",
}


def tools(made):
    def body(name):
        def run(key: str = "") -> str:
            made.append(name)
            return f"result of {name}"

        return Tool.from_function(run, name=name, description=NAMES[name], read_only=True)

    return [body(name) for name in NAMES]


def prompts_of(script, task="Move the calendar event of Tom", **options):
    """The system messages of a run, the tools that were called, and the run."""
    seen, made, replies = [], [], list(script)

    def answer(prompt):
        seen.append(prompt)
        return replies.pop(0)

    out = ReActGenerator(tools=tools(made), lm=FunctionLM("m", answer), tools_shown=2, **options)(task)
    return seen, made, out


def shown(prompt):
    return [name for name in (*NAMES, "more_tools", "submit") if f"\n{name}(" in prompt.system]


def test_the_tools_nearest_to_the_request_are_shown_for_the_whole_run():
    seen, made, _ = prompts_of([decision("move_event"), decision("submit", answer="x")])
    assert shown(seen[0]) == ["find_events", "move_event", "more_tools", "submit"]
    assert seen[1].system == seen[0].system
    assert made == ["move_event"]


def test_more_tools_tells_of_others_which_can_be_called_then():
    _seen, made, out = prompts_of(
        [
            decision("more_tools", what="give a customer the money back"),
            decision("refund_order"),
            decision("submit", answer="x"),
        ]
    )
    assert "refund_order(key: str" in out.structured_trace[0].observation
    assert made == ["refund_order"]
    assert out.termination_reason == "completed"


def test_a_tool_that_was_not_shown_can_be_called_all_the_same():
    assert prompts_of([decision("get_stock"), decision("submit", answer="x")])[1] == ["get_stock"]


def test_tools_that_a_lesson_names_are_shown():
    with Playbook(least_similarity=0) as book:
        book.add(section="Strategies", content="To move an event: find_events, then send_mail to those who come.")
        seen, _, _ = prompts_of([decision("submit", answer="x")], playbook=book)
    assert shown(seen[0]) == ["find_events", "move_event", "send_mail", "more_tools", "submit"]


def test_as_many_tools_as_there_are_need_no_other():
    lm = FunctionLM("m", lambda prompt: decision("submit", answer=str("more_tools" in prompt.whole)))
    assert ReActGenerator(tools=tools([]), lm=lm, tools_shown=len(NAMES))("x").answer == "False"


def test_native_requests_declare_what_was_asked_for():
    calls = [("more_tools", {"what": "refund money"}), ("refund_order", {}), ("submit", {"answer": "x"})]
    with serve(lambda prompt, native: ("", [calls.pop(0)])) as (url, bodies):
        lm = dspy.LM("openai/local", api_base=url, api_key="none", cache=False)
        agent = ReActGenerator(tools=tools([]), lm=lm, tools_shown=2, tool_calling="native")
        agent("Move the calendar event of Tom")
    declared = [[one["function"]["name"] for one in body["tools"]] for body in bodies]
    assert declared[0] == ["find_events", "move_event", "more_tools", "submit"]
    assert "refund_order" in declared[1]
    assert declared[2] == declared[1]


def test_asking_for_tools_is_no_part_of_a_lesson():
    with Playbook() as book:
        script = [decision("more_tools", what="stock"), decision("get_stock", key="a"), decision("submit", answer="x")]
        agent = ReActGenerator(tools=tools([]), lm=ScriptedLM(script), playbook=book, tools_shown=2)
        agent.learn(agent.forward("How many a are there?"), True)
        assert [bullet.tool_sequence for bullet in book.bullets if bullet.section == "Strategies"] == [("get_stock",)]


def test_a_run_that_is_resumed_shows_the_same_tools(tmp_path):
    made = []
    first, second = (FunctionLM("m", lambda prompt: decision("submit", answer=str(shown(prompt)))) for _ in range(2))
    approved = [
        *tools(made),
        Tool.from_function(lambda: "done", name="pay", description="Pay.", requires_approval=True),
    ]
    ask = ScriptedLM([decision("pay")])
    agent = ReActGenerator(tools=approved, lm=ask, tools_shown=2, run_store=tmp_path)
    waiting = agent("Move the calendar event of Tom")
    again = ReActGenerator(tools=approved, lm=first, tools_shown=2, run_store=tmp_path)
    found = again.resume(waiting.run_id, "approve").answer
    assert found == ReActGenerator(tools=approved, lm=second, tools_shown=2)("Move the calendar event of Tom").answer


def pay() -> str:
    """Pay."""
    return "done"


def test_a_copy_and_a_pickle_keep_it():
    agent = ReActGenerator(tools=[calculator, pay], tools_shown=1)
    for copied in (agent.deepcopy(), cloudpickle.loads(cloudpickle.dumps(agent))):
        assert "more_tools(" in copied._shared.catalog.for_run("Pay it", "").text()


@pytest.mark.parametrize("count", [0, -1])
def test_at_least_one_tool_is_shown(count):
    with pytest.raises(SignatureError, match="tools_shown must be 1 or more"):
        ReActGenerator(tools=tools([]), tools_shown=count)
