"""Native tool calling, and the catalog in either mode."""

import asyncio

import dspy
import pytest
from dspy import lm15

from ace import Policy, ReActGenerator, check_events
from ace.core import InvalidModelAction, SignatureError
from ace.react.program import OLD_REACT, REACT
from ace.testing import FunctionLM, ScriptedLM, decision
from ace.tools import calculator, tool

END = decision("finish", answer="42")


@pytest.mark.parametrize("mode", ["text", "native"])
def test_a_tools_examples_stand_in_the_catalog(mode):
    @tool(examples=("12:30", "noon"))
    def remind(when: str) -> str:
        """Remind somebody."""
        return when

    it = ReActGenerator(tools=[remind], lm=ScriptedLM([END]), tool_calling=mode)
    catalog = it._shared.catalog
    declared = [tool.format_as_litellm_function_call()["function"] for tool in catalog.declared()]
    shown = catalog.text().partition("submit(") if mode == "text" else [str(tool) for tool in declared]
    assert "12:30" in shown[0]
    assert "noon" in shown[0]
    assert "Example" not in shown[-1]  # `submit` has none


def native(*replies, tools=(calculator,), **options):
    lm = NativeLM(replies)
    return ReActGenerator(tools=tools, lm=lm, tool_calling="native", **options), lm


class NativeLM(dspy.LM):
    """A model behind the engine contract that answers with tool calls; a reply is text, or a list of calls.

    A pair of text and finish reason says why it ended.
    """

    def __init__(self, replies):
        lm = self
        self.requests = []
        left = list(replies)

        class Engine:
            supports_function_calling = True
            supports_response_schema = False
            supports_reasoning = False
            supported_params = frozenset({"tools", "tool_choice"})

            def complete(self, request):
                lm.requests.append(request)
                reply, reason = left.pop(0), "stop"
                if isinstance(reply, tuple):
                    reply, reason = reply
                parts = [lm15.TextPart(reply)] if isinstance(reply, str) else []
                if not isinstance(reply, str):
                    parts = [lm15.TextPart("I think [b-1]")]
                    parts += [lm15.ToolCallPart(id="same-id", name=name, input=args) for name, args in reply]
                usage = lm15.Usage(input_tokens=3, output_tokens=2, total_tokens=5)
                return lm15.Response(
                    id=None, model="m", message=lm15.Message.assistant(parts), finish_reason=reason, usage=usage
                )

            def stream(self, request):
                yield from lm15.response_to_events(self.complete(request))

            def close(self):
                pass

        class AsyncEngine:
            async def complete(self, request):
                return engine.complete(request)

            async def stream(self, request):
                for event in engine.stream(request):
                    yield event

            async def aclose(self):
                pass

        engine = Engine()
        super().__init__("test/native", engine=engine, async_engine=AsyncEngine(), cache=False, num_retries=0)


def test_native_mode_sends_the_tools_beside_the_prompt():
    it, lm = native([("calculator", {"expression": "6*7"})], [("finish", {"answer": "42"})])
    out = it.forward("6 times 7?")
    assert (out.answer, out.usage.lm_calls, out.structured_trace[0].observation) == ("42", 2, "42")
    assert out.structured_trace[0].thought == "I think [b-1]"
    first, second = lm.requests
    assert [t.name for t in first.tools] == ["calculator", "submit"]
    prompt = str(first.system) + first.messages[-1].text
    assert "tool_calls" not in prompt
    assert "Work out" not in prompt  # the catalog is not in the prompt
    assert "6 times 7?" in prompt
    asked, called, result = second.messages
    assert (asked.role, asked.text) == ("user", first.messages[0].text)
    assert called.role == "assistant"
    [call] = [part for part in called.parts if isinstance(part, lm15.ToolCallPart)]
    assert (call.name, call.input) == ("calculator", {"expression": "6*7"})
    [answer] = [part for part in result.parts if isinstance(part, lm15.ToolResultPart)]
    assert (result.role, answer.id) == ("tool", call.id)
    assert "".join(part.text for part in answer.content) == "42"


def test_native_text_without_calls_is_the_answer():
    it, _ = native("It is 42.")
    out = it.forward("x")
    assert (out.answer, out.termination_reason, out.usage.lm_calls) == ("It is 42.", "completed", 1)


def test_native_text_is_validated_against_the_signature():
    it, _ = native('{"n": 4, "ok": true}')
    it = ReActGenerator(
        "task -> n: int, ok: bool", tools=[], lm=NativeLM(['{"n": 4, "ok": true}']), tool_calling="native"
    )
    out = it.forward("x")
    assert (out.n, out.ok) == (4, True)
    it = ReActGenerator(
        "task -> n: int, ok: bool", tools=[], lm=NativeLM(["four"]), tool_calling="native", policy="default"
    )
    assert it.forward("x").termination_reason == "invalid_model_action"


