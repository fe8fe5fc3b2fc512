import json

import pytest
from learner.runs import OLD, run_of, step

from ace import Feedback, Learner
from ace.learner import read_requests, read_trace, traces
from ace.learner.trace_formats import TraceEvent
from ace.learner.traces import request_of

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


@pytest.mark.parametrize("trace", [DSPY, PYDANTIC_AI, json.dumps(PYDANTIC_AI)], ids=["dspy", "pydantic", "json"])
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


def test_text_beside_calls_and_results_is_a_thought_and_another_request():
    more = [*BLOCKS[:2], {"role": "user", "content": [*BLOCKS[2]["content"], {"type": "text", "text": "And Bo's"}]}]
    first, second = read_requests([*more, BLOCKS[1], BLOCKS[2], BLOCKS[3]], read_only=[])
    assert [run.structured_trace[0].thought for run in (first, second)] == ["I do."] * 2
    assert [request_of(run).task.text for run in (first, second)] == ["Refund Ana's order", "And Bo's"]


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
    assert strategies[0].content == "find(customer from the task), then refund(order from find), then submit(...)"
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


def test_an_unreadable_trace_is_named_and_costs_no_other(book):
    learner = Learner(book)
    with pytest.raises(ValueError, match="trace 1, counted from 0"):
        learner.learn_from_traces([OLD, "{", BLOCKS], lambda run: True)
    report = learner.learn_from_traces([OLD, BLOCKS], lambda run: True)
    assert (report.runs, report.skipped) == (1, 1)


def call(name, result="done", **args):
    """A call and its answer, as messages."""
    made = {"id": f"{name}-{args}", "function": {"name": name, "arguments": json.dumps(args)}}
    return [
        {"role": "assistant", "tool_calls": [made]},
        {"role": "tool", "tool_call_id": made["id"], "content": result},
    ]


def said(text, role="user"):
    return {"role": role, "content": text}


TALK = [
    said("Hello, I am Ana Kovač. My order 17 came broken."),
    said("I am sorry.", "assistant"),
    said("Cancel order 17, please."),
    *call("find", "o-17", number=17),
    *call("cancel", order="o-17"),
    said("Done. Anything else?", "assistant"),
    said("And book a room for two nights."),
    *call("book", nights="two nights", guest="Ana Kovač"),
    said("Booked.", "assistant"),
    said("Thank you!"),
]


def test_a_conversation_with_two_requests_is_two_runs():
    first, second = read_requests(TALK, read_only=["find"])
    assert [s.tool_name for s in first.structured_trace] == ["find", "cancel"]
    assert [s.tool_name for s in second.structured_trace] == ["book"]
    assert second.task.inputs["task"].startswith("And book a room")
    assert second.task.inputs["earlier"] == "Hello, I am Ana Kovač."
    assert first.run_id != second.run_id


def test_one_request_has_all_the_words_of_the_user(book):
    talk = [said("Hello!"), said("What can I do?", "assistant"), said("Cancel order 17."), *TALK[3:7]]
    learner = Learner(book)
    learner.learn_from_traces([talk], [True])
    assert book.bullets[0].trigger == "Hello! Cancel order {number}."


def test_what_was_called_before_the_user_spoke_belongs_to_the_first_request():
    (run, other) = read_requests([*call("load", user=1), *TALK], read_only=["find"])
    assert [s.tool_name for s in run.structured_trace][:2] == ["load", "find"]
    assert [s.tool_name for s in other.structured_trace] == ["book"]


def test_a_function_of_the_run_sees_the_whole_conversation(book):
    calls = []
    Learner(book).learn_from_traces([TALK], lambda run: calls.extend(run.structured_trace) or True, read_only=["find"])
    assert [s.tool_name for s in calls] == ["find", "cancel", "book"]


