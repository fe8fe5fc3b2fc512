"""`examples/model_server.py` over a stand-in for the engine: how it reads requests, and what it answers."""

import http.client
import itertools
import json
import time
import urllib.error
import urllib.request

import dspy
import pytest
from chat_llama import served

HELLO = [{"role": "user", "content": "hello there"}]


def post(url, body, path="/chat/completions"):
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    try:
        with urllib.request.urlopen(f"{url}{path}", data, timeout=30) as reply:
            return reply.status, json.load(reply)
    except urllib.error.HTTPError as error:
        with error:
            return error.code, json.load(error)["error"]


def test_a_reply_has_its_text_its_end_and_its_tokens():
    with served(lambda messages: "hi you") as (url, llama):
        status, reply = post(url, {"messages": HELLO})
    assert status == 200
    assert reply["choices"] == [
        {"index": 0, "message": {"role": "assistant", "content": "hi you"}, "finish_reason": "stop"}
    ]
    assert (reply["object"], reply["model"]) == ("chat.completion", "stand-in")
    assert reply["usage"] == {"prompt_tokens": 2, "completion_tokens": 2, "total_tokens": 4}
    assert llama.asked == [{"messages": HELLO, "max_tokens": 400, "temperature": 0.0}]


@pytest.mark.parametrize("name", ["max_tokens", "max_completion_tokens"])
def test_either_name_limits_a_reply(name):
    with served(lambda messages: "one two three four") as (url, _):
        _, reply = post(url, {"messages": HELLO, name: 2})
    assert reply["choices"][0]["message"]["content"] == "one two"
    assert reply["choices"][0]["finish_reason"] == "length"
    assert reply["usage"] == {"prompt_tokens": 2, "completion_tokens": 2, "total_tokens": 4}


def test_no_request_can_ask_for_more_than_the_servers_limit():
    with served(lambda messages: "a b c", max_tokens=2) as (url, llama):
        _, reply = post(url, {"messages": HELLO, "max_tokens": 9})
    assert (llama.asked[0]["max_tokens"], reply["choices"][0]["finish_reason"]) == (2, "length")


def test_what_the_engine_takes_is_passed_on():
    tools = [{"type": "function", "function": {"name": "look_up"}}]
    body = {
        "messages": HELLO,
        "temperature": 0.7,
        "stop": ["\n"],
        "seed": 3,
        "tools": tools,
        "user": "x",
        "top_p": None,
    }
    with served(lambda messages: "hi") as (url, llama):
        post(url, body)
    wanted = {"temperature": 0.7, "stop": ["\n"], "seed": 3, "tools": tools}
    assert llama.asked == [{"messages": HELLO, "max_tokens": 400, **wanted}]


def test_a_message_in_parts_is_one_text():
    parts = [{"type": "text", "text": "hello "}, {"type": "text", "text": "there"}]
    with served(lambda messages: "hi") as (url, llama):
        post(url, {"messages": [{"role": "user", "content": parts}, {"role": "assistant", "content": None}]})
    assert llama.asked[0]["messages"] == [*HELLO, {"role": "assistant", "content": ""}]


def test_a_json_schema_becomes_the_engines_grammar():
    wanted = {"type": "json_schema", "json_schema": {"name": "call", "schema": {"type": "object"}}}
    with served(lambda messages: "{}", grammar=lambda schema: ("bound", schema)) as (url, llama):
        post(url, {"messages": HELLO, "response_format": wanted})
        post(url, {"messages": HELLO, "response_format": {"type": "json_object"}})
    assert llama.asked[0]["grammar"] == ("bound", {"type": "object"})
    assert llama.asked[1]["response_format"] == {"type": "json_object"}


def test_a_schema_that_cannot_be_bound_is_refused_and_not_ignored():
    def cannot(schema):
        raise KeyError("$ref")

    wanted = {"type": "json_schema", "json_schema": {"schema": {"$ref": "elsewhere"}}}
    with served(lambda messages: "{}", grammar=cannot) as (url, llama):
        status, error = post(url, {"messages": HELLO, "response_format": wanted})
    assert status == 400
    assert "cannot be bound to this JSON schema: KeyError('$ref')" in error["message"]
    assert llama.asked == []


