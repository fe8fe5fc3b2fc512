"""A Pydantic AI agent over a playbook: the real package, and a model that follows the lesson that it is shown."""

import asyncio

import pytest
from conftest import letters
from pydantic import BaseModel
from pydantic_ai import Agent, DeferredToolRequests, DeferredToolResults, ToolOutput
from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import FunctionModel

from ace.core import PlaybookError
from ace.playbook import CallableEmbedder, Playbook
from ace.serve import SharedMemory
from ace.serve.pydantic_ai import HEADING, PlaybookMemory


class Clerk:
    """Calls what the first lesson names; without one it begins with the wrong tool, and learns of it from the answer."""

    def __init__(self):
        self.requests, self.instructions = 0, []

    def __call__(self, messages, info):
        self.requests += 1
        shown = info.instructions or ""
        self.instructions.append(shown)
        results = [part for m in messages for part in m.parts if part.part_kind == "tool-return"]
        order = next(part.content for m in messages for part in m.parts if part.part_kind == "user-prompt").split()[-1]
        if not results:
            tool = "refund" if "refund" in shown else "cancel"
        elif "done" in str(results[-1].content):
            return ModelResponse(parts=[TextPart(f"{order} is done")])
        else:
            tool = "refund"
        return ModelResponse(parts=[ToolCallPart(tool, {"order": order})])


def agent(memory, clerk):
    made = Agent(FunctionModel(clerk), capabilities=[memory])

    @made.tool_plain
    def refund(order: str) -> str:
        """Give the money back."""
        return "done"

    @made.tool_plain
    def cancel(order: str) -> str:
        """Cancel an order that was not sent."""
        return "error: it was sent already"

    return made


def run(agent, task):
    return asyncio.run(agent.run(task))  # `run_sync` leaves its event loop open


@pytest.fixture
def book():
    with Playbook(embedder=CallableEmbedder("letters", letters)) as book:
        yield book


def test_the_second_task_is_solved_with_what_the_first_taught(book):
    memory = PlaybookMemory(SharedMemory(book, author="ana"), lambda result: "done" in result.output)
    first = Clerk()
    assert run(agent(memory, first), "Give the money back for order o-17").output == "o-17 is done"
    assert (first.requests, first.instructions) == (3, [""] * 3)
    second = Clerk()
    assert run(agent(memory, second), "Give the money back for order o-18").output == "o-18 is done"
    assert second.requests == 2
    assert len(set(second.instructions)) == 1
    assert second.instructions[0].startswith(HEADING)
    assert "o-17" not in second.instructions[0]
    strategies = [bullet for bullet in book.bullets if bullet.section == "Strategies"]
    assert {bullet.tool_sequence for bullet in strategies} == {("refund",)}
    assert HEADING not in "".join(bullet.content + bullet.trigger for bullet in book.bullets)


def test_runs_side_by_side_are_shown_their_own_lessons(book):
    memory = PlaybookMemory(SharedMemory(book))
    asked = []

    def answer(messages, info):
        asked.append((messages[0].parts[-1].content, info.instructions))
        return ModelResponse(parts=[TextPart("ok")])

    for task, tool in (("paint the boat", "paint"), ("water the garden", "water")):
        call = {"id": "c", "function": {"name": tool, "arguments": "{}"}}
        said = [{"role": "user", "content": task}, {"role": "assistant", "tool_calls": [call]}]
        done = [{"role": "tool", "tool_call_id": "c", "content": "ok"}, {"role": "assistant", "content": "Done."}]
        memory.memory.remember([*said, *done], success=True)
    made = Agent(FunctionModel(answer), capabilities=[memory])

    async def both():
        await asyncio.gather(made.run("paint the boat"), made.run("water the garden"))

    asyncio.run(both())
    first = {task: instructions.splitlines()[1] for task, instructions in asked}
    assert "paint" in first["paint the boat"]
    assert "water" in first["water the garden"]


def test_without_a_verdict_nothing_is_learned_until_it_is_known(book):
    memory, clerk = PlaybookMemory(SharedMemory(book)), Clerk()
    result = run(agent(memory, clerk), "Give the money back for order o-17")
    assert len(book) == 0
    assert memory.learn(result, success=True).added >= 1
    again = PlaybookMemory(SharedMemory(book), lambda result: None)
    revision = book.revision
    run(agent(again, Clerk()), "Give the money back for order o-18")
    assert book.revision == revision


