import asyncio
import copy
import hashlib
import json
import logging
import threading
import time
import warnings
from typing import Literal

import dspy
import pytest
from agent.kit import Script, extract, payments, peek, spec
from pydantic import BaseModel

from ace import (
    Agent,
    FolderRunStore,
    Policy,
    ReActGenerator,
    Summary,
    TaskInput,
    TokenPrices,
    ToolRegistry,
    UsageLimits,
)
from ace.agent import AgentRun, Approve, Deny, RunSnapshot, drive
from ace.core import (
    CancellationToken,
    InvalidModelAction,
    ResumeError,
    RunStoreError,
    SignatureError,
    ToolRegistrationError,
)
from ace.playbook import CallableEmbedder, Playbook
from ace.react.program import OLD_REACT, REACT
from ace.testing import FaultyTool, FunctionLM, ScriptedLM, check_events, decision
from ace.testing.engine import render_reply
from ace.tools import Tool, calculator, tool


def calculating_agent(*replies, **options):
    return ReActGenerator(tools=[calculator], lm=ScriptedLM(replies), **options)


def refunds():
    done = []

    @tool(requires_approval=True)
    def refund(order: str) -> str:
        """Refund."""
        done.append(order)
        time.sleep(0.05)
        return "refunded"

    return refund, done


SAYS_42 = decision("finish", answer="42")


SIX_BY_SEVEN = decision("calculator", expression="6 * 7")


PAY = decision("pay", amount=7)


PAID = decision("finish", answer="done")


def paying_agent(tools, *replies, **options):
    return ReActGenerator(tools=tools, lm=ScriptedLM(replies), **options)


ANSWER = (decision("calculator", expression="6 * 7"), decision("finish", answer="42"))


def agent(*replies, signature="task -> answer", **options):
    options.setdefault("tools", [calculator])
    return ReActGenerator(signature, lm=ScriptedLM(replies or ANSWER), **options)


def test_forward_call_and_acall_are_one():
    results = [
        agent().forward("What?"),
        agent()("What?"),
        agent()(task="What?", domain="math"),
        agent().forward(TaskInput(inputs={"task": "What?"})),
        asyncio.run(agent().acall("What?")),
        asyncio.run(agent().aforward("What?")),
    ]
    assert [r.answer for r in results] == ["42"] * 6
    first = results[0].output
    for other in results[1:]:
        drop = {"run_id", "task_id", "task", "usage", "structured_trace"}
        assert other.output.model_dump(exclude=drop) == first.model_dump(exclude=drop)
    assert isinstance(results[0], dspy.Prediction)
    assert results[0].toDict() == {"answer": "42"}


def test_unknown_names_fall_through_to_the_output():
    prediction = agent().forward("What?")
    assert prediction.termination_reason == "completed"
    assert prediction.usage.iterations == 2
    assert "calculator" in prediction.reasoning_trace
    assert prediction.tool_usage == {"calculator": 1}
    with pytest.raises(AttributeError, match="colour"):
        prediction.colour  # noqa: B018
    assert not hasattr(prediction, "__deepcopy__x")
    assert copy.deepcopy(prediction).answer == "42"


def test_a_signature_field_called_output_wins():
    prediction = agent(decision("finish", output="42"), signature="question -> output").forward("What?")
    assert prediction.output == "42"


def test_the_predictor_that_runs_is_that_of_a_real_react():
    generator = agent(SIX_BY_SEVEN, decision("submit"), decision("submit", answer="42"))
    assert type(generator.agent) is REACT
    assert [name for name, _ in generator.named_predictors()] == ["agent.react"]
    with dspy.context(trace=[]):
        assert generator.forward("What?").answer == "42"
        ran = [id(predictor) for predictor, _, _ in dspy.settings.trace]
    assert ran == [id(generator.agent.react)] * 3


def test_direct_forward_gives_callbacks_usage_and_no_warning(caplog):
    from dspy.utils.callback import BaseCallback

    class Count(BaseCallback):
        def __init__(self):
            self.modules = []

        def on_module_start(self, call_id, instance, inputs):
            self.modules.append(type(instance).__name__)

    seen = []
    for how in ("forward", "__call__"):
        callback = Count()
        with dspy.context(callbacks=[callback], track_usage=True), caplog.at_level(logging.WARNING):
            prediction = getattr(agent(), how)("What?")
        seen.append((callback.modules, sorted(prediction.get_lm_usage())))
    assert seen[0] == seen[1]
    assert seen[0][0][0] == "ReActGenerator"
    assert not caplog.records


def test_iterations_task_over_agent_over_ten():
    endless = FunctionLM(
        "t/endless",
        lambda p: (
            decision("calculator", expression="1")
            if "tool_calls" in p.wants
            else render_reply(reasoning="", answer="?")
        ),
    )

    def spent(limit=None, **fields):
        agent = ReActGenerator(tools=[calculator], lm=endless, max_iters=limit, policy=Policy(no_progress=None))
        return agent.run("x", **fields).usage.iterations

    assert (spent(), spent(4), spent(4, max_iters=2), spent(max_iters=0)) == (10, 4, 2, 0)


