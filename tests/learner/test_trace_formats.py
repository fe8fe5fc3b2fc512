"""Logs that the frameworks themselves made: nothing of them is imitated but the language model."""

import ast
import asyncio
import json

import pytest
from ace_suites.workbench import WRITING, WorkBenchSuite, read_recordings
from ace_suites.workbench.compare import replay_is_right
from ace_suites.workbench.recorded_lm import RecordedLM
from ace_suites.workbench.recordings import _literal, _rows
from conftest import WORKBENCH, needs_workbench
from langchain_core.language_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, HumanMessage, convert_to_openai_messages
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode, tools_condition
from openai.types.chat import ChatCompletionMessage
from pydantic_ai import Agent, ModelRetry
from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import FunctionModel

from ace import Learner, Policy
from ace.core import value_to_text
from ace.evaluation.runner import evaluate
from ace.learner import read_trace
from ace.playbook import Playbook

TASK = "Refund Ana's last order"
SCRIPT = [
    ("I look it up.", [("find", {"customer": "Ana"})]),
    ("", [("refund", {"order": "o-99"}), ("cancel", {"order": "o-17"})]),
    ("", [("refund", {"order": "o-17"})]),
    ("Done.", []),
]
"""What the model says: it guesses an order and names a tool that does not exist, then it does right."""


def shop(refusal):
    def find(customer: str) -> str:
        """The last order of a customer."""
        return {"Ana": "o-17"}[customer]

    def refund(order: str) -> str:
        """Pay an order back."""
        if order != "o-17":
            raise refusal("no such order")
        return "refunded"

    return [find, refund]


def langgraph_state():
    """What a graph with LangGraph's own tool node ends with."""
    replies = [
        AIMessage(text, tool_calls=[{"name": name, "args": args, "id": f"{turn}-{name}"} for name, args in calls])
        for turn, (text, calls) in enumerate(SCRIPT)
    ]
    model = GenericFakeChatModel(messages=iter(replies))
    graph = StateGraph(MessagesState)
    graph.add_node("agent", lambda state: {"messages": [model.invoke(state["messages"])]})
    graph.add_node("tools", ToolNode(shop(ValueError), handle_tool_errors=True))
    graph.add_edge(START, "agent")
    graph.add_conditional_edges("agent", tools_condition)
    graph.add_edge("tools", "agent")
    return graph.compile().invoke({"messages": [HumanMessage(TASK)]})


def pydantic_ai_result(last, **options):
    """What Pydantic AI's agent ends with; `last` is the model's last word."""
    replies = [
        ModelResponse(parts=[*([TextPart(text)] if text else []), *(ToolCallPart(*call) for call in calls)])
        for text, calls in SCRIPT[:-1]
    ]
    script = iter([*replies, ModelResponse(parts=[last])])
    agent = Agent(FunctionModel(lambda messages, info: next(script)), tools=shop(ModelRetry), **options)
    return asyncio.run(agent.run(TASK))  # `run_sync` leaves its event loop open


def check_lessons(book, *forms):
    """All forms of one run are the same run: with what failed in it, and with the way that worked."""
    runs = [read_trace(form, read_only=["find"]) for form in forms]
    assert [(s.iteration, s.tool_name, s.tool_args, s.outcome) for s in runs[0].structured_trace] == [
        (1, "find", {"customer": "Ana"}, "success"),
        (2, "refund", {"order": "o-99"}, "failed"),
        (2, "cancel", {"order": "o-17"}, "failed"),
        (3, "refund", {"order": "o-17"}, "success"),
    ]
    assert [s.error and s.error.kind for s in runs[0].structured_trace] == [None, "refused", "refused", None]
    learner = Learner(book, tools={"find": "1", "refund": "2"})
    report = learner.learn_from_traces(forms, lambda run: run.answer == "Done.", read_only=["find"])
    assert (report.runs, report.successes, report.skipped) == (1, 1, len(forms) - 1), (
        "the same run is learned from once"
    )
    strategy, pitfall = sorted(book.bullets, key=lambda bullet: bullet.section, reverse=True)
    assert strategy.content == "find(customer from the task), then refund(order from find), then submit(...)"
    assert (strategy.trigger, strategy.tool_sequence, strategy.changing_tools) == (
        "Refund {customer}'s last order",
        ("find", "refund"),
        ("refund",),
    )
    assert strategy.provenance.run_ids == (runs[0].run_id,)
    assert pitfall.content.startswith("refund failed (refused); it worked with order from find")


def test_a_langgraph_state_as_objects_and_as_json(book):
    state = langgraph_state()
    dumped = [message.model_dump() for message in state["messages"]]
    check_lessons(book, state, state["messages"], dumped, json.dumps({"messages": dumped}))


