import json

import pytest
from learner.runs import OLD, run_of, step

from ace import Feedback, Learner
from ace.learner import read_trace

BLOCKS = [
    {"role": "user", "content": "Refund Ana's order"},
    {
        "role": "assistant",
        "content": [
            {"type": "text", "text": "I do."},
            {"type": "tool_use", "id": "1", "name": "refund", "input": {"order": "o-17"}},
        ],
    },
    {
        "role": "user",
        "content": [{"type": "tool_result", "tool_use_id": "1", "content": [{"type": "text", "text": "refunded"}]}],
    },
    {"role": "assistant", "content": "Done."},
]


OPENAI = [
    {"role": "system", "content": "You are a clerk."},
    {"role": "user", "content": "Refund Ana's last order"},
    {"role": "assistant", "content": "I look it up.", "tool_calls": [
        {"id": "c1", "type": "function", "function": {"name": "find", "arguments": '{"customer": "Ana"}'}}]},
    {"role": "tool", "tool_call_id": "c1", "content": "o-17"},
    {"role": "assistant", "content": None, "tool_calls": [
        {"id": "c2", "type": "function", "function": {"name": "refund", "arguments": '{"order": "o-99"}'}},
        {"id": "c3", "type": "function", "function": {"name": "refund", "arguments": '{"order": "o-17"}'}}]},
    {"role": "tool", "tool_call_id": "c3", "content": "refunded"},
    {"role": "tool", "tool_call_id": "c2", "content": "Error: no such order"},
    {"role": "assistant", "content": "Done."},
]  # fmt: skip
DSPY = {
    "question": "Refund Ana's last order",
    "trajectory": {
        "thought_0": "I look it up.", "tool_name_0": "find", "tool_args_0": {"customer": "Ana"}, "observation_0": "o-17",
        "thought_1": "Now.", "tool_name_1": "refund", "tool_args_1": {"order": "o-17"}, "observation_1": "refunded",
        "thought_2": "Done.", "tool_name_2": "finish", "tool_args_2": {}, "observation_2": "Completed.",
    },
    "answer": "Done.",
}  # fmt: skip
LANGCHAIN = {
    "input": "Refund Ana's last order",
    "intermediate_steps": [
        ({"tool": "find", "tool_input": {"customer": "Ana"}, "log": "I look it up."}, "o-17"),
        (["refund", {"order": "o-17"}, "Now."], "refunded"),
    ],
    "output": "Done.",
}
PYDANTIC_AI = [
    {"kind": "request", "parts": [{"part_kind": "user-prompt", "content": "Refund Ana's last order"}]},
    {"kind": "response", "parts": [
        {"part_kind": "text", "content": "I look it up."},
        {"part_kind": "tool-call", "tool_name": "find", "args": '{"customer": "Ana"}', "tool_call_id": "c1"}]},
    {"kind": "request", "parts": [{"part_kind": "tool-return", "tool_name": "find", "content": "o-17", "tool_call_id": "c1"}]},
    {"kind": "response", "parts": [
        {"part_kind": "tool-call", "tool_name": "refund", "args": {"order": "o-17"}, "tool_call_id": "c2"}]},
    {"kind": "request", "parts": [{"part_kind": "tool-return", "tool_name": "refund", "content": {"ok": 1}, "tool_call_id": "c2"}]},
    {"kind": "response", "parts": [{"part_kind": "text", "content": "Done."}]},
]  # fmt: skip


@pytest.mark.parametrize(
    "trace", [DSPY, LANGCHAIN, PYDANTIC_AI, json.dumps(PYDANTIC_AI)], ids=["dspy", "langchain", "pydantic", "json"]
)
def test_forms_of_one_run(trace):
    run = read_trace(trace, read_only=["find"], domain="shop")
    assert (run.task.text, run.answer, run.termination_reason) == ("Refund Ana's last order", "Done.", "completed")
    assert [(s.tool_name, s.tool_args, s.changes_state) for s in run.structured_trace] == [
        ("find", {"customer": "Ana"}, False),
        ("refund", {"order": "o-17"}, True),
    ]
    assert run.structured_trace[0].thought == "I look it up."
    assert [s.iteration for s in run.structured_trace] == [1, 2]
    assert run.task.domain == "shop"