def test_a_memory_that_fails_costs_no_run(book, caplog):
    class Broken(SharedMemory):
        def recall(self, *args, **kwargs):
            raise PlaybookError("out of reach")

    memory = PlaybookMemory(Broken(book, read_only=True), lambda result: True)
    assert run(agent(memory, Clerk()), "Give the money back for order o-17").output == "o-17 is done"
    assert "the playbook cannot be read" in caplog.text
    assert "was not learned from: this memory is read-only" in caplog.text
    silent = Agent(FunctionModel(lambda m, i: ModelResponse(parts=[TextPart("ok")])), capabilities=[memory])
    assert run(silent, [""]).output == "ok"


def test_a_run_that_goes_on_after_an_approval_is_shown_lessons_and_learned_from(book):
    memory = PlaybookMemory(
        SharedMemory(book), lambda result: None if isinstance(result.output, DeferredToolRequests) else True
    )
    shown = []

    def answer(messages, info):
        shown.append(info.instructions)
        paid = any(part.part_kind == "tool-return" for part in messages[-1].parts)
        return ModelResponse(parts=[TextPart("Paid") if paid else ToolCallPart("pay", {"order": "o-17"})])

    made = Agent(FunctionModel(answer), capabilities=[memory], output_type=[str, DeferredToolRequests])

    @made.tool_plain(requires_approval=True)
    def pay(order: str) -> str:
        """Pay an order."""
        return "done"

    async def approved(task, history):
        asked = await made.run(task, message_history=history)
        yes = DeferredToolResults(approvals=dict.fromkeys((call.tool_call_id for call in asked.output.approvals), True))
        return await made.run(message_history=asked.all_messages(), deferred_tool_results=yes)

    result = asyncio.run(approved("Pay the order o-17", []))
    assert result.output == "Paid"
    assert [bullet.tool_sequence for bullet in book.bullets] == [("pay",)]
    shown.clear()
    asyncio.run(approved("Pay the order o-17", result.all_messages()))
    assert all(instructions.startswith(HEADING) for instructions in shown)
    assert len(shown) == 2


class Receipt(BaseModel):
    ok: bool


def test_an_output_tool_of_any_name_is_no_step_of_the_plan(book):
    steps = iter([("refund", {"order": "o-17"}), ("submit", {"ok": "perhaps"}), ("submit", {"ok": True})])
    made = Agent(
        FunctionModel(lambda messages, info: ModelResponse(parts=[ToolCallPart(*next(steps))])),
        capabilities=[PlaybookMemory(SharedMemory(book), lambda result: result.output.ok)],
        output_type=ToolOutput(Receipt, name="submit"),
    )

    @made.tool_plain
    def refund(order: str) -> str:
        """Give the money back."""
        return "done"

    assert run(made, "Refund the order o-17").output == Receipt(ok=True)
    assert [bullet.tool_sequence for bullet in book.bullets] == [("refund",)]
    assert "submit" not in "".join(bullet.content.removesuffix(", then submit(...)") for bullet in book.bullets)


async def in_time(result):
    await asyncio.sleep(0)
    return "done" in result.output


def test_a_verdict_may_be_async(book):
    memory = PlaybookMemory(SharedMemory(book), in_time)
    assert run(agent(memory, Clerk()), "Give the money back for order o-17").output == "o-17 is done"
    assert len(book) > 0


@pytest.mark.parametrize(
    ("verdict", "words"),
    [
        (lambda result: result.missing, "AttributeError"),
        (lambda result: 0.2, "the verdict is 0.2, expected True or False"),
    ],
)
def test_a_verdict_that_is_none_costs_no_run(book, caplog, verdict, words):
    memory = PlaybookMemory(SharedMemory(book), verdict)
    assert run(agent(memory, Clerk()), "Give the money back for order o-17").output == "o-17 is done"
    assert words in caplog.text
    assert len(book) == 0


def test_a_store_that_raises_anything_costs_no_run(book, caplog):
    class Away(SharedMemory):
        def recall(self, *args, **kwargs):
            raise RuntimeError("no connection to read")

        def remember(self, *args, **kwargs):
            raise OSError("no connection to write")

    memory = PlaybookMemory(Away(book), lambda result: True)
    assert run(agent(memory, Clerk()), "Give the money back for order o-17").output == "o-17 is done"
    assert "no connection to read" in caplog.text
    assert "no connection to write" in caplog.text