def test_native_calls_of_one_reply_share_an_iteration():
    calls = [("calculator", {"expression": str(n)}) for n in range(3)]
    it, _ = native(calls, [("finish", {"answer": "x"})])
    out = it.forward("x")
    assert [s.observation for s in out.structured_trace] == ["0", "1", "2"]
    assert (out.usage.iterations, out.usage.tool_calls) == (2, 3)


@pytest.mark.parametrize(
    ("args", "named"),
    [
        ({"partial_json": '{"expression": '}, "no JSON"),
        ({"value": "6*7"}, "must be a JSON object, got str"),
        ({"x": 1}, "'x'"),
    ],
)
def test_native_wrappers_become_invalid_actions(args, named):
    it, lm = native([("calculator", args)], [("finish", {"answer": "42"})], policy=Policy.lenient())
    out = it.forward("x")
    assert (out.completed, out.usage.reprompts) == (True, 1)
    assert named in lm.requests[1].messages[-1].text


def test_an_empty_native_reply_is_an_invalid_action():
    it, _ = native("", [("finish", {"answer": "42"})], policy=Policy.lenient())
    assert it.forward("x").usage.reprompts == 1


@pytest.mark.parametrize("reason", ["length", "content_filter", "error"])
def test_a_native_text_that_the_model_did_not_end_itself_is_no_answer(reason):
    it, lm = native(("It is fo", reason), [("finish", {"answer": "42"})], policy=Policy.lenient())
    assert (it.forward("x").answer, len(lm.requests)) == ("42", 2)
    it, _ = native(("It is fo", reason), raise_on_failure=True, policy=Policy())
    with pytest.raises(InvalidModelAction) as raised:
        it.forward("x")
    assert raised.value.reason == reason


def test_a_call_written_as_text_is_made_in_native_mode_too():
    written = '<tool_call>{"name": "calculator", "arguments": {"expression": "6*7"}}</tool_call>'
    it, _ = native(written, "It is 42.")
    out = it.forward("x")
    assert (out.answer, out.structured_trace[0].observation) == ("It is 42.", "42")
    it, lm = native(written[:60], "It is 42.", policy=Policy.lenient())
    assert (it.forward("x").usage.reprompts, len(lm.requests)) == (1, 2)


def test_the_reason_a_reply_ended_is_its_own_among_many_runs_of_one_model():
    lm = NativeLM([("whole", "stop"), ("cut", "length")] * 20)
    agents = [ReActGenerator(tools=[], lm=lm, tool_calling="native") for _ in range(40)]

    async def all_of_them():
        return await asyncio.gather(*(agent.arun("x") for agent in agents))

    outputs = asyncio.run(all_of_them())
    assert {out.answer for out in outputs if out.completed} == {"whole"}
    assert sorted(out.completed for out in outputs) == [False] * 20 + [True] * 20


def test_native_calls_beside_finish_are_made_and_finish_is_asked_for_again():
    both = [("calculator", {"expression": "6*7"}), ("finish", {"answer": "early"})]
    it, _ = native(both, [("finish", {"answer": "42"})])
    out = it.forward("x")
    assert (out.answer, out.usage.iterations) == ("42", 2)
    (step,) = out.structured_trace
    assert (step.result, step.remark[:10]) == ("42", "(Not made,")
    assert step.observation == f"{step.result} {step.remark}"


def test_native_mode_works_async_and_streamed():
    replies = [[("calculator", {"expression": "6*7"})], [("finish", {"answer": "42"})]]
    assert asyncio.run(native(*replies)[0].arun("x")).answer == "42"
    with native(*replies)[0].stream("x") as stream:
        check_events(stream)
    assert stream.output.answer == "42"


def test_native_mode_needs_a_model_that_can():
    it = ReActGenerator(tools=[calculator], lm=FunctionLM("t/plain", lambda p: END), tool_calling="native")
    with pytest.raises(SignatureError, match="function calling"):
        it.forward("x")


def test_a_native_program_is_saved_loaded_and_copied(tmp_path):
    it, _ = native("42")
    it.save(tmp_path / "state.json")
    copied, _ = native("43")
    copied.load(tmp_path / "state.json")
    assert copied.deepcopy().forward("x").answer == "43"
    for react in filter(None, [REACT, OLD_REACT]):
        react("task -> answer", tools=[]).save(tmp_path / "plain.json")
        other, _ = native("44")
        other.load(tmp_path / "plain.json")
        assert other.forward("x").answer == "44"
