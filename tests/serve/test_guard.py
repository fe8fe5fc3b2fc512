"""Hostile requests against a real server: none changes or shows anything."""

import json
import re
import socket
import time
from contextlib import contextmanager, suppress
from types import SimpleNamespace

import httpx
import pytest
from conftest import letters
from serve_kit import TOKENS, browser_of, send, served

from ace.playbook import CallableEmbedder, Playbook
from ace.serve import guard, people, web
from ace.serve.guard import MAX_BODY, Allowance
from ace.serve.people import People, Person, Sessions

ANA, BEN, CLEO, DAN = (f"Bearer {token}" for token in TOKENS)
SECRET = "zebra"
"""Stands in each lesson of the book, so that an answer that shows one can be told."""
CALL = json.dumps(
    {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "recall", "arguments": {"task": "zebra"}}}
)
MCP = {"content-type": "application/json", "accept": "application/json, text/event-stream"}


@pytest.fixture(scope="module")
def book():
    with Playbook(embedder=CallableEmbedder("letters", letters)) as book:
        for tenant in (None, "bank", "bank"):
            book.add(section="Strategies", trigger="Paint a zebra", content=f"The {SECRET} way.", tenant=tenant)
        book.add(section="Strategies", content=f"A {SECRET} that waits.", trust="tainted", tenant="bank")
        yield book


@pytest.fixture(scope="module")
def url(book):
    with served(book) as url:
        yield url


@contextmanager
def nobodys():
    """A client of a server of its own, whose allowances nobody else uses."""
    with (
        Playbook(embedder=CallableEmbedder("letters", letters)) as book,
        served(book) as url,
        httpx.Client(base_url=url) as client,
    ):
        yield client


def raw(url, request, *, pause=0.0, parts=()):
    """What a server answers to bytes."""
    host, port = url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=30) as connection:
        connection.sendall(request.replace("\n", "\r\n").encode())
        for part in parts:
            time.sleep(pause)
            try:
                connection.sendall(part)
            except OSError:
                break
        answer = b""
        try:
            while chunk := connection.recv(65_536):
                answer += chunk
        except OSError:
            pass
    return answer.decode("utf-8", "replace")


def http(method, path, **headers):
    lines = [f"{method} {path} HTTP/1.1", "Connection: close"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items() if value is not None]
    return "\n".join(lines) + "\n\n"


