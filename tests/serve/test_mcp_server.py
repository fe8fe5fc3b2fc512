"""The MCP server, asked by the official SDK's client: in this process, and over standard input and output."""

import asyncio
import json
import os
import random
import signal
import sys
from functools import partial

import psutil
import pytest
from conftest import letters
from mcp import Client, MCPError, StdioServerParameters
from mcp.client.stdio import stdio_client
from serve_kit import conversation, lesson

from ace.playbook import Add, CallableEmbedder, Playbook, PlaybookBullet
from ace.serve import SharedMemory, mcp_server


@pytest.fixture
def book():
    with Playbook(embedder=CallableEmbedder("letters", letters)) as book:
        yield book


def asked(book, questions, **options):
    async def ask():
        async with Client(mcp_server(SharedMemory(book, author="ana", **options))) as client:
            return await questions(client)

    return asyncio.run(ask())


def test_an_agent_recalls_what_another_taught(book):
    async def questions(client):
        done = await client.call_tool("remember", {"messages": conversation(), "success": True, "domain": "shop"})
        found = await client.call_tool(
            "recall", {"task": "Refund the order o-9", "domain": "shop", "tools": ["refund"]}
        )
        run = found.structured_content["run"]
        noted = await client.call_tool("feedback", {"lesson": "b-1", "helped": True, "run": run})
        listed = await client.call_tool("lessons", {})
        reasons = await client.call_tool("explain", {"task": "Refund the order o-9"})
        prompt = await client.get_prompt("solve", {"task": "Refund the order o-9"})
        everything = await client.read_resource("playbook://lessons")
        one = await client.read_resource("playbook://lessons/b-1")
        return done, found, noted, listed, reasons, prompt, everything, one

    done, found, noted, listed, reasons, prompt, everything, one = asked(book, questions)
    assert not any(answer.is_error for answer in (done, found, noted, listed, reasons))
    assert done.structured_content["added"] == 1
    assert found.structured_content["lessons"][0]["tools"] == ["refund"]
    assert noted.structured_content == {"lesson": "b-1", "revision": book.revision}
    assert listed.structured_content["result"][0]["id"] == "b-1"
    assert reasons.structured_content["result"][0]["shown"]
    assert "[b-1]" in prompt.messages[0].content.text
    everything = json.loads(everything.contents[0].text)
    assert (everything["total"], everything["rest"]) == (1, None)
    assert everything["lessons"] == [json.loads(one.contents[0].text)]


def test_tools_say_what_they_do(book):
    async def questions(client):
        return (await client.list_tools()).tools

    tools = {tool.name: tool for tool in asked(book, questions)}
    assert set(tools) == {"recall", "lessons", "explain", "remember", "feedback"}
    assert all(tool.description for tool in tools.values())
    assert {name for name, tool in tools.items() if tool.annotations.read_only_hint} == {"recall", "lessons", "explain"}
    assert {tool.name for tool in asked(book, questions, read_only=True)} == {"recall", "lessons", "explain"}


@pytest.mark.parametrize(
    ("tool", "arguments", "words"),
    [
        ("recall", {"task": ""}, "expected 1 to"),
        ("recall", {}, "task"),
        ("remember", {"messages": [], "success": True}, "expected 1 to"),
        ("remember", {"messages": conversation()}, "success"),
        ("feedback", {"lesson": "b-7", "helped": True, "run": "r"}, "there is no lesson 'b-7'"),
        ("forget", {}, "forget"),
    ],
)
def test_bad_calls_get_an_error_that_says_why(book, tool, arguments, words):
    async def questions(client):
        return await client.call_tool(tool, arguments)

    answer = asked(book, questions)
    assert answer.is_error
    assert words in answer.content[0].text
    assert "Traceback" not in answer.content[0].text
    assert book.revision == 0


def test_the_resource_of_all_lessons_says_how_many_there_are_and_where_the_rest_is(book):
    lessons = [PlaybookBullet(section="Pitfalls", content=f"Never do {n}.") for n in range(205)]
    hidden = [lessons[0].model_copy(update=change) for change in ({"tenant": "bank"}, {"stage": "retired"})]
    book.commit([Add(bullet=bullet) for bullet in [*lessons, *hidden]])

    async def questions(client):
        first = json.loads((await client.read_resource("playbook://lessons")).contents[0].text)
        rest = await client.call_tool("lessons", {"first": 200, "limit": 200})
        return first, rest.structured_content["result"]

    first, rest = asked(book, questions)
    assert first["total"] == 205 == len(first["lessons"]) + len(rest)
    assert first["rest"] == "the tool `lessons` with first=200 goes on from here"