@pytest.mark.parametrize(
    "reply",
    ["", "junk", "[[ ## next_tool_name ## ]]", "null", "[]", '{"next_tool_name": "finish"}', "[[ ## next_thought ## ]]\n[[ ## next_tool_args ## ]]\n{",
     decision("calculator", expression=3), decision("nope"), render_reply(next_thought="t", next_tool_name="calculator", next_tool_args="[1]"),
     render_reply(next_thought="t", next_tool_name="calculator", next_tool_args="null"), "\x00\x1f", decision("finish", wrong=1), "[[ ## completed ## ]]" * 50],
)  # fmt: skip
@pytest.mark.parametrize("policy", [Policy(), Policy.lenient(), Policy.replay()])
def test_no_reply_crashes_a_run(reply, policy):
    output = ReActGenerator(
        tools=[calculator], lm=FunctionLM("t/odd", lambda prompt: reply), policy=policy, max_iters=3
    ).run("x")
    assert output.termination_reason in ("completed", "max_iterations", "invalid_model_action")
    output.model_dump_json()


def test_an_argument_that_is_no_object_is_a_structured_error():
    raw = render_reply(next_thought="t", next_tool_name="calculator", next_tool_args='"6 * 7"')
    generator = agent(raw, decision("finish", answer="42"), policy=Policy.replay())
    error = generator.run("x").structured_trace[0].error
    assert (error.kind, error.received_args) == ("invalid_args", "6 * 7")


@pytest.mark.parametrize(
    "value", [[1, 2], [None], ["s", 1], "\ud800", b"\xff", object(), {1, 2}, {"a": object()}, float("nan"), None]
)
def test_any_tool_value_and_lone_surrogates_are_fine(value):
    def odd(text: str) -> object:
        """Odd."""
        return value

    generator = agent(decision("odd", text="a"), decision("finish", answer="x"), tools=[odd])
    assert generator.run("lone \ud800 surrogate").completed


def test_no_traceback_or_path_reaches_the_prompt():
    def explode() -> None:
        """Explode."""
        raise ValueError("bad")

    generator = agent(decision("explode"), decision("finish", answer="x"), tools=[explode])
    generator.run("x")
    text = generator.lm.prompts[-1].text
    assert "ValueError: bad" in text
    assert "Traceback" not in text
    assert ".py" not in text


class Money(BaseModel):
    amount: float
    currency: Literal["EUR", "USD"]


def test_finish_takes_typed_outputs():
    signature = "question, shop: str -> total: Money, prices: list[int], note: str"
    signature = dspy.Signature(signature, custom_types={"Money": Money})
    generator = agent(
        decision("finish", total={"amount": "2", "currency": "EUR"}, prices=["1", 2], note="n"), signature=signature
    )
    prediction = generator.forward(question="q", shop="s")
    assert prediction.total == Money(amount=2, currency="EUR")
    assert prediction.prices == [1, 2]
    assert prediction.output.answer == Money(amount=2, currency="EUR")


@pytest.mark.parametrize(
    "signature",
    ["task, tools -> answer", "trajectory -> answer", "task -> keys", "task -> reasoning", "task, lm -> answer"],
)
def test_clashing_field_names_are_refused(signature):
    with pytest.raises(SignatureError, match="reserved"):
        ReActGenerator(signature, tools=[calculator])


def test_misuse_by_the_caller_raises():
    for bad in (lambda g: g.forward(), lambda g: g.forward(question="x"), lambda g: g.forward("x", taks_id="t")):
        with pytest.raises(SignatureError, match="task"):
            bad(agent())
    with pytest.raises(SignatureError, match="by name"):
        agent(signature="a, b -> c").forward("x")
    with pytest.raises(SignatureError, match="not both"):
        agent().forward(TaskInput(inputs={"task": "x"}), domain="d")


def test_failures_are_returned_or_raised_on_request():
    assert agent("junk", policy="default").forward("x").error.kind == "invalid_model_action"
    with pytest.raises(InvalidModelAction):
        agent("junk", raise_on_failure=True, policy="default").forward("x")
    down = agent(RuntimeError("no route to host")).run("x")
    assert (down.termination_reason, "no route" in down.error.message) == ("model_transport", True)


def test_the_playbook_stands_before_the_task_and_is_cited(tmp_path):
    embedder = CallableEmbedder("len", lambda texts: [[len(t), 1.0] for t in texts])
    with Playbook.open(tmp_path / "p.db", embedder=embedder) as book:
        book.add(section="Strategies", trigger="Multiply", content="Use the calculator.", tool_sequence=("calculator",))
        book.add(
            section="Strategies",
            trigger="Multiply",
            content="Other tool.",
            tool_sequence=("abacus",),
            changing_tools=("abacus",),
        )
        generator = agent(decision("finish", "as [b-1] says", answer="42", cited_bullets=["b-7"]), playbook=book)
        output = generator.run("Multiply 6 by 7")
    prompt = generator.lm.prompts[0]
    assert list(prompt.tools) == ["calculator", "submit"]
    assert "[b-1]" not in prompt.system
    assert (
        prompt.text.index("[[ ## playbook ## ]]") < prompt.text.index("[b-1]") < prompt.text.index("[[ ## task ## ]]")
    )
    assert output.injected_bullets == output.cited_bullets == ("b-1",), "bullets of tools that are not here do not come"


@pytest.mark.parametrize("adapter", [None, dspy.ChatAdapter()])
def test_the_catalog_is_no_part_of_the_instructions(adapter):
    generator = agent()
    assert "arithmetic" not in generator.agent.react.signature.instructions
    generator.agent.react.signature = generator.agent.react.signature.with_instructions("Be brief.")
    with dspy.context(adapter=adapter):
        generator.run("x")
    assert "arithmetic" in generator.lm.prompts[0].tools["calculator"]["description"]
    assert "Be brief." in generator.lm.prompts[0].system