def test_tools_that_other_traces_called_tell_what_asks_for_a_change(book):
    refused = [said("Please cancel order 18."), *call("find", "flown", number=18), said("It is too late.", "assistant")]
    Learner(book).learn_from_traces([TALK, refused], [True, True], read_only=["find"])
    assert "decline and tell the user why, or answer from find; nothing is to be changed, then submit(...)" in [
        bullet.content.partition(", then ")[2] for bullet in book.bullets
    ]


def test_agreeing_is_no_request_and_a_refusal_is_no_change():
    talk = [
        said("Cancel order 171."),
        *call("cancel", "Order not found.", order=171),
        said("Is that the number?", "assistant"),
        said("Sorry, it is 172."),
        *call("cancel", order=172),
        said("Refund it to the gift card?", "assistant"),
        said("Yes, go ahead."),
        *call("refund", order=172, to="gift card"),
    ]
    (run,) = read_requests(talk)
    assert [s.tool_args["order"] for s in run.structured_trace] == [171, 172, 172]


def test_a_later_request_has_the_reads_and_the_short_values_that_it_needs(book):
    talk = [
        said("Find the last order of Ana and tag it."),
        *call("find", '{"id": "o-917"}', customer="Ana"),
        *call("tag", order="o-917"),
        said("Great, now refund it too, all 3 of them."),
        *call("refund", order="o-917", count=3),
    ]
    Learner(book).learn_from_traces([talk], [True], read_only=["find"])
    assert [bullet.content for bullet in book.bullets] == [
        "find(customer from the task), then tag(order from find), then submit(...)",
        "find(customer from the task), then refund(order from find, count from the task), then submit(...)",
    ]


@pytest.mark.parametrize("wrong", [7, -1, "1", True])
def test_feedback_that_names_no_request_is_refused(book, wrong):
    with pytest.raises(ValueError, match="0 to 1"):
        Learner(book).learn_from_traces(
            [TALK], [Feedback(success=False, details={"request": wrong})], read_only=["find"]
        )


def test_strict_needs_to_know_the_tools(book):
    with pytest.raises(ValueError, match="tools=registry"):
        Learner(book).learn_from_traces([TALK], [True], strict=True)


def test_thanks_after_the_last_change_are_no_request():
    assert len(read_requests([*TALK[:6], said("Thank you!")], read_only=["find"])) == 1


def test_both_requests_are_learned_and_the_first_speaker_is_not_in_the_lessons(book):
    report = Learner(book).learn_from_traces([TALK], [True], read_only=["find"])
    assert (report.runs, report.successes) == (2, 2)
    lessons = {bullet.changing_tools: bullet for bullet in book.bullets if bullet.section == "Strategies"}
    assert set(lessons) == {("cancel",), ("book",)}
    assert "Kovač" not in "".join(bullet.model_dump_json() for bullet in book.bullets)
    assert lessons["book",].content == "book(nights from the task, guest from the task), then submit(...)"


def test_a_failure_counts_for_the_request_that_the_feedback_names(book):
    learner = Learner(book)
    assert learner.learn_from_traces([TALK], [False], read_only=["find"]).runs == 0
    verdict = Feedback(success=False, text="wrong room", details={"request": 1})
    assert learner.learn_from_traces([TALK], [verdict], read_only=["find"]).runs == 1
    assert not [bullet for bullet in book.bullets if bullet.section == "Strategies"]


def test_each_trace_may_be_read_with_a_task_and_a_domain_of_its_own(book):
    traces = [[*call("refund", order=n), said("Done.", "assistant")] for n in (17, 18)]
    scopes = {"Refund order 17": "shop", "Refund order 18": "bank"}
    runs = [
        read_trace(trace, task=task, domain=domain)
        for trace, (task, domain) in zip(traces, scopes.items(), strict=True)
    ]
    Learner(book).learn_from_traces(runs, [True, True], group="a")
    assert {(b.domain, b.provenance.groups) for b in book.bullets} == {("shop", ("a",)), ("bank", ("a",))}