OWN = "127.0.0.1"
HOSTILE_BYTES = {
    "a foreign host": http("GET", "/", Host="evil.example", Authorization=ANA),
    "a name that was rebound to this machine": http("GET", "/", Host="evil.example:8137", Origin="http://evil.example:8137", Authorization=ANA),
    "a host that only begins like ours": http("GET", "/", Host="127.0.0.1.evil.example", Authorization=ANA),
    "a host with a user": http("GET", "/", Host="127.0.0.1@evil.example", Authorization=ANA),
    "no host": "GET / HTTP/1.0\nAuthorization: " + ANA + "\n\n",
    "two hosts": f"GET / HTTP/1.1\nHost: {OWN}\nHost: evil.example\nConnection: close\nAuthorization: {ANA}\n\n",
    "a whole address in place of a path": http("GET", "http://evil.example/", Host="evil.example", Authorization=ANA),
    "a foreign origin": http("GET", "/", Host=OWN, Origin="http://evil.example", Authorization=ANA),
    "an origin of nobody": http("GET", "/", Host=OWN, Origin="null", Authorization=ANA),
    "another port of this machine": http("GET", "/", Host=f"{OWN}:1", Origin=f"http://{OWN}:2", Authorization=ANA),
    "a foreign page that posts": http("POST", "/lessons/b-1/remove", Host=OWN, Sec_Fetch_Site="cross-site", Authorization=ANA, Content_Length="0"),
    "a page of the same site that posts": http("POST", "/lessons/b-1/remove", Host=OWN, Sec_Fetch_Site="same-site", Authorization=ANA, Content_Length="0"),
    "no token, a page": http("GET", "/", Host=OWN),
    "no token, as a browser": http("GET", "/lessons/b-1", Host=OWN, Accept="text/html"),
    "no token, the export": http("GET", "/export.jsonl", Host=OWN),
    "no token, the live feed": http("GET", "/live", Host=OWN),
    "no token, a change": http("POST", "/lessons/b-1/remove", Host=OWN, Content_Length="0"),
    "no token, MCP": http("POST", "/mcp", Host=OWN, Content_Length=str(len(CALL)), **{"Content-Type": "application/json"}) + CALL,
    "a wrong token": http("GET", "/", Host=OWN, Authorization="Bearer token-of-eve-0123456789"),
    "an empty token": http("GET", "/", Host=OWN, Authorization="Bearer "),
    "a token that only begins right": http("GET", "/", Host=OWN, Authorization=ANA[:-1]),
    "another scheme": http("GET", "/", Host=OWN, Authorization="Basic " + ANA.split()[1]),
    "two tokens": http("GET", "/", Host=OWN, Authorization=ANA).replace("\n\n", f"\nAuthorization: {CLEO}\n\n"),
    "a cookie that was made up": http("GET", "/", Host=OWN, Cookie="ace_session=made-up"),
    "a path that climbs": http("GET", "/static/../../people.py", Host=OWN),
    "a path that climbs, escaped": http("GET", "/static/%2e%2e/%2e%2e/people.py", Host=OWN),
    "a path that climbs, escaped twice": http("GET", "/static/%252e%252e/people.py", Host=OWN),
    "a path with a backslash": http("GET", "/static/..%5c..%5cpeople.py", Host=OWN),
    "a path with a slash escaped": http("GET", "/static/..%2fpeople.py", Host=OWN),
    "a path that ends in nothing": http("GET", "/lessons/b-1%00.css", Host=OWN, Authorization=BEN),
    "a run outside its folder": http("GET", "/runs/..%2f..%2fetc%2fpasswd", Host=OWN, Authorization=ANA),
    "a lesson that is a path": http("GET", "/lessons/..;/..;/static", Host=OWN, Authorization=BEN),
    "somebody else's tenant, a lesson": http("GET", "/lessons/b-2", Host=OWN, Authorization=BEN),
    "somebody else's tenant, a change": http("POST", "/lessons/b-2/remove", Host=OWN, Authorization=BEN, Content_Length="0"),
    "somebody else's tenant, in review": http("POST", "/lessons/b-4/approve", Host=OWN, Authorization=BEN, Content_Length="0"),
    "everybody's lesson, by a tenant": http("POST", "/lessons/b-1/remove", Host=OWN, Authorization=BEN, Content_Length="0"),
    "a reader that writes": http("POST", "/lessons/b-1/remove", Host=OWN, Authorization=DAN, Content_Length="0"),
    "a guess by another page": http("GET", "/login?token=x", Host=OWN, Sec_Fetch_Site="cross-site"),
    "a ticket that nobody has": http("GET", "/login?ticket=x", Host=OWN),
    "a long form without a token": http("POST", "/login", Host=OWN, Content_Length="100000"),
    "another method": http("PUT", "/lessons/b-1", Host=OWN, Authorization=ANA, Content_Length="0"),
    "a method that echoes": http("TRACE", "/", Host=OWN, Authorization=ANA),
    "a body of 50 MB, as it says": http("POST", "/import", Host=OWN, Authorization=ANA, Content_Length="52428800"),
    "a length that is no number": http("POST", "/import", Host=OWN, Authorization=ANA, Content_Length="-1"),
    "two lengths": http("POST", "/import", Host=OWN, Authorization=ANA, Content_Length="4").replace("\n\n", "\nContent-Length: 40\n\n") + "abcd",
    "a header of 200 kB": http("GET", "/", Host=OWN, Authorization=ANA, X="x" * 200_000),
    "a web socket": http("GET", "/live", Host=OWN, Upgrade="websocket", Sec_WebSocket_Key="a", Sec_WebSocket_Version="13"),
    "no request at all": "\x16\x03\x01\x02 hello\n\n",
}  # fmt: skip