def test_save_and_load(tmp_path):
    generator = agent()
    generator.agent.react.signature = generator.agent.react.signature.with_instructions("Optimised.")
    generator.agent.react.demos = [dspy.Example(task="t", next_thought="x")]
    generator.save(tmp_path / "g.json")
    loaded = agent()
    loaded.load(tmp_path / "g.json")
    assert loaded.agent.react.signature.instructions == "Optimised."
    assert loaded.agent.react.demos[0]["task"] == "t"
    assert loaded.forward("x").answer == "42"


@pytest.mark.parametrize("react", [REACT, *filter(None, [OLD_REACT])])
@pytest.mark.parametrize("instructions", ["", "Answer as a pirate."])
def test_state_of_a_plain_react_loads(tmp_path, instructions, react):
    signature = dspy.Signature("task -> answer", instructions) if instructions else dspy.Signature("task -> answer")
    plain = react(signature, tools=[calculator.func])
    plain.react.demos = [dspy.Example(task="demo task", next_thought="x")]
    plain.save(tmp_path / "plain.json")
    generator = agent(signature=signature)
    fresh = generator.agent.react.signature
    generator.load(tmp_path / "plain.json")
    loaded = generator.agent.react.signature
    assert loaded.instructions == fresh.instructions, "an unchanged tool list is replaced by our behaviour text"
    assert list(loaded.fields) == list(fresh.fields)
    described = {name: field.json_schema_extra["desc"] for name, field in loaded.fields.items() if name != "tools"}
    assert described == {name: fresh.fields[name].json_schema_extra["desc"] for name in described}
    # demonstrations of the old loop hold its trajectory as text, which no prompt of ours has a place for
    assert [demo["task"] for demo in generator.agent.react.demos] == ["demo task"] * (react is REACT)
    assert generator.forward("x").answer == "42"


@pytest.mark.parametrize("react", [REACT, *filter(None, [OLD_REACT])])
def test_optimised_instructions_of_a_plain_react_survive(tmp_path, react):
    plain = react("task -> answer", tools=[calculator.func])
    plain.react.signature = plain.react.signature.with_instructions("Think twice.")
    plain.save(tmp_path / "plain.json")
    generator = agent()
    generator.load(tmp_path / "plain.json")
    assert generator.agent.react.signature.instructions == "Think twice."


def test_what_we_save_loads_into_plain_react(tmp_path):
    generator = agent(tools=[calculator])
    generator.agent.react.signature = generator.agent.react.signature.with_instructions("Think twice.")
    generator.agent.react.demos = [dspy.Example(task="demo task", next_thought="x")]
    generator.save(tmp_path / "ours.json")
    plain = REACT("task -> answer", tools=[calculator.func])
    fresh = plain.react.signature
    plain.load(tmp_path / "ours.json")
    assert plain.react.signature.instructions == "Think twice."
    assert list(plain.react.signature.fields) == list(fresh.fields)
    assert plain.react.demos[0]["task"] == "demo task"
    with dspy.context(lm=ScriptedLM([SIX_BY_SEVEN, decision("submit", answer="42")])):
        assert plain(task="x").answer == "42"


def test_deepcopy_shares_tools_and_memory(book):
    class Shop:
        def __init__(self):
            self.sold = 0
            self.lock = threading.Lock()

        def sell(self) -> int:
            """Sell one."""
            self.sold += 1
            return self.sold

    shop = Shop()
    generator = agent(decision("sell"), decision("finish", answer="x"), tools=[shop.sell], playbook=book)
    copied = generator.deepcopy()
    assert copied.agent.react is not generator.agent.react
    assert copied.playbook is book
    copied.run("x")
    assert shop.sold == 1


def test_evaluate_and_bootstrap_run_offline():
    def answer(prompt):
        if "tool_calls" in prompt.wants and not prompt.steps:
            return decision("calculator", expression=prompt.fields["task"])
        if "tool_calls" in prompt.wants:
            return decision("finish", answer=prompt.steps[-1]["observation"])
        return render_reply(reasoning="", answer="?")

    examples = [dspy.Example(task=f"{n} * 2", answer=str(2 * n)).with_inputs("task") for n in range(6)]

    def metric(example, prediction, trace=None):
        return prediction.answer == example.answer

    with dspy.context(lm=FunctionLM("t/calc", answer)), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # DSPy's own, not ours
        generator = ReActGenerator(tools=[calculator])
        score = dspy.Evaluate(devset=examples, metric=metric, num_threads=2, display_progress=False)(generator).score
        compiled = dspy.BootstrapFewShot(metric=metric, max_bootstrapped_demos=2, max_labeled_demos=0).compile(
            generator, trainset=examples[:3]
        )
        assert score == 100
        assert len(compiled.agent.react.demos) == 2
        assert compiled.forward("3 * 3").answer == "9"