def test_parallel_calls_and_errors_in_words():
    run = read_trace({"messages": OPENAI}, read_only=["find"])
    assert [(s.tool_args.get("order"), s.outcome) for s in run.structured_trace[1:]] == [
        ("o-99", "failed"),
        ("o-17", "success"),
    ]
    assert [s.iteration for s in run.structured_trace] == [1, 2, 2]


def test_the_same_trace_is_the_same_run_and_another_is_not():
    assert read_trace(OPENAI).run_id == read_trace(json.loads(json.dumps(OPENAI))).run_id
    assert read_trace(OPENAI).run_id != read_trace(OPENAI[:-1]).run_id
    assert read_trace(OPENAI[:-1]).termination_reason == "max_iterations"


def test_our_own_runs_come_back_as_they_were():
    run = run_of(step("find"))
    assert read_trace(run) is run
    assert read_trace(run.model_dump_json()) == run
    assert read_trace(run.model_dump(mode="json")) == run


def test_arguments_that_are_none():
    call = {"id": "c", "function": {"name": "find", "arguments": "{oops"}}
    run = read_trace([OPENAI[1], {"role": "assistant", "tool_calls": [call]}, OPENAI[-1]])
    assert run.structured_trace[0].error.kind == "invalid_args"
    assert not run.structured_trace[0].executed


@pytest.mark.parametrize(
    ("trace", "why"),
    [
        ("{oops", "must be JSON"),
        ({"a": 1}, r"not a known trace \(keys \['a'\]\)"),
        (17, "type int"),
        ([], "type list"),
        ([{"role": "robot", "content": "x"}], "role 'robot'"),
        ({"trajectory": {}}, "pass task"),
        ({"structured_trace": 1}, "not a TaskOutput"),
    ],
)
def test_what_is_no_trace_is_refused_with_a_reason(trace, why):
    with pytest.raises(ValueError, match=why):
        read_trace(trace)


def test_learning_from_traces(book):
    learner = Learner(book, tools={"find": "1", "refund": "2"})
    report = learner.learn_from_traces([OPENAI, DSPY, OPENAI], lambda run: run.answer == "Done.", read_only=["find"])
    assert (report.runs, report.skipped) == (2, 1)
    strategies = [b for b in book.bullets if b.section == "Strategies"]
    assert strategies[0].content == "Call find(customer), then refund(order from find), then finish."
    assert len(strategies) == 1
    assert len(strategies[0].provenance.run_ids) == 2, "the same trace twice is one run"
    assert strategies[0].tool_schema_hashes == {"find": "1", "refund": "2"}


def test_feedback_for_each_trace(book):
    learner = Learner(book)
    assert learner.learn_from_traces([DSPY, OPENAI], [True, Feedback(success=False)]).successes == 1
    with pytest.raises(ValueError, match="trace 1"):
        learner.learn_from_traces([DSPY, OPENAI], [True])
    with pytest.raises(ValueError, match="judge"):
        learner.learn_from_traces([DSPY])


@pytest.mark.parametrize("trace", [OLD, BLOCKS])
def test_older_and_other_message_logs_keep_their_calls(trace):
    run = read_trace(trace)
    assert [(s.tool_name, s.tool_args, s.observation) for s in run.structured_trace] == [
        ("refund", {"order": "o-17"}, "refunded")
    ]
    assert run.task.text == "Refund Ana's order"


def test_a_langchain_tool_of_one_argument_keeps_its_text():
    steps = [(("search", name, ""), "found") for name in ("Ana", "Bo")]
    run = read_trace({"input": "Find Ana and Bo", "intermediate_steps": steps, "output": "Done."})
    assert [s.tool_args for s in run.structured_trace] == [{"input": "Ana"}, {"input": "Bo"}]


def test_an_unreadable_trace_is_named_and_costs_no_other(book):
    learner = Learner(book)
    with pytest.raises(ValueError, match="trace 1, counted from 0"):
        learner.learn_from_traces([OLD, "{", BLOCKS], lambda run: True)
    report = learner.learn_from_traces([OLD, BLOCKS], lambda run: True)
    assert (report.runs, report.skipped) == (1, 1)
