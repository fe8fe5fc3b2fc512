"""Learning in a process of its own: the same lessons, errors that say what to do, and an end when it takes too long."""

import anyio
import psutil
import pytest
from serve_kit import conversation

from ace.core import PlaybookError
from ace.playbook import Playbook
from ace.serve import SharedMemory
from ace.serve.apart import Apart


@pytest.fixture
def book(tmp_path):
    with Playbook(tmp_path / "team.db", promote_after=2) as book:
        yield book


def many_calls(calls):
    call = {"name": "send", "arguments": '{"parcel": "p"}'}
    said = [{"role": "user", "content": "Send the parcels"}]
    for n in range(calls):
        said.append({"role": "assistant", "content": "", "tool_calls": [{"id": f"c{n}", "function": call}]})
        text = "".join(f"Please do send parcel {n} {i} to the house of Ana near us. " for i in range(10))
        said.append({"role": "tool", "tool_call_id": f"c{n}", "content": text})
    return [*said, {"role": "assistant", "content": "Done."}]


def test_it_learns_under_the_name_of_who_asks_with_the_options_of_the_book(book):
    async def work():
        apart = Apart(book)
        ana = SharedMemory(book, author="ana", tenant="shop")
        first = await apart.remember(ana, conversation(), True, domain="orders")
        again = await apart.remember(ana, conversation(), True, domain="orders")
        return first, again

    first, again = anyio.run(work)
    assert (first.added, again.added, again.known) == (1, 0, 1)
    lesson = book.get("b-1")
    assert (lesson.tenant, lesson.domain, lesson.stage) == ("shop", "orders", "shadow"), "it waits for a second task"
    assert book.history.entries()[-1]["author"] == "ana"


def test_what_is_wrong_is_said_in_the_same_words(book):
    async def work():
        await Apart(book).remember(SharedMemory(book), [], True)

    with pytest.raises(PlaybookError, match="there are 0 messages, expected 1 to 2,000"):
        anyio.run(work)


def test_a_process_that_takes_too_long_is_ended_and_the_next_conversation_is_learned(book):
    async def work():
        apart, memory = Apart(book, seconds=0.5), SharedMemory(book)
        with pytest.raises(PlaybookError, match=r"more than 0\.5 s and was ended"):
            await apart.remember(memory, many_calls(900), True)
        assert len(book) == 0
        return await Apart(book).remember(memory, conversation(), True)

    assert anyio.run(work).added == 1
    assert book.history.verify().ok


def test_learning_gives_up_first_and_keeps_the_conversation(book):
    async def work():
        return await Apart(book).remember(SharedMemory(book), many_calls(990), True)

    done = anyio.run(work)
    assert (done.runs, done.postponed, done.added) == (0, 1, 0)
    assert book.postponed.exists()


def test_a_failure_and_a_success_of_one_task_are_compared(book):
    def refunds(tool):
        return conversation(tool=tool, task="Refund the order {}")

    async def work():
        apart, memory = Apart(book), SharedMemory(book)
        await apart.remember(memory, refunds("cancel"), False)
        await apart.remember(memory, refunds("refund"), True)

    anyio.run(work)
    assert any("cancel(" in bullet.content and "refund(" in bullet.content for bullet in book.bullets)


def test_a_process_that_is_killed_says_so_and_the_next_one_learns(book):
    async def work():
        apart, memory = Apart(book), SharedMemory(book)
        await apart.remember(memory, conversation(), True)
        async with anyio.create_task_group() as tasks:

            async def kill():
                await anyio.sleep(1.0)
                for child in psutil.Process().children():
                    if "anyio.to_process" in child.cmdline():
                        child.kill()

            tasks.start_soon(kill)
            with pytest.raises(PlaybookError, match="the process that learns has ended"):
                await apart.remember(memory, many_calls(900), True)
        return await apart.remember(memory, conversation("o-18", task="Give the money for {} back"), True)

    assert anyio.run(work).runs == 1
    assert book.history.verify().ok
