import asyncio
import copy
import json
import logging
import threading
import warnings
from typing import Literal

import dspy
import pytest
from pydantic import BaseModel

from ace import Policy, ReActGenerator, TaskInput, ToolRegistry
from ace.core import InvalidModelAction, SignatureError, ToolRegistrationError
from ace.playbook import CallableEmbedder, Playbook
from ace.testing import FunctionLM, ScriptedLM, decision
from ace.testing.engine import render_reply
from ace.tools import Tool, calculator

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


def test_the_predictors_that_run_are_those_of_a_real_react():
    generator = agent(decision("finish"), render_reply(reasoning="r", answer="42"))
    assert type(generator.agent) is dspy.ReAct
    assert [name for name, _ in generator.named_predictors()] == ["agent.react", "agent.extract.predict"]
    with dspy.context(trace=[]):
        generator.forward("What?")
        ran = [id(predictor) for predictor, _, _ in dspy.settings.trace]
    assert ran == [id(generator.agent.react), id(generator.agent.extract.predict)]


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
            if "next_tool_name" in p.wants
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
    for bad in (lambda g: g.forward(), lambda g: g.forward(question="x"), lambda g: g.forward("x", colour=1)):
        with pytest.raises(SignatureError, match="task"):
            bad(agent())
    with pytest.raises(SignatureError, match="by name"):
        agent(signature="a, b -> c").forward("x")
    with pytest.raises(SignatureError, match="not both"):
        agent().forward(TaskInput(inputs={"task": "x"}), domain="d")


def test_failures_are_returned_or_raised_on_request():
    assert agent("junk").forward("x").error.kind == "invalid_model_action"
    with pytest.raises(InvalidModelAction):
        agent("junk", raise_on_failure=True).forward("x")
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
    assert prompt.text.index("[[ ## tools ## ]]") < prompt.text.index("[b-1]") < prompt.text.index("[[ ## task ## ]]")
    assert output.injected_bullets == output.cited_bullets == ("b-1",), "bullets of tools that are not here do not come"


def test_the_catalogue_is_no_part_of_the_instructions():
    generator = agent()
    assert "arithmetic" not in generator.agent.react.signature.instructions
    generator.agent.react.signature = generator.agent.react.signature.with_instructions("Be brief.")
    generator.run("x")
    assert "arithmetic" in generator.lm.prompts[0].fields["tools"]


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


@pytest.mark.parametrize("instructions", ["", "Answer as a pirate."])
def test_state_of_a_plain_react_loads(tmp_path, instructions):
    signature = dspy.Signature("task -> answer", instructions) if instructions else dspy.Signature("task -> answer")
    plain = dspy.ReAct(signature, tools=[calculator.func])
    plain.react.demos = [
        dspy.Example(task="demo task", trajectory="", next_thought="x", next_tool_name="finish", next_tool_args={})
    ]
    plain.extract.predict.signature = plain.extract.predict.signature.with_instructions("Extract well.")
    plain.save(tmp_path / "plain.json")
    generator = agent(signature=signature)
    fresh = generator.agent.react.signature
    generator.load(tmp_path / "plain.json")
    loaded = generator.agent.react.signature
    assert generator.agent.extract.predict.signature.instructions == "Extract well."
    assert loaded.instructions == fresh.instructions, "an unchanged tool list is replaced by our behaviour text"
    assert list(loaded.fields) == list(fresh.fields)
    assert {n: f.json_schema_extra["desc"] for n, f in loaded.fields.items()} == {
        n: f.json_schema_extra["desc"] for n, f in fresh.fields.items()
    }
    assert generator.forward("x").answer == "42"


def test_optimised_instructions_of_a_plain_react_survive(tmp_path):
    plain = dspy.ReAct("task -> answer", tools=[calculator.func])
    plain.react.signature = plain.react.signature.with_instructions("Think twice.")
    plain.save(tmp_path / "plain.json")
    generator = agent()
    generator.load(tmp_path / "plain.json")
    assert generator.agent.react.signature.instructions == "Think twice."


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
        if "next_tool_name" in prompt.wants and not prompt.steps:
            return decision("calculator", expression=prompt.fields["task"])
        if "next_tool_name" in prompt.wants:
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


def test_descriptions_of_outputs_reach_the_catalogue():
    class Measure(dspy.Signature):
        """Measure."""

        task: str = dspy.InputField()
        answer: float = dspy.OutputField(desc="the height in cm")

    generator = agent(decision("finish", answer=3), signature=Measure)
    assert generator.forward("x").answer == 3.0
    assert "the height in cm" in generator.lm.prompts[0].fields["tools"]


def test_a_prediction_can_be_copied():
    prediction = agent().forward("x")
    assert prediction.copy(extra=1).extra == 1
    assert prediction.copy().termination_reason == "completed"
    assert "answer" not in prediction.without("answer")


def test_every_request_is_in_the_ledger_whatever_the_adapter_does():
    asked = []
    lm = FunctionLM("t/junk", lambda prompt: asked.append(1) or "junk")
    with dspy.context(adapter=dspy.ChatAdapter()):
        output = ReActGenerator(tools=[calculator], lm=lm).run("x")
    assert output.usage.lm_calls == len(asked) == 2


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