@pytest.mark.parametrize(
    ("body", "status", "said"),
    [
        (b"{", 400, "the request is no JSON"),
        ({}, 400, "messages is None"),
        ({"messages": ["hello"]}, 400, "expected a list of messages with role and content"),
        ({"messages": HELLO, "n": 2}, 400, "n is 2"),
        ({"messages": HELLO, "max_tokens": -1}, 400, "at least 1"),
        ({"messages": HELLO, "temperature": "hot"}, 400, "must be numbers"),
    ],
)
def test_a_request_that_cannot_be_served_says_why(body, status, said):
    with served(lambda messages: "hi") as (url, _):
        found, error = post(url, body)
    assert (found, said in error["message"]) == (status, True), error


def test_a_prompt_that_is_too_long_has_openais_code():
    with served(lambda messages: "hi") as (url, _):
        status, error = post(url, {"messages": [{"role": "user", "content": "word " * 3_000}]})
    assert (status, error["code"]) == (400, "context_length_exceeded")
    assert "the maximum context length is 2000 tokens" in error["message"]


def test_a_failure_of_the_engine_is_an_error_and_the_server_goes_on():
    def broken(messages):
        if "hello" in messages[0]["content"]:
            raise RuntimeError("llama_decode returned -1")
        return "hi"

    with served(broken) as (url, _):
        status, error = post(url, {"messages": HELLO})
        assert (status, "llama_decode" in error["message"]) == (500, True)
        assert post(url, {"messages": [{"role": "user", "content": "again"}]})[0] == 200


def test_other_addresses_are_not_found():
    with served(lambda messages: "hi") as (url, _):
        assert post(url, {"prompt": "hello"}, "/completions")[0] == 404
        with urllib.request.urlopen(f"{url}/models") as reply:
            assert json.load(reply)["data"][0]["id"] == "stand-in"


def test_a_stream_gives_the_pieces_and_then_the_usage():
    with served(lambda messages: "one two") as (url, _):
        data = json.dumps({"messages": HELLO, "stream": True}).encode()
        with urllib.request.urlopen(f"{url}/chat/completions", data) as reply:
            events = [line[6:].strip() for line in reply.read().decode().splitlines() if line.startswith("data: ")]
    assert events[-1] == "[DONE]"
    chunks = [json.loads(event) for event in events[:-1]]
    assert "".join(c["choices"][0]["delta"].get("content", "") for c in chunks if c["choices"]) == "one two"
    assert chunks[-1]["usage"]["completion_tokens"] == 2


def test_a_stream_that_cannot_begin_is_an_error():
    with served(lambda messages: "hi") as (url, _):
        assert post(url, {"messages": HELLO, "stream": True, "n": 3})[0] == 400


@pytest.mark.parametrize("stream", [False, True])
def test_a_reply_is_stopped_when_its_client_leaves(stream):
    def endless(messages):
        for _ in itertools.count():
            time.sleep(0.002)
            yield "word"

    with served(endless, max_tokens=1_000_000) as (url, llama):
        connection = http.client.HTTPConnection(url.split("/")[2])
        connection.request("POST", "/v1/chat/completions", json.dumps({"messages": HELLO, "stream": stream}))
        while llama.written < 5:
            time.sleep(0.01)
        connection.close()
        if connection.sock is not None:
            connection.sock.close()
        deadline, before = time.monotonic() + 20, -1
        while llama.written != before:
            assert time.monotonic() < deadline, "it went on writing"
            before = llama.written
            time.sleep(0.2)
        llama.answer = lambda messages: "next"
        assert post(url, {"messages": HELLO})[1]["choices"][0]["message"]["content"] == "next"


def test_dspy_talks_to_it():
    with served(lambda messages: "[[ ## answer ## ]]\n42\n\n[[ ## completed ## ]]") as (url, llama):
        lm = dspy.LM("openai/local", api_base=url, api_key="none", temperature=0.0, max_tokens=50, cache=False)
        with dspy.context(lm=lm, adapter=dspy.ChatAdapter()):
            assert dspy.Predict("question -> answer")(question="6 * 7?").answer == "42"
    assert llama.asked[0]["max_tokens"] == 50
