"""Hosted models: reached or not, and never out of a cache unless that was asked for."""

import json
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import dspy
import pytest
from command import ace, valid
from loopback import openai_server, shop_assistant

from ace.core import SuiteError
from ace.evaluation.hosted import ModelServer, ReplyCache
from ace.evaluation.reach import check_model
from ace.testing.engine import render_reply

DEAD = "http://127.0.0.1:1/v1"
COMMANDS = [
    ("run", "hello"),
    ("chat",),
    ("learn", "--from", "office", "--playbook", "b.db"),
    ("evaluate", "office", "--limit", 2, "--arms", "none"),
    ("optimize", "office", "--train", 2, "--val", 2, "--test", 2),
]


@pytest.mark.parametrize("options", [(), ("--cache",)], ids=["asked", "cached"])
@pytest.mark.parametrize("words", COMMANDS, ids=lambda words: words[0])
def test_a_dead_port_is_named_at_once_by_every_command(tmp_path, words, options):
    text = ace(*words, "--lm", "openai/x", "--api-base", DEAD, *options, cwd=tmp_path, code=1, typed="hello\n")
    assert f"no model server answers at {DEAD} for 'openai/x'" in text
    assert not list(tmp_path.glob("*/runs.jsonl"))


@pytest.mark.parametrize(("spec", "variable"), [("openai/x", "OPENAI_API_BASE"), ("ollama_chat/x", "OLLAMA_API_BASE")])
def test_a_dead_port_of_the_environment_is_named_too(monkeypatch, spec, variable):
    monkeypatch.setenv(variable, DEAD)
    with pytest.raises(SuiteError, match=f"answers at {DEAD} for '{spec}'"):
        ModelServer().lm(spec)


def test_an_address_without_http_is_refused():
    with pytest.raises(SuiteError, match="is no address of a model server; expected http://HOST:PORT/v1"):
        ModelServer("127.0.0.1:8080/v1").lm("openai/x")


def test_a_server_that_tells_nothing_of_its_models_is_a_server():
    with openai_server() as (url, _):
        assert ModelServer(url.removesuffix("/v1") + "/nothing/here").lm("openai/x").cache is False


@pytest.mark.parametrize(
    ("lists", "spec", "says"),
    [
        ({"/v1/models": {"data": [{"id": "a"}]}, "/v1/models/a": {"id": "a"}}, "openai/b", "has no model 'b'; .*: a$"),
        ({"/v1/models": {"data": [{"id": "a"}]}, "/v1/models/a": {"id": "a"}}, "openai/a", ""),
        ({"/v1/models": {"data": [{"id": "a"}]}}, "openai/b", ""),  # it takes any name
        ({"/v1/models": {"data": []}}, "openai/b", ""),
        ({"/api/tags": {"models": [{"name": "llama3.2:latest"}]}}, "ollama_chat/llama3.2", ""),
        ({"/api/tags": {"models": [{"name": "llama3.2:latest"}]}}, "ollama_chat/qwen", "ollama pull qwen"),
    ],
)
def test_a_model_that_its_server_does_not_have_is_refused_where_the_server_says_so(lists, spec, says):
    with told_by(lists) as root:
        base = root if spec.startswith("ollama") else f"{root}/v1"
        if says:
            with pytest.raises(SuiteError, match=says):
                check_model(spec, base)
        else:
            check_model(spec, base)


@contextmanager
def told_by(answers):
    """A server that knows these addresses."""

    class Handler(BaseHTTPRequestHandler):
        def log_message(self, *words):
            """Say nothing."""

        def do_GET(self):
            self.send_response(200 if self.path in answers else 404)
            self.end_headers()
            self.wfile.write(json.dumps(answers.get(self.path, {})).encode())

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def asked(tmp_path, url, *options):
    """What a run answered, and its usage."""
    words = [
        "run",
        "What is 17% of 240?",
        "--lm",
        "openai/x",
        "--api-base",
        url,
        "--json",
        tmp_path / "r.json",
        *options,
    ]
    ace(*words, DSPY_CACHEDIR=str(tmp_path / "cache"), cwd=tmp_path)
    report = valid(tmp_path / "r.json", "task-output")
    return report["answer"], report["usage"]