@pytest.mark.parametrize("task", ["", " ", "x" * 20_001])
def test_the_prompt_says_what_is_wrong_with_a_task(book, task):
    async def questions(client):
        with pytest.raises(MCPError, match=f"the task has {len(task):,} characters, expected 1 to 20,000"):
            await client.get_prompt("solve", {"task": task})

    asked(book, questions)


# -- over standard input and output --------------------------------------------------------------------------------------


def server(path, author):
    command = ["-m", "ace", "serve", str(path), "--mcp", "--author", author]
    return stdio_client(StdioServerParameters(command=sys.executable, args=command, env=dict(os.environ)))


async def learns(path, worker, calls, answers):
    async with Client(server(path, worker)) as client:
        for number in range(calls // 2):
            said = lesson(worker, number)
            done = await client.call_tool("remember", {"messages": said, "success": True})
            assert not done.is_error, done.content
            answers["remembered"].append(f"handle_{worker}{number:04d}")
            found = await client.call_tool("recall", {"task": said[0]["content"]})
            assert not found.is_error, found.content
            tools = [each["tools"] for each in found.structured_content["lessons"]]
            if [f"handle_{worker}{number:04d}"] not in tools:
                answers["wrong"].append((worker, number, tools))


def four_processes(path, calls):
    answers = {"remembered": [], "wrong": []}

    async def all_of_them():
        await asyncio.gather(*(learns(path, worker, calls // 4, answers) for worker in ("ana", "ben", "cleo", "dan")))

    asyncio.run(all_of_them())
    assert answers["wrong"] == []
    with Playbook.open(path) as book:
        held = {tool for bullet in book.bullets for tool in bullet.tool_sequence}
        assert set(answers["remembered"]) - held == set()
        assert len(answers["remembered"]) == calls // 8 * 4
        book.history.verify()
        assert {entry["author"] for entry in book.history.entries()} == {"ana", "ben", "cleo", "dan"}


def test_four_processes_at_once_lose_nothing(tmp_path):
    four_processes(tmp_path / "team.db", 104)


@pytest.mark.full
def test_four_processes_at_once_lose_nothing_in_2000_calls(tmp_path):
    four_processes(tmp_path / "team.db", 2_000)


async def until_killed(path, worker, seconds, acknowledged):
    """Teach lessons until the server is killed after so many seconds of work."""
    async with server(path, worker) as (reading, writing):
        process = next(p for p in psutil.Process().children(recursive=True) if worker in p.cmdline())
        from mcp import ClientSession

        async with ClientSession(reading, writing) as session:
            await session.initialize()
            kill = partial(asyncio.get_running_loop().call_later, seconds, process.send_signal, signal.SIGKILL)
            if acknowledged:
                kill()
            number = 0
            while True:
                said = lesson(worker, number)
                done = await asyncio.wait_for(session.call_tool("remember", {"messages": said, "success": True}), 60)
                if not done.is_error:
                    acknowledged.append(f"handle_{worker}{number:04d}")
                    if len(acknowledged) == 1:  # else a busy machine would kill the first server before it has begun
                        kill()
                number += 1


def killed(path, times, seed):
    acknowledged, rng = [], random.Random(seed)
    for time in range(times):
        try:
            asyncio.run(until_killed(path, f"w{time}x", rng.uniform(0.01, 1.0), acknowledged))
        except BaseException as error:
            if isinstance(error, (KeyboardInterrupt, SystemExit)):
                raise
    assert acknowledged
    with Playbook.open(path) as book:
        held = {tool for bullet in book.bullets for tool in bullet.tool_sequence}
        assert set(acknowledged) - held == set()
        book.history.verify()


def test_a_killed_server_loses_no_acknowledged_lesson(tmp_path):
    killed(tmp_path / "team.db", 2, seed=0)


@pytest.mark.full
def test_a_server_killed_20_times_loses_no_acknowledged_lesson(tmp_path):
    killed(tmp_path / "team.db", 20, seed=1)