def test_names_that_no_schema_knows_are_reported_and_refused_when_strict(book):
    tools = {
        "refund": {"description": "", "parameters": {"properties": {"order": {}}}, "hash": "0", "read_only": False}
    }
    traces = [[said("Refund it"), *call("refund", order=1, colour="red"), *call("ring")]]
    assert dict(Learner(book, tools=tools).learn_from_traces(traces, [True]).unknown) == {
        "refund(colour)": 1,
        "ring": 1,
    }
    with pytest.raises(ValueError, match=r"refund\(colour\), ring"):
        Learner(book, tools=tools).learn_from_traces(traces, [True], strict=True)


def test_only_a_request_of_several_says_which_one_it_was():
    (run,) = read_requests(BLOCKS)
    assert "conversation" not in run.metadata
    call = {"role": "assistant", "tool_calls": [{"id": "2", "function": {"name": "cancel", "arguments": "{}"}}]}
    done = [{"role": "tool", "tool_call_id": "2", "content": "ok"}, {"role": "assistant", "content": "Done."}]
    both = read_requests([*BLOCKS, {"role": "user", "content": "And cancel Bo's."}, call, *done])
    assert [run.metadata["request"] for run in both] == [0, 1]
    assert len({run.metadata["conversation"] for run in both}) == 1


@pytest.mark.parametrize(
    ("part", "text"),
    [
        ({"kind": "image-url", "url": "https://x"}, "[image-url]"),
        ({"type": "input_image"}, "[input_image]"),
        ({"type": "note", "kind": "audio"}, '{"type": "note", "kind": "audio"}'),
        ({"text": "words"}, "words"),
    ],
)
def test_a_part_that_is_no_text_is_named_by_its_type_or_kind(part, text):
    call = {"role": "assistant", "tool_calls": [{"id": "1", "function": {"name": "look", "arguments": "{}"}}]}
    run = read_trace([{"role": "user", "content": "x"}, call, {"role": "tool", "tool_call_id": "1", "content": [part]}])
    assert run.structured_trace[0].observation == text


def events(*said):
    """Events in short: "user: words", "call c1 name", "result c1 words"."""
    found = []
    for line in said:
        kind, _, rest = line.partition(" ")
        if kind == "user":
            found.append(TraceEvent("user", rest))
        elif kind == "call":
            call_id, _, name = rest.partition(" ")
            found.append(TraceEvent("call", name=name, args={}, call_id=call_id))
        else:
            call_id, _, text = rest.partition(" ")
            found.append(TraceEvent("result", text, call_id=call_id, failed=kind == "failed"))
    return found


@pytest.mark.parametrize(
    ("said", "changes"),
    [
        (["call c1 refund", "result c1 done"], True),
        (["call c1 find", "result c1 done"], False),  # only reads
        (["call c1 refund"], False),  # no answer yet
        (["call c1 refund", "result c2 done"], False),  # another call's answer
        (["call c1 refund", "failed c1 no"], False),
        (["call c1 refund", "result c1 Error: no such order"], False),
        (["call c1 refund", "result c1 done", "failed c1 no"], False),
    ],
)
def test_a_call_changed_something_when_it_may_and_no_answer_says_that_it_failed(said, changes):
    found = events(*said)
    assert traces._changes(found[0], found, frozenset({"find"})) is changes
    assert not traces._changes(TraceEvent("user", "Refund it"), found, frozenset())


def requests(*said):
    parts = traces._requests(events(*said), frozenset({"find"}))
    return [[event.text or event.name for event in part] for part in parts]