def test_nothing_is_answered_from_a_cache_unless_it_was_asked_for(tmp_path):
    with openai_server() as (url, requests):
        first, second = asked(tmp_path, url), asked(tmp_path, url)
        assert len(requests) == 4, "two requests for each run"
    assert first[1]["cached"] == second[1]["cached"] == 0


def test_what_the_cache_answers_is_counted_apart_with_the_tokens_it_would_have_cost(tmp_path):
    with openai_server() as (url, requests):
        first, second = asked(tmp_path, url, "--cache"), asked(tmp_path, url, "--cache")
        assert len(requests) == 2
    assert first[0] == second[0]
    assert (first[1]["cached"], second[1]["cached"]) == (0, 2)
    for name in ("lm_calls", "input_tokens", "output_tokens"):
        assert first[1][name] == second[1][name] > 0


def wrong(prompt):
    """A model that knows another answer."""
    return (
        render_reply(reasoning="", tool_calls=[{"name": "submit", "args": {"answer": "41"}}])
        if ("tool_calls" in prompt.wants)
        else shop_assistant(prompt)
    )


@pytest.mark.parametrize("options", [(), ("--cache",)], ids=["asked", "cached"])
def test_two_models_under_one_name_on_two_ports_give_two_results(tmp_path, options):
    with openai_server() as (one, _), openai_server(wrong) as (other, _):
        answers = [asked(tmp_path, url, *options)[0] for url in (one, other, one, other)]
    assert answers[0].startswith("40.8")
    assert answers[1] == "41"
    assert answers[2:] == answers[:2]


def test_another_model_behind_the_same_address_is_asked_although_the_cache_knows_the_first(tmp_path):
    with openai_server(meta={"file": "one.gguf"}) as (url, _):
        first = asked(tmp_path, url, "--cache")
    with openai_server(wrong, port=int(url.rpartition(":")[2].removesuffix("/v1")), meta={"file": "two.gguf"}) as (
        url,
        _,
    ):
        second = asked(tmp_path, url, "--cache")
    assert (first[0].startswith("40.8"), second[0], second[1]["cached"]) == (True, "41", 0)


def test_a_report_counts_what_the_cache_answered(tmp_path):
    with openai_server(lambda prompt: render_reply(reasoning="", answer="done")) as (url, _):
        words = ["evaluate", "office", "--limit", 3, "--arms", "none", "--lm", "openai/x", "--api-base", url, "--cache"]
        options = {"DSPY_CACHEDIR": str(tmp_path / "cache"), "cwd": tmp_path}
        first = ace(*words, "--json", "1.json", **options)
        second = ace(*words, "--json", "2.json", "--markdown", "2.md", "--html", "2.html", **options)
    reports = [json.loads((tmp_path / f"{number}.json").read_text(encoding="utf-8")) for number in (1, 2)]
    asked_for = sum(run["lm_calls"] for run in reports[0]["runs"])
    assert "cache" not in first
    note = f"{asked_for} of {asked_for} requests were answered by the cache"
    assert note in second
    assert note in (tmp_path / "2.md").read_text(encoding="utf-8")
    assert note in (tmp_path / "2.html").read_text(encoding="utf-8")
    assert reports[0]["arms"]["none"]["tokens"] == reports[1]["arms"]["none"]["tokens"] > 0


def test_the_key_holds_every_server_that_is_asked(monkeypatch):
    monkeypatch.setattr(dspy, "cache", None, raising=False)
    with openai_server() as (one, _), openai_server() as (other, _):
        for url in (one, other, one):
            ModelServer(url, cache=True).lm("openai/x")
        assert sorted(server.partition(" ")[0] for server in dspy.cache.servers) == sorted([one, other])
        known = dspy.cache.cache_key({"model": "m"})
    assert known != ReplyCache(dspy.cache.servers - {next(iter(dspy.cache.servers))}).cache_key({"model": "m"})
