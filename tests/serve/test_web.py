"""MCP over HTTP, asked by the official SDK's client: who is who, four processes at once, and kills."""

import asyncio
import multiprocessing
import os
import random
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from concurrent.futures import ProcessPoolExecutor
from contextlib import asynccontextmanager

import httpx2
import pytest
from conftest import letters
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from serve_kit import conversation, lesson, served

from ace.playbook import CallableEmbedder, Playbook

WORKERS = ("ana", "ben", "cleo", "dan")


@asynccontextmanager
async def client_of(url, token, path="/mcp"):
    async with (
        httpx2.AsyncClient(headers={"authorization": f"Bearer {token}"}, timeout=60) as http,
        Client(streamable_http_client(f"{url}{path}", http_client=http)) as client,
    ):
        yield client


@pytest.mark.parametrize("path", ["/mcp", "/mcp/"])
def test_each_token_writes_under_its_name_and_sees_its_tenant(path):
    async def teach(url):
        async with client_of(url, "token-of-ben-0123456789", path) as ben:
            done = await ben.call_tool("remember", {"messages": conversation(), "success": True})
            assert not done.is_error, done.content
            found = await ben.call_tool("recall", {"task": "Refund the order o-9"})
            assert [one["id"] for one in found.structured_content["lessons"]] == ["b-1"]
        async with client_of(url, "token-of-cleo-0123456789", path) as cleo:
            found = await cleo.call_tool("recall", {"task": "Refund the order o-9"})
            assert {**found.structured_content, "run": ""} == {"lessons": [], "prompt": "", "run": ""}
            denied = await cleo.call_tool("feedback", {"lesson": "b-1", "helped": False, "run": "r"})
            assert "no lesson" in denied.content[0].text
        async with client_of(url, "token-of-dan-0123456789", path) as dan:
            assert {tool.name for tool in (await dan.list_tools()).tools} == {"recall", "lessons", "explain"}

    with Playbook(embedder=CallableEmbedder("letters", letters)) as book, served(book) as url:
        asyncio.run(teach(url))
        assert (book.get("b-1").tenant, book.history.entries()[0]["author"]) == ("shop", "ben")