def test_messages_of_openais_client(book):
    messages = convert_to_openai_messages(langgraph_state()["messages"])
    logged = [ChatCompletionMessage.model_validate(m) if m["role"] == "assistant" else m for m in messages]
    check_lessons(book, messages, logged, json.dumps(messages))


def test_messages_of_pydantic_ai_as_objects_and_as_json(book):
    result = pydantic_ai_result(TextPart("Done."))
    check_lessons(book, result.all_messages(), result.all_messages_json(), json.loads(result.all_messages_json()))


def test_pydantic_ais_output_tool_is_the_answer_and_no_call(book):
    result = pydantic_ai_result(ToolCallPart("final_result", {"response": 17}), output_type=int)
    run = read_trace(result.all_messages())
    assert result.output == 17
    assert (run.answer, run.completed) == ('{"response": 17}', True)
    assert [s.tool_name for s in run.structured_trace] == ["find", "refund", "cancel", "refund"]


# -- WorkBench's recorded LangChain runs ---------------------------------------------------------------------------------

SEEN = [
    ("gpt-4_domains", "email", 50, {
        "email.search_emails(query from the task, date_max), then email.delete_email(email_id from email.search_emails.email_id), "
        "then submit(...)":
            "Delete my last email from {query}",
        "email.search_emails(query from the task), then for each name from the task: company_directory.find_email_address("
        "name), then for each recipient from company_directory.find_email_address: email.forward_email(email_id from "
        "email.search_emails.email_id, recipient), then submit(...)": "Forward the last email about '{query}' to {name} and {name_2}"}),
    ("gpt-4_domains", "customer_relationship_manager", 30, {
        "customer_relationship_manager.search_customers(customer_name from the task), then customer_relationship_manager."
        "delete_customer(customer_id from customer_relationship_manager.search_customers.customer_id), then submit(...)":
            "{customer_name} is no longer a customer. Can you delete them from the {text}?"}),
    # it called `search_emails`, which there was not: that is no part of what worked
    ("llama2-70b_domains", "multi_domain", 6, {
        "answer at once, without a call, then submit(...)":
            "If {text} hasn't sent me any emails in the past {number} days, schedule a half hour meeting with them for "
            "Monday at {time} and call it {quoted}"}),
]  # fmt: skip
"""A run, a domain, how many tasks were published as right, and what some of them teach."""


def recorded_messages(run, domain):
    """What LangChain's agents returned, observations included, as messages by query."""
    found = {}
    for row in _rows(WORKBENCH / "runs" / domain / f"{run}.csv"):
        if row["full_response"]:
            result = _literal(ast.parse(row["full_response"], mode="eval").body)
            messages = [{"role": "user", "content": row["query"]}]
            for number, (action, observation) in enumerate(result["intermediate_steps"]):
                given = action["tool_input"]
                args = given if isinstance(given, dict) else {"input": given}
                made = {"name": action["tool"], "arguments": json.dumps(args)}
                call = {"role": "assistant", "tool_calls": [{"id": str(number), "function": made}]}
                messages += [call, {"role": "tool", "tool_call_id": str(number), "content": value_to_text(observation)}]
            if not str(result["output"]).startswith("Agent stopped due to"):
                messages.append({"role": "assistant", "content": result["output"]})
            found[row["query"]] = messages
    return found


def strategies(book):
    found = (bullet for bullet in book.bullets if bullet.section == "Strategies")
    return {b.content: (b.key, sorted(situation.template for situation in b.situations)) for b in found}


@needs_workbench
@pytest.mark.parametrize(("run", "domain", "published", "taught"), SEEN)
def test_recorded_messages_teach_what_the_replayed_run_teaches(book, embedder, run, domain, published, taught):
    suite, recordings = WorkBenchSuite(WORKBENCH, "domains"), read_recordings(WORKBENCH, run)
    results = recorded_messages(run, domain)
    tasks = [task for task in suite.tasks if task.domain == domain and task.task.text in results]
    right = {task.task.text for task in tasks if replay_is_right(suite, task, recordings[task.task.text])}
    reading = suite.sandbox().functions.keys() - WRITING
    report = Learner(book).learn_from_traces(results.values(), lambda o: o.task.text in right, read_only=reading)
    assert (report.runs, report.successes) == (len(tasks), published)
    found = strategies(book)
    for content, template in taught.items():
        assert template.lower() in [known.lower() for known in found[content][1]]

    lm, replayed = RecordedLM(run, recordings), Playbook(embedder=embedder)
    learner = Learner(replayed)
    chosen = [task for task in tasks if task.task.text in right]
    for attempt in evaluate(suite, lambda seed: lm, tasks=chosen, policy=Policy.replay()):
        learner.learn(attempt.output, attempt.feedback)
    assert strategies(replayed) == found