def test_a_request_begins_when_another_has_changed_something_and_more_is_called():
    first, second = (
        ["user Refund it now", "call c1 refund", "result c1 done"],
        ["user Cancel the other", "call c2 cancel"],
    )
    assert [part[0] for part in requests(*first, *second)] == ["Refund it now", "Cancel the other"]
    # nothing was changed before
    assert len(requests("user Refund it now", "call c1 find", "result c1 o-1", *second)) == 1
    # it failed, so that nothing was changed
    assert len(requests("user Refund it now", "call c1 refund", "failed c1 no", *second)) == 1
    assert len(requests("user Refund it now", "call c1 refund", "result c1 Error: no", *second)) == 1
    # the user only agrees, or nothing is called any more
    assert len(requests(*first, "user Yes please", "call c2 cancel")) == 1
    assert len(requests(*first, "user Cancel the other")) == 1
    # of three requests each begins after its own change
    third = ["result c2 done", "user Mail the customer", "call c3 mail"]
    assert [part[0] for part in requests(*first, *second, *third)] == [
        "Refund it now",
        "Cancel the other",
        "Mail the customer",
    ]


def test_reads_are_handed_on_whose_answers_hold_what_a_later_call_was_given():
    known = [
        TraceEvent("call", name="find", args={}, call_id="c1"),
        TraceEvent("result", "orders: o-17", call_id="c1"),
        TraceEvent("call", name="find", args={}, call_id="c2"),
        TraceEvent("result", "Error: o-17 is gone", call_id="c2"),
        TraceEvent("call", name="find", args={}, call_id="c3"),
        TraceEvent("result", "nothing", call_id="c3"),
        TraceEvent("call", name="cancel", args={}, call_id="c4"),
        TraceEvent("result", "o-17 is cancelled", call_id="c4"),
    ]
    later = [TraceEvent("user", "Refund it"), TraceEvent("call", name="refund", args={"order": "o-17"}, call_id="c9")]
    handed = traces._handed_on(known, later, frozenset({"find"}))
    assert [event.call_id for event in handed] == ["c1", "c1"]
    told = [TraceEvent("user", "Refund o-17"), later[1]]
    assert traces._handed_on(known, told, frozenset({"find"})) == []  # the user said it


def test_each_message_of_a_conversation_is_named_by_its_number_from_0():
    run = run_of(step("cancel", changes=True, order="17"), text="Cancel it")
    history = ({"task": "Is order 17 open?", "answer": "Yes"},)
    run = run.model_copy(update={"task": run.task.model_copy(update={"history": history})})
    assert request_of(run, number=0).task.inputs == {"task": "Is order 17 open?"}
    assert "Cancel it" in request_of(run, number=1).task.inputs["task"]
    for wrong in (-1, 2):
        with pytest.raises(ValueError, match="0 to 1"):
            request_of(run, number=wrong)


@pytest.mark.parametrize(("length", "whole"), [(200, True), (201, False)])
def test_of_an_error_200_characters_are_kept(length, whole):
    text = "Error: no such order. ".ljust(length, "x")
    error = read_trace([said("Refund order 17"), *call("refund", text, order=17)]).structured_trace[0].error
    assert error.message.startswith(text[:200])
    assert (error.message == text) is whole


def asked(*messages, task="Refund order o-17"):
    return [{"role": "user", "content": task}, *messages]


def calls(*named):
    made = [
        {"id": f"c{n}", "function": {"name": name, "arguments": json.dumps(args)}}
        for n, (name, args) in enumerate(named)
    ]
    return {"role": "assistant", "tool_calls": made}


def plan_of(book, trace, **options):
    Learner(book).learn_from_traces([trace], [True], **options)
    (bullet,) = book.bullets
    return bullet.content


def test_a_call_without_an_answer_was_made_when_the_task_was_done(book):
    refund = ("refund", {"order": "o-17"})
    assert plan_of(book, asked(calls(refund))) == "refund(order from the task), then submit(...)"


def test_of_two_calls_at_once_one_may_have_no_answer(book):
    trace = asked(calls(("find", {"order": "o-17"}), ("refund", {"order": "o-17"})))
    trace.append({"role": "tool", "tool_call_id": "c0", "content": "delivered"})
    assert (
        plan_of(book, trace, read_only=["find"])
        == "find(order from the task), then refund(order from the task), then submit(...)"
    )


