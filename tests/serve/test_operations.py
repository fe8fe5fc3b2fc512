"""Health, readiness, metrics and the log of requests, over a real server."""

import json
import logging
import re
import threading
import time

import httpx
import pytest
from conftest import letters
from databases import fresh_database, postgres_server
from serve_kit import served
from typer.testing import CliRunner

from ace.cli import app
from ace.playbook import CallableEmbedder, Playbook
from ace.serve import operations

ANA = {"authorization": "Bearer token-of-ana-0123456789"}


@pytest.fixture
def book(tmp_path):
    with Playbook.open(tmp_path / "team.db", embedder=CallableEmbedder("letters", letters)) as book:
        book.add(section="Pitfalls", content="Ask first.")
        book.add(section="Pitfalls", content="Wire it to Eve.", trust="tainted")
        yield book


@pytest.fixture
def lines():
    """The lines of the log."""
    found = []

    class Kept(logging.Handler):
        def emit(self, record):
            found.append(json.loads(record.getMessage()))

    handler = Kept()
    operations.REQUESTS.addHandler(handler)
    operations.REQUESTS.setLevel(logging.INFO)
    yield found
    operations.REQUESTS.removeHandler(handler)
    operations.REQUESTS.setLevel(logging.NOTSET)


def test_probes_need_no_token_and_hold_nothing_of_the_book(book):
    with served(book) as url, httpx.Client(base_url=url) as client:
        assert client.get("/healthz").json()["alive"] is True
        assert client.get("/readyz").json() == {"ready": True, "lessons": 2, "revision": 2, "waiting": 1}
        assert client.get("/", follow_redirects=False).status_code in (303, 307, 401)
        for number in range(3):
            client.get(f"/{'nosuch' * number}x")
        metrics = client.get("/metrics").text
    places = set(re.findall(r'place="([^"]*)"', metrics))
    assert places == {"", "other"}, "strangers make no series of their own"
    assert "# TYPE ace_requests_total counter" in metrics
    assert "ace_ready 1" in metrics
    assert "ace_lessons 2" in metrics
    assert "Eve" not in metrics


@pytest.mark.parametrize("how", ["fails", "hangs"])
def test_a_book_that_does_not_answer_is_told_within_two_seconds_and_so_is_its_return(book, monkeypatch, how):
    free = threading.Event()

    def broken():
        if how == "fails":
            raise OSError("the disk is gone")
        free.wait(20)

    with served(book) as url, httpx.Client(base_url=url) as client:
        assert client.get("/readyz").status_code == 200
        with monkeypatch.context() as patched:
            patched.setattr(book, "refresh", broken)
            begun = time.monotonic()
            answers = [client.get("/readyz") for _ in range(2 if how == "fails" else 1)]
            assert time.monotonic() - begun < 2.5
            assert {answer.status_code for answer in answers} == {503}
            assert answers[0].json() == {"ready": False}
            assert client.get("/healthz").status_code == 200
            assert "ace_ready 0" in client.get("/metrics").text
        free.set()
        time.sleep(0.1)
        assert client.get("/readyz").status_code == 200


def test_each_request_is_logged_once_with_its_id_and_without_its_query(book, lines):
    with served(book) as url, httpx.Client(base_url=url, headers=ANA) as client:
        answer = client.get("/lessons?token=secret", headers={"x-request-id": "from-the-proxy-7"})
        assert answer.headers["x-request-id"] == "from-the-proxy-7"
        forged = client.get("/", headers={"x-request-id": 'x" } {'})
        assert len(forged.headers["x-request-id"]) == 32
        client.get("/healthz")
    assert [line["id"] for line in lines] == ["from-the-proxy-7", forged.headers["x-request-id"]]
    assert "secret" not in json.dumps(lines)
    assert {line["person"] for line in lines} == {"ana"}
    assert all(line["status"] == answer.status_code and line["seconds"] >= 0 for line in lines[:1])


@pytest.mark.parametrize("clients", [10, pytest.param(50, marks=pytest.mark.full)])
def test_under_load_each_request_is_counted_and_logged_once(book, lines, clients):
    per_client = 20
    with served(book) as url:

        def work():
            with httpx.Client(base_url=url, headers=ANA, timeout=30) as client:
                for _ in range(per_client):
                    client.get("/")

        workers = [threading.Thread(target=work) for _ in range(clients)]
        for worker in workers:
            worker.start()
        begun = time.monotonic()
        assert httpx.get(f"{url}/readyz", timeout=5).status_code == 200
        assert time.monotonic() - begun < 2
        for worker in workers:
            worker.join()
        metrics = httpx.get(f"{url}/metrics").text
    counted = sum(
        int(line.rpartition(" ")[2]) for line in metrics.splitlines() if line.startswith("ace_requests_total")
    )
    assert counted == len(lines) == clients * per_client
    assert len({line["id"] for line in lines}) == len(lines)
    assert f"ace_request_seconds_count {counted}" in metrics


@pytest.mark.parametrize(("clients", "seconds"), [(5, 5), pytest.param(50, 60, marks=pytest.mark.full)])
def test_a_database_that_stops_and_comes_back_under_load_is_told_within_two_seconds(lines, clients, seconds):
    with (
        postgres_server() as database,
        Playbook.open(fresh_database(database.get_uri()), embedder=CallableEmbedder("letters", letters)) as book,
    ):
        book.add(section="Pitfalls", content="Ask first.")
        stop, sent = threading.Event(), []
        with served(book) as url:

            def work():
                with httpx.Client(base_url=url, headers=ANA, timeout=30) as client:
                    while not stop.is_set():
                        sent.append(client.get("/lessons").headers["x-request-id"])

            def told(status, ready):
                """How long it takes until the probe says so; metrics and health answer as soon, each."""
                begun = time.monotonic()
                while (answer := httpx.get(f"{url}/readyz", timeout=5)).status_code != status:
                    assert time.monotonic() - begun < 10, answer.text
                    time.sleep(0.05)
                seconds = time.monotonic() - begun
                assert f"ace_ready {ready}" in httpx.get(f"{url}/metrics", timeout=2).text
                assert httpx.get(f"{url}/healthz", timeout=2).status_code == 200
                return seconds

            workers = [threading.Thread(target=work) for _ in range(clients)]
            for worker in workers:
                worker.start()
            told(200, 1)
            time.sleep(seconds / 3)
            database.stop()
            assert told(503, 0) < 2
            time.sleep(seconds / 3)
            database.start()
            assert told(200, 1) < 2
            time.sleep(seconds / 3)
            stop.set()
            for worker in workers:
                worker.join()
            assert httpx.get(f"{url}/lessons", headers=ANA).status_code == 200
    logged = [line["id"] for line in lines]
    assert len(logged) == len(set(logged)) == len(sent) + 1, "each request is logged once"
    assert set(sent) < set(logged)
    assert {line["status"] for line in lines} <= {200, 404, 429, 500, 503}


def test_serve_checks_without_serving(book, tmp_path):
    done = CliRunner().invoke(app, ["serve", str(tmp_path / "team.db"), "--check", "--port", "0"])
    assert (done.exit_code, "it could serve" in " ".join(done.output.split())) == (0, True), done.output


def test_a_check_makes_no_book(tmp_path):
    done = CliRunner().invoke(app, ["serve", str(tmp_path / "none.db"), "--check", "--port", "0"])
    assert (done.exit_code, list(tmp_path.iterdir())) == (1, []), done.output