@pytest.fixture
def server(tmp_path):
    """Starts ``ace serve`` on one port again and again; gives its address."""
    tokens = tmp_path / "tokens.toml"
    tokens.write_text("".join(f'[{name}]\ntoken = "token-of-{name}-0123456789"\n' for name in WORKERS))
    tokens.chmod(0o600)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    running = []

    def start():
        command = [sys.executable, "-m", "ace", "serve", str(tmp_path / "team.db"), "--port", str(port), "--no-browser"]
        environment = {**os.environ, "COLUMNS": "200"}
        process = subprocess.Popen(
            [*command, "--token-file", str(tokens)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=environment
        )
        running.append(process)
        until = time.monotonic() + 60
        while time.monotonic() < until and process.poll() is None:
            try:
                httpx2.get(f"http://127.0.0.1:{port}/login")
            except httpx2.TransportError:
                time.sleep(0.05)
            else:
                return process, f"http://127.0.0.1:{port}"
        raise AssertionError(process.stdout.read().decode())

    yield start
    for process in running:
        process.kill()
        process.wait()
        process.stdout.close()


def learned(url, worker, calls):
    """Teach lessons and ask for them, in a process of its own; what was acknowledged, and what was answered wrongly."""
    remembered, wrong = [], []

    async def work():
        async with client_of(url, f"token-of-{worker}-0123456789") as client:
            for number in range(calls // 2):
                said, name = lesson(worker, number), f"handle_{worker}{number:04d}"
                done = await client.call_tool("remember", {"messages": said, "success": True})
                assert not done.is_error, done.content
                remembered.append(name)
                found = await client.call_tool("recall", {"task": said[0]["content"]})
                if [name] not in [each["tools"] for each in found.structured_content["lessons"]]:
                    wrong.append((worker, number, found.structured_content))

    asyncio.run(work())
    return remembered, wrong


def four_processes(server, path, calls):
    process, url = server()
    with ProcessPoolExecutor(4, mp_context=multiprocessing.get_context("spawn")) as pool:
        found = list(pool.map(learned, [url] * 4, WORKERS, [calls // 4] * 4))
    process.send_signal(signal.SIGINT)
    assert process.wait(20) == 0, "Ctrl-C is no error"
    remembered = [name for names, _ in found for name in names]
    assert [wrong for _, wrong in found] == [[]] * 4
    assert len(remembered) == calls // 8 * 4
    with Playbook.open(path) as book:
        held = {tool for bullet in book.bullets for tool in bullet.tool_sequence}
        assert set(remembered) - held == set()
        assert book.history.verify().ok
        assert {entry["author"] for entry in book.history.entries()} == set(WORKERS)


def test_four_processes_at_once_lose_nothing(server, tmp_path):
    four_processes(server, tmp_path / "team.db", 104)


@pytest.mark.full
def test_four_processes_at_once_lose_nothing_in_2000_calls(server, tmp_path):
    four_processes(server, tmp_path / "team.db", 2_000)


def killed(server, path, times, seed):
    """Teach lessons while the server is killed and started again; count what it had acknowledged."""
    acknowledged, rng = [], random.Random(seed)

    async def teach(url, round_, kill):
        async with client_of(url, "token-of-ana-0123456789") as client:
            for number in range(1_000):
                name = f"w{round_}x"
                said = lesson(name, number)
                done = await client.call_tool("remember", {"messages": said, "success": True})
                if not done.is_error:
                    acknowledged.append(f"handle_{name}{number:04d}")
                    if len(acknowledged) == 1:  # else a busy machine would kill the first server before it has begun
                        kill()

    for round_ in range(times):
        process, url = server()
        kill = threading.Timer(rng.uniform(0.05, 1.5), process.kill).start
        if acknowledged:
            kill()
        try:
            asyncio.run(asyncio.wait_for(teach(url, round_, kill), 60))
        except BaseException as error:
            if isinstance(error, (KeyboardInterrupt, SystemExit)):
                raise
        assert process.wait(20) == -signal.SIGKILL
    assert acknowledged
    with Playbook.open(path) as book:
        held = {tool for bullet in book.bullets for tool in bullet.tool_sequence}
        assert set(acknowledged) - held == set()
        assert book.history.verify().ok


def test_a_killed_server_loses_no_acknowledged_lesson(server, tmp_path):
    killed(server, tmp_path / "team.db", 2, seed=0)


@pytest.mark.full
def test_a_server_killed_20_times_loses_no_acknowledged_lesson(server, tmp_path):
    killed(server, tmp_path / "team.db", 20, seed=1)


def test_the_command_prints_its_token_once_and_lets_nobody_else_in(tmp_path):
    command = [sys.executable, "-m", "ace", "serve", str(tmp_path / "b.db"), "--port", "0", "--no-browser"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    try:
        # line by line: what `communicate` reads later is not what has been read ahead here
        told = [process.stdout.readline() for _ in range(3)]
        address = re.search(r"(http://127\.0\.0\.1:\d+)/login\?token=(\S+)", told[0])
        url, token = address[1], address[2]
        assert [line.count(token) for line in told] == [1, 1, 0], "the second time for the agents' header"
        until = time.monotonic() + 30
        while True:
            try:
                assert httpx2.get(url).status_code == 401
                break
            except httpx2.TransportError:
                assert time.monotonic() < until
        with httpx2.Client(follow_redirects=True) as browser:
            assert "Lessons" in browser.get(address[0]).text
            assert token not in browser.get(url).text
        process.send_signal(signal.SIGINT)
        rest = process.communicate(timeout=20)[0]
        assert (process.returncode, rest.count(token)) == (0, 0), "no request is logged"
    finally:
        process.kill()
        process.wait()


def test_a_browser_is_started_with_a_ticket_that_comes_in_once_and_not_with_the_token(tmp_path):
    browser = tmp_path / "browser"
    browser.write_text(
        f'#!/bin/sh\necho "$@" > {tmp_path}/arguments.part\nmv {tmp_path}/arguments.part {tmp_path}/arguments\n'
    )
    browser.chmod(0o755)
    command = [sys.executable, "-m", "ace", "serve", str(tmp_path / "b.db"), "--port", "0"]
    env = {**os.environ, "BROWSER": f"{browser} %s"}
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=env)
    try:
        token = re.search(r"token=(\S+)", process.stdout.readline())[1]
        until = time.monotonic() + 30
        while not (tmp_path / "arguments").exists():
            assert time.monotonic() < until
            time.sleep(0.05)
        address = (tmp_path / "arguments").read_text().strip()
        assert token not in address
        assert address.startswith("http://127.0.0.1:")
        with httpx2.Client(follow_redirects=True, timeout=30) as first, httpx2.Client(timeout=30) as second:
            assert "<h1>How the playbook is doing</h1>" in first.get(address).text
            again = second.get(address)
            assert (again.status_code, "that link was used" in again.text) == (401, True)
    finally:
        process.kill()
        process.communicate()