@pytest.mark.parametrize("what", HOSTILE_BYTES)
def test_a_hostile_request_changes_and_shows_nothing(book, url, what):
    before = book.revision
    answer = raw(url, HOSTILE_BYTES[what])
    assert SECRET not in answer
    assert "Guard" not in answer, "no source of the package"
    assert book.history.verify().revision == before
    assert "Traceback" not in answer


def test_a_body_of_50_mb_is_cut_off_whether_it_says_so_or_not(book, url):
    before, sent = book.revision, 0

    def much():
        nonlocal sent
        for _ in range(50):
            sent += 1
            yield b"x" * 1_000_000

    with httpx.Client(base_url=url) as client, suppress(httpx.TransportError):  # the server may have hung up
        assert client.post("/import", content=much(), headers={"authorization": ANA}).status_code == 413
    assert sent * 1_000_000 < 4 * MAX_BODY
    assert book.revision == before


def test_a_body_that_dribbles_in_is_not_waited_for(book, url, monkeypatch):
    monkeypatch.setattr(guard, "BODY_SECONDS", 0.5)
    request = http("POST", "/lessons/b-1/remove", Host=OWN, Authorization=ANA, Content_Length="100")
    started = time.monotonic()
    answer = raw(url, request, pause=0.2, parts=[b"x"] * 10)
    assert answer.startswith("HTTP/1.1 408")
    assert time.monotonic() - started < 5
    assert book.find(["b-1"])