def test_a_call_that_was_answered_when_it_was_made_again_was_made_once(book):
    trace = asked(calls(("refund", {"order": "o-17"})), {**calls(("refund", {"order": "o-17"}))})
    trace[-1]["tool_calls"][0]["id"] = "again"
    trace.append({"role": "tool", "tool_call_id": "again", "content": "done"})
    assert plan_of(book, trace) == "refund(order from the task), then submit(...)"
    assert book.bullets[0].tool_success_rate == 1.0


def test_an_image_beside_the_words_is_no_part_of_the_task(book):
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
    run = read_trace([{"role": "user", "content": [image, {"type": "text", "text": "Refund order o-17"}]}])
    assert run.task.text == "Refund order o-17"
    with pytest.raises(ValueError, match="does not contain the task"):
        read_trace([{"role": "user", "content": [image]}])


def test_a_custom_tool_is_called_with_its_text():
    call = {"id": "c1", "type": "custom", "custom": {"name": "run_sql", "input": "select 1"}}
    (step,) = read_trace(asked({"role": "assistant", "tool_calls": [call]})).structured_trace
    assert (step.tool_name, step.tool_args) == ("run_sql", {"input": "select 1"})


def test_a_refusal_is_an_answer():
    assert read_trace(asked({"role": "assistant", "content": None, "refusal": "I cannot."})).answer == "I cannot."


@pytest.mark.parametrize("name", [None, "", " ", 7, "x" * 257, "re\nfund"])
def test_a_tool_needs_a_name(name):
    with pytest.raises(ValueError, match=r"calls a tool whose name is .*, expected 1 to 256 characters"):
        read_trace(asked({"role": "assistant", "tool_calls": [{"id": "c1", "function": {"name": name}}]}))


def test_items_of_the_responses_api(book):
    items = [
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Refund order o-17"}]},
        {"type": "reasoning", "summary": []},
        {"type": "function_call", "call_id": "c1", "name": "refund", "arguments": '{"order": "o-17"}'},
        {"type": "function_call_output", "call_id": "c1", "output": "done"},
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Refunded."}]},
    ]
    run = read_trace(items)
    assert (run.answer, run.structured_trace[0].observation) == ("Refunded.", "done")
    assert plan_of(book, items) == "refund(order from the task), then submit(...)"


def test_arguments_that_are_nested_too_deeply_are_an_error_of_the_step():
    deep = '{"a":' * 100_000 + "1" + "}" * 100_000
    call = {"id": "c1", "function": {"name": "refund", "arguments": deep}}
    (step,) = read_trace(asked({"role": "assistant", "tool_calls": [call]})).structured_trace
    assert step.error.kind == "invalid_args"


@pytest.mark.parametrize(
    "text", ["Ja, bitte", "Oui, d'accord", "Sí, claro", "Sim, pode", "好的", "はい", "Yes, go ahead"]
)
def test_agreeing_asks_for_nothing_new_in_seven_languages(text):
    assert traces._agrees(text)


@pytest.mark.parametrize(
    "text", ["Ja, und storniere sie", "Oui, et annule aussi la lampe", "好的，取消订单", "Sim, cancele"]
)
def test_agreeing_and_asking_for_more_is_a_request(text):
    assert not traces._agrees(text)


def test_a_call_of_a_trajectory_without_an_observation_was_interrupted():
    cut = {"question": "Refund 17", "trajectory": {"tool_name_0": "submit", "tool_args_0": {"order": 17}}}
    (step,) = read_trace(cut).structured_trace
    assert (step.tool_name, step.outcome) == ("submit", "interrupted")
    for wrong in ("text", [{"role": "assistant", "content": "x"}]):
        with pytest.raises(ValueError, match="expected DSPy's dict"):
            read_trace({"question": "Refund 17", "trajectory": wrong})