def test_runs_of_one_agent_do_not_mix():
    def answer(prompt):
        if not prompt.steps:
            return decision("calculator", expression=prompt.fields["task"])
        return decision("finish", answer=prompt.steps[-1]["observation"])

    generator = ReActGenerator(tools=[calculator], lm=FunctionLM("t/calc", answer))

    async def many():
        return await asyncio.gather(*(generator.arun(f"{n} + 1000") for n in range(20)))

    assert [o.answer for o in asyncio.run(many())] == [str(n + 1000) for n in range(20)]
    answers = {}
    threads = [
        threading.Thread(target=lambda n=n: answers.update({n: generator.run(f"{n} + 1").answer})) for n in range(10)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert answers == {n: str(n + 1) for n in range(10)}


def test_bound_to_swaps_bodies_only():
    def one(x: int) -> int:
        """Number."""
        return 1

    generator = agent(decision("one", x=1), decision("finish", answer="x"), tools=[one])
    other = ToolRegistry([Tool.from_function(one).bind(lambda x: 2)])
    assert generator.bound_to(other).run("x").structured_trace[0].observation == "2"
    with pytest.raises(ToolRegistrationError, match="same names"):
        generator.bound_to(ToolRegistry([calculator]))


def test_other_adapters_work():
    lm = FunctionLM(
        "t/json",
        lambda p: json.dumps({"next_thought": "t", "next_tool_name": "finish", "next_tool_args": {"answer": "42"}}),
    )
    with dspy.context(adapter=dspy.JSONAdapter()):
        assert ReActGenerator(tools=[calculator], lm=lm).forward("x").answer == "42"


def test_lone_surrogates_from_caller_and_model_never_leave_as_such():
    raw = render_reply(next_thought="t", next_tool_name="calculator", next_tool_args='{"expression": "\\ud800"}')
    output = agent(raw, decision("finish", answer="\udfff")).run("lone \ud800")
    output.model_dump_json().encode("utf-8")


def test_memory_model_and_observers_can_be_swapped(book):
    events = []
    generator = ReActGenerator(tools=[calculator])
    generator.playbook, generator.lm, generator.observers = book, ScriptedLM(ANSWER), [events.append]
    assert generator.forward("x").answer == "42"
    assert (generator.playbook, events[0].kind) == (book, "run_started")
    generator.playbook = None
    generator.set_lm(ScriptedLM([decision("finish", answer="other")]))
    assert generator.forward("x").answer == "other"


def test_a_dspy_tool_is_taken():
    def triple(x: int) -> int:
        """Three times."""
        return 3 * x

    generator = agent(decision("triple", x=2), decision("finish", answer="6"), tools=[dspy.Tool(triple)])
    assert generator.run("x").structured_trace[0].observation == "6"


def test_descriptions_of_outputs_reach_the_catalog():
    class Measure(dspy.Signature):
        """Measure."""

        task: str = dspy.InputField()
        answer: float = dspy.OutputField(desc="the height in cm")

    generator = agent(decision("finish", answer=3), signature=Measure)
    assert generator.forward("x").answer == 3.0
    assert "the height in cm" in generator.lm.prompts[0].system.partition("submit(answer: float")[2]


def test_a_prediction_can_be_copied():
    prediction = agent().forward("x")
    assert prediction.copy(extra=1).extra == 1
    assert prediction.copy().termination_reason == "completed"
    assert "answer" not in prediction.without("answer")


def test_every_request_is_in_the_usage_whatever_the_adapter_does():
    asked = []
    lm = FunctionLM("t/junk", lambda prompt: asked.append(1) or "junk")
    with dspy.context(adapter=dspy.ChatAdapter()):
        output = ReActGenerator(tools=[calculator], lm=lm, policy="default").run("x")
        assert output.usage.lm_calls == len(asked) == 1  # a decision is asked for once
        output = ReActGenerator(tools=[calculator], lm=lm).run("x", max_iters=0)
    assert output.usage.lm_calls == len(asked) - 1 == 1  # and so is the answer


def test_a_bad_limit_and_an_absurd_input_are_the_callers_errors():
    with pytest.raises(SignatureError, match="max_iters"):
        agent().forward("x", max_iters=-1)
    deep = []
    for _ in range(5_000):
        deep = [deep]
    with pytest.raises(SignatureError, match="nested"):
        agent().forward(task=deep)
    from ace.core import BudgetExceeded

    with pytest.raises(BudgetExceeded):
        agent(render_reply(reasoning="", answer="?"), raise_on_failure=True).forward("x", max_iters=0)


def test_retrieval_does_not_block_the_event_loop():
    import time

    class Slow:
        def retrieve_for(self, task, tools):
            time.sleep(0.3)
            return []

    async def main():
        running = asyncio.create_task(agent(playbook=Slow()).arun("x"))
        started = time.perf_counter()
        await asyncio.sleep(0.01)
        waited = time.perf_counter() - started
        await running
        return waited

    assert asyncio.run(main()) < 0.2


def test_a_changed_tool_hides_its_bullets_from_the_next_run_and_the_run_says_so(book, caplog):
    known = book.add(
        section="Strategies",
        content="Use the calculator.",
        tool_sequence=("calculator",),
        tool_schema_hashes={"calculator": calculator.schema_hash},
    )
    out = agent(playbook=book).forward("What?")
    assert (out.injected_bullets, out.metadata) == ((known.id,), {})

    def changed(expression: str, digits: int = 2) -> str:
        """Calculate."""
        return "42"

    other = Tool.from_function(changed, name="calculator")
    with caplog.at_level(logging.WARNING):
        out = agent(tools=[other], playbook=book).forward("What?")
    assert (out.injected_bullets, out.metadata["outdated_bullets"]) == ((), [known.id])
    assert (
        f"1 bullets are hidden, because one of their tools has changed its signature since: {known.id}" in caplog.text
    )
    book.review.confirm([known.id], {"calculator": other.schema_hash})
    assert agent(tools=[other], playbook=book).forward("What?").injected_bullets == (known.id,)


def test_a_tool_that_needs_approval_waits_for_it():
    pay, paid = payments()
    it = paying_agent([pay], PAY, PAID)
    out = it.forward("x")
    assert (out.termination_reason, paid) == ("interrupted", [])
    assert out.request.kind == "approval"
    assert (out.request.calls[0].tool_name, out.request.calls[0].tool_args) == ("pay", {"amount": 7})
    out = it.resume(out.run_id, "approve")
    assert (out.answer, paid, out.termination_reason) == ("done", [7], "completed")
    assert out.structured_trace[0].observation == "paid 7"


def test_an_approval_may_change_the_arguments():
    pay, paid = payments()
    it = paying_agent([pay], PAY, PAID)
    out = it.forward("x")
    with pytest.raises(ResumeError, match="amount"):
        it.resume(out.run_id, Approve(args={"amount": "a lot"}))
    assert it.resume(out.run_id, Approve(args={"amount": 5})).structured_trace[0].tool_args == {"amount": 5}
    assert paid == [5]


def test_what_is_denied_is_not_done_and_the_model_reads_why():
    pay, paid = payments()
    it = paying_agent([pay], PAY, PAID)
    out = it.resume(it.forward("x").run_id, Deny("too much"))
    step = out.structured_trace[0]
    assert (step.outcome, step.observation, step.executed, paid) == ("denied", "too much", False, [])
    assert "too much" in it.lm.prompts[-1].text
    assert out.usage.tool_calls == 0


def test_a_decision_is_needed_exactly_when_one_is_asked_for():
    pay, _ = payments()
    it = paying_agent([pay], PAY, PAID)
    out = it.forward("x")
    with pytest.raises(ResumeError, match="approve"):
        it.resume(out.run_id)
    with pytest.raises(ResumeError, match="must be"):
        it.resume(out.run_id, "perhaps")
    it.resume(out.run_id, "deny")
    token = CancellationToken()
    token.cancel("enough")
    out = paying_agent([pay], PAY, PAID).forward("x", cancellation=token)
    assert out.error.message == "enough"
    with pytest.raises(RunStoreError, match="run_store"):
        it.resume("unknown")


def test_a_cancelled_run_goes_on_and_its_events_are_one_stream(tmp_path):
    events = []
    token = CancellationToken()

    @tool(read_only=True)
    def stop() -> str:
        """Stop the run."""
        token.cancel("enough")
        return "stopped"

    it = paying_agent([stop], decision("stop"), PAID, run_store=tmp_path, observers=[events.append])
    out = it.forward("x", cancellation=token)
    assert out.termination_reason == "interrupted"
    with pytest.raises(ResumeError, match="no decision"):
        it.resume(out.run_id, "approve")
    out = it.resume(out.run_id)
    assert (out.answer, out.usage.iterations) == ("done", 2)
    check_events(events)
    assert [e.kind for e in events].count("run_continued") == 1


def test_a_finished_run_is_read_again_without_doing_anything(tmp_path):
    it = paying_agent([peek], decision("peek", key="a"), PAID, run_store=tmp_path)
    out = it.forward("x")
    again = it.resume(out.run_id)
    assert again.output.model_copy(update={"usage": out.usage}) == out.output
    with pytest.raises(ResumeError, match="no decision"):
        it.resume(out.run_id, "approve")


def test_typed_outputs_come_back_with_their_types(tmp_path):
    import datetime

    import dspy

    class Plan(dspy.Signature):
        """Plan."""

        task: str = dspy.InputField()
        when: datetime.date = dspy.OutputField()

    it = ReActGenerator(Plan, tools=[], lm=ScriptedLM([decision("finish", when="2026-01-02")]), run_store=tmp_path)
    out = it.forward("x")
    assert it.resume(out.run_id).when == out.when == datetime.date(2026, 1, 2)


def test_a_run_goes_on_only_with_the_tools_it_began_with(tmp_path):
    pay, _ = payments()
    out = paying_agent([pay, peek], PAY, run_store=tmp_path).forward("x")

    @tool(requires_approval=True)
    def pay_more(amount: float) -> str:
        """Pay."""
        return ""

    other = type(pay_more).from_function(pay_more.func, name="pay")
    with pytest.raises(RunStoreError, match=r"missing now: \['peek'\], new: \['send'\], changed: \['pay'\]"):
        paying_agent([other, type(peek).from_function(peek.func, name="send")], run_store=tmp_path).resume(
            out.run_id, "deny"
        )


def test_inputs_must_be_json_to_be_stored(tmp_path):
    import dspy

    class Odd(dspy.Signature):
        """Odd."""

        task: object = dspy.InputField()
        answer: str = dspy.OutputField()

    with pytest.raises(SignatureError, match="'task' is no plain JSON"):
        ReActGenerator(Odd, tools=[], lm=ScriptedLM([PAID]), run_store=tmp_path).forward(task={1, 2})


def test_a_damaged_or_foreign_file_is_a_clear_error(tmp_path):
    store = FolderRunStore(tmp_path)
    out = paying_agent([peek], PAID, run_store=store).forward("x")
    path = tmp_path / f"{out.run_id}.json"
    whole = path.read_text(encoding="utf-8")
    path.write_text(whole.replace("completed", "corrupted"), encoding="utf-8")
    with pytest.raises(RunStoreError, match="was edited"):
        store.load(out.run_id)
    body = json.loads(whole)["run"].replace("completed", "corrupted")
    for forged in ({"hmac": hashlib.sha256(body.encode()).hexdigest(), "run": body}, {"sha256": "0", "run": body}):
        path.write_text(json.dumps(forged), encoding="utf-8")
        with pytest.raises(RunStoreError, match=r"was edited|no stored run"):
            store.load(out.run_id)
    (tmp_path / "other.json").write_text(whole, encoding="utf-8")
    with pytest.raises(RunStoreError, match="holds another run"):
        store.load("other")
    (tmp_path / "other.json").unlink()
    path.write_text(whole[: len(whole) // 2], encoding="utf-8")
    with pytest.raises(RunStoreError, match="no stored run"):
        store.load(out.run_id)
    with pytest.raises(RunStoreError, match="letters"):
        store.load("../etc/passwd")
    with pytest.raises(RunStoreError, match="version 1"):
        RunSnapshot.from_json(json.dumps({"schema_version": "9"}))
    store.delete(out.run_id)
    assert store.run_ids() == ()


def test_a_decision_is_used_once_also_in_memory():
    refund, done = refunds()
    agent = ReActGenerator(tools=[refund], lm=ScriptedLM([decision("refund", order="o"), SAYS_42, SAYS_42]))
    out = agent.run("x")
    threads = []
    errors = []

    def approve():
        try:
            agent.resume(out.run_id, "approve")
        except (RunStoreError, ResumeError) as error:
            errors.append(error)

    for _ in range(3):
        threads.append(threading.Thread(target=approve))
        threads[-1].start()
    for thread in threads:
        thread.join()
    assert done == ["o"]
    assert len(errors) == 2
    with pytest.raises(ResumeError):
        agent.resume(out.run_id, "approve")
    assert done == ["o"]


def test_odd_content_of_the_model_can_be_stored(tmp_path):
    deep = []
    for _ in range(300):
        deep = [deep]
    agent = ReActGenerator(
        tools=[calculator],
        lm=ScriptedLM([decision("calculator", expression=deep), decision("finish", answer="x")]),
        run_store=tmp_path,
        policy=Policy.replay(),
    )
    assert agent.run("x").error_history[0].kind == "invalid_args"
    run = AgentRun(spec(limits=UsageLimits(lm_calls=1)))
    output = drive(run, Script(extract("a\ud800b")), lambda run: run.snapshot().to_json())
    assert output.answer == "a?b"


def test_nested_agents_share_one_budget():
    @tool(read_only=True)
    def ask(question: str) -> str:
        """Ask an expert three times."""
        inner = ReActGenerator(tools=[calculator], lm=ScriptedLM([SIX_BY_SEVEN, SAYS_42] * 3))
        return " ".join(inner.run(question).termination_reason for _ in range(3))

    agent = ReActGenerator(
        tools=[ask], lm=ScriptedLM([decision("ask", question="q"), SAYS_42]), limits=UsageLimits(lm_calls=5)
    )
    out = agent.run("x")
    assert out.usage.lm_calls <= 5
    assert "budget_exceeded" in out.structured_trace[0].observation


def test_what_a_nested_agent_spent_is_booked_when_its_tool_times_out():
    slow = FaultyTool(calculator, [None, "hang"])

    @tool(read_only=True, timeout=0.6)
    def ask(question: str) -> str:
        """Ask an expert who takes too long."""
        return (
            ReActGenerator(tools=[slow.tool], lm=ScriptedLM([SIX_BY_SEVEN, SIX_BY_SEVEN, SAYS_42])).run(question).answer
        )

    agent = ReActGenerator(
        tools=[ask], lm=ScriptedLM([decision("ask", question="q"), SAYS_42]), policy=Policy(tool_retry=None)
    )
    assert agent.run("x").usage.lm_calls == 4


def test_waiting_is_no_failure_to_raise():
    refund, _ = refunds()
    agent = ReActGenerator(
        tools=[refund], lm=ScriptedLM([decision("refund", order="o"), SAYS_42]), raise_on_failure=True
    )
    assert agent.run("x").request is not None
    with pytest.raises(InvalidModelAction):
        ReActGenerator(tools=[], lm=ScriptedLM([decision("nope")]), raise_on_failure=True, policy="default").run("x")


def test_a_streamed_run_inside_a_tool_ends_with_the_outer_one():
    token, ends = CancellationToken(), []
    slow = FaultyTool(calculator, ["hang"])

    @tool(read_only=True)
    def ask(question: str) -> str:
        """Ask an expert."""
        with ReActGenerator(tools=[slow.tool], lm=ScriptedLM([SIX_BY_SEVEN])).stream(question) as stream:
            ends.append([event.kind for event in stream][-1])
        return "?"

    threading.Timer(0.3, token.cancel).start()
    ReActGenerator(tools=[ask], lm=ScriptedLM([decision("ask", question="q")])).run("x", cancellation=token)
    until = time.monotonic() + 5
    while not ends and time.monotonic() < until:
        time.sleep(0.01)
    assert ends == ["run_cancelled"]


def test_a_limit_in_dollars_needs_prices_for_each_call_too():
    with pytest.raises(SignatureError, match="prices"):
        ReActGenerator(tools=[], lm=ScriptedLM([SAYS_42])).run("x", limits=UsageLimits(cost=1.0))


def test_a_stream_gives_the_events_and_the_pieces_of_the_replies():
    with calculating_agent(SIX_BY_SEVEN, SAYS_42).stream("x") as stream:
        with pytest.raises(ResumeError, match="not over"):
            assert stream.output
        events = list(stream)
    check_events(events)
    assert stream.output.answer == "42"
    streamed = "".join(e.data["text"] for e in events if e.kind == "model_request_delta")
    assert "calculator" in streamed
    assert "finish" in streamed


def test_the_reader_of_a_stream_is_told_arguments_results_and_the_answer_and_observers_are_not():
    seen = []
    lm = ScriptedLM([decision("calculator", expression="6 * 7"), decision("submit", answer="42")])
    it = ReActGenerator(tools=[calculator], lm=lm, observers=[seen.append])
    with it.stream("What is 6 times 7?") as stream:
        events = {event.kind: event for event in stream}
    assert events["tool_call_started"].args == {"expression": "6 * 7"}
    assert events["tool_call_completed"].result == "42"
    assert events["run_completed"].answer == "42"
    assert {event.kind for event in seen} == set(events)
    assert all((event.args, event.result, event.answer) == (None, None, None) for event in seen)


def test_sync_async_and_streamed_runs_are_the_same_run():
    def shape(events):
        return [(e.kind, e.step_id, e.data) for e in events if e.kind != "model_request_delta"]

    seen = [[], []]
    sync = calculating_agent(SIX_BY_SEVEN, SAYS_42, observers=[seen[0].append]).run("x", task_id="t")
    others = asyncio.run(calculating_agent(SIX_BY_SEVEN, SAYS_42, observers=[seen[1].append]).arun("x", task_id="t"))
    with calculating_agent(SIX_BY_SEVEN, SAYS_42).stream("x", task_id="t") as stream:
        streamed = list(stream)
    assert shape(seen[0]) == shape(seen[1]) == shape(streamed)
    plain = {"run_id": "", "usage": None, "structured_trace": None}
    outputs = (o.model_copy(update=plain) for o in (sync, others, stream.output))
    assert len({o.model_dump_json(warnings=False) for o in outputs}) == 1


def test_leaving_a_stream_early_cancels_the_run():
    faulty = FaultyTool(calculator, ["hang"])
    it = ReActGenerator(tools=[faulty.tool], lm=ScriptedLM([SIX_BY_SEVEN]))
    started = time.monotonic()
    with it.stream("x") as stream:
        for event in stream:
            if event.kind == "tool_call_started":
                break
    assert time.monotonic() - started < 5
    out = it.resume(event.run_id, lm=ScriptedLM([SAYS_42]))
    assert (out.answer, out.structured_trace[0].outcome) == ("42", "interrupted")


def test_an_async_stream_is_read_with_async_for():
    async def main():
        async with calculating_agent(SIX_BY_SEVEN, SAYS_42).astream("x") as stream:
            kinds = [event.kind async for event in stream]
        return kinds, stream.output.answer

    kinds, answer = asyncio.run(main())
    assert (kinds[0], kinds[-1], answer) == ("run_started", "run_completed", "42")


def test_a_stream_raises_what_the_caller_did_wrong():
    with (
        pytest.raises(SignatureError, match="expected the input fields"),
        calculating_agent().stream(nothing="x") as stream,
    ):
        list(stream)


def test_an_observer_that_raises_or_hangs_does_not_hurt_the_run():
    seen = []

    def raises(event):
        raise SystemExit

    def hangs(event):
        time.sleep(60)

    it = calculating_agent(SIX_BY_SEVEN, SAYS_42, SIX_BY_SEVEN, SAYS_42, observers=[raises, hangs, seen.append])
    started = time.monotonic()
    assert it.run("x").completed
    assert time.monotonic() - started < 2
    check_events(seen)
    started = time.monotonic()
    assert it.run("x").completed
    assert time.monotonic() - started < 0.5  # a hung observer is waited for once


@pytest.mark.parametrize(
    "options",
    [
        {"tool_calling": "both"},
        {"output_mode": "json"},
        {"limits": UsageLimits(cost=1.0)},
        {"max_iters": -1},
    ],
)
def test_settings_that_make_no_sense_are_refused(options):
    with pytest.raises(SignatureError):
        calculating_agent(**options)


def test_the_usage_counts_money_by_the_prices_given():
    out = calculating_agent(SIX_BY_SEVEN, SAYS_42, prices=TokenPrices(input=1.0, output=2.0)).run("x")
    assert out.usage.cost == pytest.approx((out.usage.input_tokens + 2 * out.usage.output_tokens) / 1e6)
    assert out.usage.total_tokens == out.usage.input_tokens + out.usage.output_tokens


def test_limits_of_a_call_can_only_be_tighter():
    it = calculating_agent(
        SIX_BY_SEVEN, SAYS_42, SIX_BY_SEVEN, render_reply(reasoning="", answer="?"), limits=UsageLimits(iterations=5)
    )
    assert it.run("x").completed
    assert it.run("x", limits=UsageLimits(iterations=1)).termination_reason == "max_iterations"


def test_a_summary_is_written_by_the_agents_own_predictor():
    wrote = render_reply(objective="o", actions="computed 42", observations="b", state="s")
    it = calculating_agent(SIX_BY_SEVEN, wrote, SAYS_42, summary=Summary(every=1))
    out = it.forward("x")
    assert out.summary.actions == "computed 42"
    assert "Conversation so far:\nObjective: o\nActions: computed 42" in it.lm.prompts[-1].messages[1][1]
    assert "summarizer" in dict(it.named_predictors())


def test_the_generator_is_an_agent():
    it = calculating_agent(SAYS_42)
    assert isinstance(it, Agent)
    out = it.run("x")
    assert it.format_result(out, "simple") == "42"
    assert it.format_result(out, "structured") is out


def test_a_resumed_run_is_streamed_from_there_on():
    asked = []

    @tool(requires_approval=True)
    def pay(amount: int) -> str:
        """Pay."""
        asked.append(amount)
        return "paid"

    it = ReActGenerator(tools=[pay], lm=ScriptedLM([decision("pay", amount=7), SAYS_42]))
    waiting = it.forward("x")
    assert (waiting.termination_reason, asked) == ("interrupted", [])
    with it.stream_resume(waiting.run_id, "approve") as stream:
        kinds = [event.kind for event in stream]
    assert (kinds[0], kinds[-1], stream.output.answer, asked) == ("run_continued", "run_completed", "42", [7])
    with pytest.raises(TypeError, match="limits"):
        it.resume(waiting.run_id, "approve", limits=UsageLimits(iterations=1))


def test_a_policy_is_given_the_state_of_the_run():
    states = []

    class Watching(Policy):
        def on_model_error(self, state, error):
            states.append((state.user_input, state.step_count, state.correlation_id, state.attempt))
            return super().on_model_error(state, error)

    out = calculating_agent(
        decision("nothing_of_that_name"), SAYS_42, policy=Watching(on_invalid_action="observe")
    ).run("x", task_id="t9")
    assert out.answer == "42"
    assert states == [("x", 0, "t9", 1)]


def test_an_agent_inside_a_tool_gets_no_more_than_what_is_left():
    seen = {}

    @tool(read_only=True)
    def ask_expert(question: str) -> str:
        """Ask an expert."""
        inner = calculating_agent(
            SIX_BY_SEVEN, render_reply(reasoning="", answer="inner"), max_iters=50, policy=Policy(no_progress=None)
        )
        seen["inner"] = inner.run(question)
        return seen["inner"].answer

    outer = ReActGenerator(
        tools=[ask_expert],
        lm=ScriptedLM([decision("ask_expert", question="q"), SAYS_42]),
        limits=UsageLimits(iterations=2, lm_calls=10),
    )
    out = outer.run("x")
    assert seen["inner"].termination_reason == "max_iterations"
    assert seen["inner"].usage.iterations == 1
    assert out.usage.lm_calls == 2 + seen["inner"].usage.lm_calls


def test_cancelling_the_outer_run_cancels_the_inner_one():
    token, ends = CancellationToken(), []
    faulty = FaultyTool(calculator, ["hang"])

    @tool(read_only=True)
    def ask_expert(question: str) -> str:
        """Ask an expert."""
        inner = ReActGenerator(tools=[faulty.tool], lm=ScriptedLM([SIX_BY_SEVEN]))
        ends.append(inner.run(question).termination_reason)
        return "?"

    import threading

    threading.Timer(0.2, token.cancel).start()
    ReActGenerator(tools=[ask_expert], lm=ScriptedLM([decision("ask_expert", question="q")])).run(
        "x", cancellation=token
    )
    until = time.monotonic() + 3
    while not ends and time.monotonic() < until:
        time.sleep(0.01)
    assert ends == ["interrupted"]


def test_an_agent_learns_from_its_own_run_in_one_call(tmp_path, embedder):
    lm = ScriptedLM([decision("calculator", expression="6 * 7"), decision("finish", answer="42")])
    with Playbook.open(tmp_path / "p.db", embedder=embedder) as book:
        agent = ReActGenerator(tools=[calculator], lm=lm, playbook=book)
        report = agent.learn(agent.forward("What is 6 * 7?"), success=0.9)
        assert (report.runs, report.successes, report.added) == (1, 1, 1)
        assert (
            book.bullets[0].content
            == "calculator(expression from the task), then answer from calculator; nothing is to be changed, then submit(...)"
        )
        with pytest.raises(ValueError, match="finite"):
            agent.learn(agent.run("What is 6 * 7?"), success=float("nan"))
    with pytest.raises(ValueError, match="playbook of its own"):
        ReActGenerator(tools=[calculator], lm=lm).learn(agent.run("What is 6 * 7?"), True)


def test_a_saved_program_holds_no_key(tmp_path, caplog):
    key = "sk-a-secret-key-0123456789"
    agent = ReActGenerator(tools=[peek], lm=dspy.LM("openai/x", api_key=key, extra_headers={"x": key}))
    agent.save(tmp_path / "whole", save_program=True)
    assert not [file for file in (tmp_path / "whole").iterdir() if key.encode() in file.read_bytes()]
    assert "saved without its api_key, extra_headers" in caplog.text
    assert agent.lm.kwargs["api_key"] == key
    loaded = dspy.load(str(tmp_path / "whole"), allow_pickle=True)
    assert (loaded.lm.model, loaded.lm.kwargs.get("api_key")) == ("openai/x", None)