def test_connections_that_ask_for_nothing_are_closed(url, monkeypatch):
    monkeypatch.setattr(web, "HEAD_SECONDS", 0.5)
    host, port = url.removeprefix("http://").split(":")
    slow = [b"", b"GET / HT", b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nX: "]
    for said in slow:
        with socket.create_connection((host, int(port)), timeout=10) as connection:
            connection.sendall(said)
            started = time.monotonic()
            assert connection.recv(100) == b""
            assert 0.3 < time.monotonic() - started < 5
    with httpx.Client(base_url=url) as client:
        for _ in range(3):
            assert client.get("/login").status_code == 200
            time.sleep(0.2)


def test_a_long_task_keeps_nobody_waiting(url):
    with httpx.Client(base_url=url, headers={"authorization": DAN, **MCP}) as client:
        for task in ("a-" * 9_000, "1," * 9_000, "a." * 9_000):
            call = json.loads(CALL) | {"params": {"name": "recall", "arguments": {"task": task}}}
            started = time.monotonic()
            assert client.post("/mcp", json=call).status_code == 200
            assert time.monotonic() - started < 5
        call = json.loads(CALL) | {"params": {"name": "recall", "arguments": {"task": "a" * 30_000}}}
        assert "expected 1 to 20,000" in client.post("/mcp", json=call).text


def test_a_cookie_opens_no_tools_and_no_form_without_its_secret(book, url):
    before = book.revision
    with browser_of("ana", url) as client, browser_of("ana", url) as other:
        assert client.post("/mcp", content=CALL, headers=MCP).status_code == 401
        foreign = re.search(r'name="csrf" value="([^"]+)"', other.get("/").text)[1]
        for fields in ({}, {"csrf": "made-up"}, {"csrf": ""}, {"csrf": foreign}):
            answer = client.post("/lessons/b-1/remove", data=fields)
            assert (answer.status_code, "not of this session" in answer.text) == (403, True)
        assert client.post("/logout", data={"csrf": foreign}).status_code == 403
        assert "Leave" in client.get("/").text, "another session's form ends none"
        send(client, "/logout")
        assert "Your token" in client.get("/", headers={"accept": "text/html"}).text
    assert book.revision == before


def test_scripts_in_a_lesson_are_text_on_every_page(book, url):
    evil = "<script>alert(1)</script>\"'><img src=x onerror=alert(2)>{{ 7 * 7 }}"
    bullet = book.add(
        section="Strategies", trigger=f"Paint {evil}", content=evil, domain=evil, author=evil, tenant="shop"
    )
    with browser_of("ben", url) as client:
        send(client, f"/lessons/{bullet.id}/edit", content=f"{evil} now", trigger=evil, note=evil)
        paths = [
            "/",
            "/lessons",
            "/lessons?q=Paint+%3Cscript%3E",
            f"/lessons?q={bullet.id}",
            f"/lessons/{bullet.id}",
            "/journal",
            "/review",
        ]
        for path in [
            *paths,
            "/?said=%3Cscript%3Ealert(1)%3C/script%3E&lesson=%3Cimg%20onerror%3D1%3E&undo=%22%3E%3Cu%3E",
        ]:
            page = client.get(path)
            assert page.status_code == 200
            assert [tag for tag in ("<script>alert", "<img", "<u>", "Paint 49", ">49") if tag in page.text] == [], path
            assert "script-src 'self'" in page.headers["content-security-policy"]
        send(client, f"/lessons/{bullet.id}/remove")


@pytest.fixture
def clock(monkeypatch):
    """A clock that stands, for the modules under test alone: the server of this file sleeps by the real one."""
    clock = SimpleNamespace(now=0.0, monotonic=lambda: clock.now)
    monkeypatch.setattr(guard, "time", clock)
    monkeypatch.setattr(people, "time", clock)
    return clock


@pytest.mark.usefixtures("clock")
def test_wrong_tokens_soon_have_to_wait():
    with nobodys() as client:
        assert client.get("/", headers={"authorization": ANA}).status_code == 200
        answers = [client.get("/", headers={"authorization": f"Bearer guess-{i:020}"}).status_code for i in range(30)]
        assert (answers[0], answers[-1]) == (401, 429)
        assert client.post("/login", data={"token": "guess"}).status_code == 429
        forged = [{"authorization": f"Bearer guess-{i:020}", "x-forwarded-for": f"10.0.0.{i}"} for i in range(5)]
        assert {client.get("/", headers=each).status_code for each in forged} == {429}, "nobody chooses an address"
        assert client.get("/", headers={"authorization": ANA}).status_code == 200, "it was right here before"
        assert client.get("/", headers={"authorization": BEN}).status_code == 429, "a guess that is right is not found"
        assert client.post("/login", data={"token": BEN.removeprefix("Bearer ")}).status_code == 429
        with browser_of("ana", str(client.base_url).rstrip("/")) as browser:
            assert browser.get("/").status_code == 200


@pytest.mark.usefixtures("clock")
def test_somebody_who_asks_too_often_has_to_wait(monkeypatch):
    monkeypatch.setattr(guard, "RATE", 2.0)
    with nobodys() as client:
        answers = [client.get("/", headers={"authorization": ANA}).status_code for _ in range(40)]
        assert (answers[0], answers[-1]) == (200, 429)
        assert client.get("/", headers={"authorization": BEN}).status_code == 200, "another one need not"


def test_an_allowance_comes_back_with_time(clock):
    allowance = Allowance(2, 10.0)
    assert [allowance.take("a") for _ in range(3)] == [True, True, False]
    assert allowance.take("b")
    clock.now = 5.0
    assert [allowance.take("a") for _ in range(2)] == [True, False]


def test_a_session_ends(clock):
    sessions = Sessions()
    key = sessions.begin(Person("ana"))
    assert sessions.get(key).person.name == "ana"
    clock.now = 13 * 3_600.0
    assert sessions.get(key) is None


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("short", "16 or more"),
        ("", "16 or more"),
        ("[ana]\ntoken = 'too-short'", "ana.token|token"),
        ("[ana]\ntokken = 'token-of-ana-0123456789'", "cannot be used"),
        ("[ana]\ntoken = 'token-of-ana-0123456789'\n[ben]\ntoken = 'token-of-ana-0123456789'", "one token to two"),
        ("not = toml = at all", "cannot be used"),
    ],
)
def test_a_bad_token_file_says_why_and_shows_no_token(tmp_path, text, words):
    from ace.core import PlaybookError

    file = tmp_path / "tokens.toml"
    file.write_text(text)
    with pytest.raises(PlaybookError, match=words) as raised:
        People.from_file(file, Person("ana"))
    assert "0123456789" not in str(raised.value)
    assert "too-short" not in str(raised.value)


def test_a_token_file_names_one_or_many(tmp_path):
    file = tmp_path / "tokens"
    file.write_text("token-of-ana-0123456789\n")
    assert People.from_file(file, Person("ana")).of("token-of-ana-0123456789") == Person("ana")
    file.write_text(
        '[ana]\ntoken = "token-of-ana-0123456789"\n[bot]\ntoken = "token-of-bot-0123456789"\ntenant = "shop"\nread_only = true\n'
    )
    people = People.from_file(file, Person("x"))
    assert people.of("token-of-bot-0123456789") == Person("bot", "shop", True)
    assert people.of("token-of-x-0123456789") is None
    assert len(people.everybody()) == 2


TABLE = '[{name}]\ntoken = "token-of-{name}-0123456789"\n'


def test_tokens_are_read_again_when_their_file_changes(tmp_path, caplog):
    file = tmp_path / "tokens"
    file.write_text(TABLE.format(name="ana") + TABLE.format(name="bot"))
    people = People.from_file(file, Person("x"))
    file.write_text(TABLE.format(name="ana") + TABLE.format(name="carol"))
    assert people.of("token-of-bot-0123456789") is None
    assert people.of("token-of-carol-0123456789") == Person("carol")
    file.write_text("[broken")
    assert (people.of("token-of-ana-0123456789"), people.everybody()) == (None, ())
    assert "nobody may come in until it can be used" in caplog.text
    file.unlink()
    assert people.everybody() == ()
    file.write_text(TABLE.format(name="ana"))
    assert people.everybody() == (Person("ana"),)


def test_who_was_taken_out_of_the_file_is_out_at_once_and_who_came_in_has_tools(tmp_path):
    file = tmp_path / "tokens"
    file.write_text(TABLE.format(name="ana") + TABLE.format(name="bot"))
    people = People.from_file(file, Person("x"))
    with (
        Playbook(embedder=CallableEmbedder("letters", letters)) as book,
        served(book, people=people) as url,
        httpx.Client(base_url=url) as client,
    ):
        assert client.post("/login", data={"token": "token-of-bot-0123456789"}).status_code == 303
        assert client.get("/").status_code == 200
        file.write_text(TABLE.format(name="ana") + TABLE.format(name="carol"))
        assert client.get("/").status_code == 401
        bearer = {"authorization": "Bearer token-of-bot-0123456789"}
        assert client.get("/", headers=bearer).status_code == 401
        carol = {"authorization": "Bearer token-of-carol-0123456789", **MCP}
        assert client.post("/mcp", content=CALL, headers=carol).status_code == 200


def test_nobody_ends_the_sessions_of_others():
    sessions, ana, reader = Sessions(), Person("ana", "shop"), Person("reader", "shop", True)
    hers, others = sessions.begin(ana), [sessions.begin(reader) for _ in range(50)]
    assert sessions.get(hers) is not None
    assert [sessions.get(key) is not None for key in others] == [False] * 30 + [True] * 20
    elsewhere = sessions.begin(Person("bo", "bank"))
    crowd = [sessions.begin(Person(f"p{number}", "shop")) for number in range(250)]
    assert sum(sessions.get(key) is not None for key in crowd) == 200
    assert sessions.get(elsewhere) is not None


def test_a_ticket_ends_after_a_minute(clock):
    alone, _ = People.alone(Person("ana"))
    first, late = alone.ticket(Person("ana")), alone.ticket(Person("ana"))
    assert alone.of_ticket(first) == Person("ana")
    clock.now = 61.0
    assert alone.of_ticket(late) is None
    assert alone.of_ticket("") is None
