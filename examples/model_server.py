"""Serve a model file (GGUF) on this machine, for DSPy or any other client of OpenAI's chat API.

    python examples/model_server.py MODEL.gguf
    python examples/model_server.py MODEL.gguf --port 8081 --context 16384 --threads 4

It needs `llama-cpp-python` in the Python that runs it. `make real-model` installs that and a small model:

    ~/.cache/ace-real-model/engine/bin/python examples/model_server.py

Then, in another program:

    lm = dspy.LM("openai/local", api_base="http://127.0.0.1:8080/v1", api_key="none", temperature=0.0)

The server answers one request at a time and keeps the prompt of the last one: what begins as that did is not read again, so
whatever stays the same should come first. A reply is greedy unless the request names a temperature, and never longer than
--max-tokens. A JSON schema in `response_format` binds the reply; one that the engine cannot bind is refused, not ignored.
Tools go into the model's prompt; its calls come back as it writes them, as text. When a client leaves, its reply is stopped.
"""

from __future__ import annotations

import argparse
import json
import os
import select
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

MODEL = "qwen2.5-coder-1.5b-instruct-q4_k_m.gguf"
CACHE = os.environ.get("ACE_REAL_MODEL") or "~/.cache/ace-real-model"
PASSED_ON = ("stop", "top_p", "seed", "presence_penalty", "frequency_penalty", "tools")


class BadRequest(Exception):
    """A request that cannot be served, and OpenAI's code for why."""

    def __init__(self, message: str, code: str = "invalid_request") -> None:
        super().__init__(message)
        self.code = code


class ChatModel:
    """A loaded model behind the chat API's requests and replies.

    Args:
        llama: A `llama_cpp.Llama`.
        grammar: From a JSON schema to a grammar of the engine; raises when the schema cannot be bound.
        name: What the model is called in replies.
        max_tokens: No reply is longer.
        file: What tells the model's file from another, for clients that keep replies.
    """

    def __init__(
        self,
        llama: Any,
        grammar: Callable[[dict[str, Any]], Any],
        name: str,
        max_tokens: int,
        file: dict[str, Any] | None = None,
    ) -> None:
        self.llama, self.grammar, self.name, self.max_tokens = llama, grammar, name, max_tokens
        self.file = file or {}
        self.lock = threading.Lock()

    def options(self, body: dict[str, Any]) -> dict[str, Any]:
        """Return what a request asks for, in the engine's words.

        Raises:
            BadRequest: It asks for what this server does not do.
        """
        messages = body.get("messages")
        if not isinstance(messages, list) or not messages or not all(isinstance(message, dict) for message in messages):
            raise BadRequest(f"messages is {messages!r:.100}, expected a list of messages with role and content")
        if body.get("n") not in (None, 1):
            raise BadRequest(f"n is {body['n']!r}; this server gives one reply to a request")
        # clients give the limit either name
        asked = body.get("max_tokens") or body.get("max_completion_tokens") or self.max_tokens
        temperature = body.get("temperature") or 0.0
        if not isinstance(asked, int) or asked < 1 or not isinstance(temperature, (int, float)):
            raise BadRequest(
                f"max_tokens {asked!r} and temperature {temperature!r} must be numbers, the first at least 1"
            )
        options = {name: body[name] for name in PASSED_ON if body.get(name) is not None}
        options["messages"] = [{**message, "content": text_of(message.get("content"))} for message in messages]
        options["max_tokens"] = min(asked, self.max_tokens)
        options["temperature"] = float(temperature)
        wanted = body.get("response_format") or {"type": "text"}
        if wanted["type"] == "json_object":
            options["response_format"] = {"type": "json_object"}
        elif wanted["type"] == "json_schema":
            try:
                options["grammar"] = self.grammar(wanted["json_schema"]["schema"])
            except Exception as error:  # the engine's own, of any kind
                raise BadRequest(f"the reply cannot be bound to this JSON schema: {error!r}") from error
        return options

    def pieces(self, body: dict[str, Any], gone: Callable[[], bool]) -> Iterator[dict[str, Any]]:
        """Yield the reply in chunks of the API, with the usage in the last; nothing more once the client is gone.

        Raises:
            BadRequest: The request cannot be served; raised before the first chunk.
        """
        options = self.options(body)
        with self.lock:
            if gone():  # it left while it waited for its turn
                return
            written, ended, last = 0, "", dict[str, Any]()
            try:
                with closing(self.llama.create_chat_completion(**options, stream=True)) as chunks:
                    for last in chunks:
                        choice = last["choices"][0]
                        written += bool(choice["delta"].get("content"))
                        ended = choice.get("finish_reason") or ended
                        if gone():
                            return
                        yield {**last, "model": self.name}
            except ValueError as error:
                if "context window" not in str(error):
                    raise
                limit = f"the maximum context length is {self.llama.n_ctx()} tokens"
                raise BadRequest(f"{limit}: {error}", "context_length_exceeded") from error
            # the engine holds prompt and reply, but for a last token that nothing came after
            read = max(0, self.llama.n_tokens - written + (ended == "length"))
            usage = {"prompt_tokens": read, "completion_tokens": written, "total_tokens": read + written}
            yield {**last, "model": self.name, "choices": [], "usage": usage}

    def reply(self, body: dict[str, Any], gone: Callable[[], bool]) -> dict[str, Any] | None:
        """Return the reply as a whole; None when the client is gone.

        Raises:
            BadRequest: The request cannot be served.
        """
        text, reason, last = "", "stop", dict[str, Any]()
        for last in self.pieces(body, gone):
            for choice in last["choices"]:
                text += choice["delta"].get("content") or ""
                reason = choice.get("finish_reason") or reason
        if "usage" not in last:
            return None
        message = {"role": "assistant", "content": text}
        choices = [{"index": 0, "message": message, "finish_reason": reason}]
        return {**last, "object": "chat.completion", "choices": choices}


def text_of(content: Any) -> str:
    """Return a message's text, which may come in parts."""
    return content if isinstance(content, str) else "".join(part.get("text", "") for part in content or ())


def left(connection: socket.socket) -> bool:
    """Check whether the other side has closed the connection."""
    try:
        readable, _, _ = select.select([connection], [], [], 0)
        return bool(readable) and not connection.recv(1, socket.MSG_PEEK)
    except (OSError, ValueError):
        return True


def server(model: ChatModel, port: int = 0) -> ThreadingHTTPServer:
    """Make a server on loopback, bound and ready to `serve_forever`; port 0 takes a free one."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, format: str, *args: Any) -> None:
            """Say nothing here: `do_POST` says one line for each reply."""

        def do_GET(self) -> None:
            """Send the list of models, which is this one."""
            found = self.path.rstrip("/").endswith("/models")
            models = {"object": "list", "data": [{"id": model.name, "object": "model", "meta": model.file}]}
            self.send(200, models) if found else self.refuse(404, f"there is nothing at {self.path}", "not_found")

        def do_POST(self) -> None:
            """Send one completion."""
            started = time.monotonic()
            text = self.rfile.read(int(self.headers.get("content-length") or 0))
            if not self.path.endswith("/chat/completions"):
                return self.refuse(404, f"there is nothing at {self.path}; POST to /v1/chat/completions", "not_found")
            try:
                body = json.loads(text)
            except ValueError as error:
                return self.refuse(400, f"the request is no JSON: {error}", "invalid_request")
            try:
                if body.get("stream"):
                    return self.stream(body)
                done = model.reply(body, lambda: left(self.connection))
            except BadRequest as error:
                return self.refuse(400, str(error), error.code)
            except Exception as error:  # the engine's own, of any kind; the next request may go well
                return self.refuse(500, f"the engine failed: {error!r}", "server_error")
            if done is None:
                self.close_connection = True
                return None
            usage, seconds = done["usage"], time.monotonic() - started
            said = f"{usage['prompt_tokens']} + {usage['completion_tokens']} tokens, {seconds:.1f} s"
            print(said, file=sys.stderr, flush=True)
            return self.send(200, done)

        def stream(self, body: dict[str, Any]) -> None:
            """Send the completion as server-sent events."""
            chunks = model.pieces(body, lambda: left(self.connection))
            self.close_connection = True
            with closing(chunks), suppress(ConnectionError):
                first = next(chunks, None)  # before the status is sent: what cannot be served is an error of its own
                if first is None:
                    return
                self.send_response(200)
                self.send_header("content-type", "text/event-stream")
                self.send_header("connection", "close")
                self.end_headers()
                self.event(first)
                for chunk in chunks:
                    self.event(chunk)
                self.wfile.write(b"data: [DONE]\n\n")

        def event(self, chunk: dict[str, Any]) -> None:
            self.wfile.write(b"data: %s\n\n" % json.dumps(chunk).encode())
            self.wfile.flush()

        def refuse(self, status: int, message: str, code: str) -> None:
            self.send(status, {"error": {"message": message, "type": "invalid_request_error", "code": code}})

        def send(self, status: int, value: dict[str, Any]) -> None:
            data = json.dumps(value).encode()
            with suppress(ConnectionError):
                self.send_response(status)
                self.send_header("content-type", "application/json")
                self.send_header("content-length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

    made = ThreadingHTTPServer(("127.0.0.1", port), Handler)
    made.daemon_threads = True
    return made


def load(path: Path, context: int, threads: int, max_tokens: int) -> ChatModel:
    """Load a model file with llama-cpp-python."""
    try:
        from llama_cpp import Llama, LlamaGrammar
    except ImportError:
        raise SystemExit(
            "this Python has no llama-cpp-python; run `make real-model` and use the Python that it names, or install it"
        ) from None
    if not path.is_file():
        raise SystemExit(f"there is no file {path}; name a GGUF file, or run `make real-model` for a small model")
    llama = Llama(str(path), n_ctx=context, n_threads=threads, n_threads_batch=threads, verbose=False)
    told = path.stat()
    return ChatModel(
        llama,
        lambda schema: LlamaGrammar.from_json_schema(json.dumps(schema), verbose=False),
        path.stem,
        max_tokens,
        {"file": path.name, "bytes": told.st_size, "changed": told.st_mtime},
    )


def main() -> None:
    """Serve until it is interrupted."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path, nargs="?", default=Path(CACHE, MODEL).expanduser(), help="a GGUF file")
    parser.add_argument("--port", type=int, default=8080, help="on 127.0.0.1; 0 takes a free one")
    parser.add_argument("--context", type=int, default=8192, help="tokens of prompt and reply together")
    parser.add_argument("--threads", type=int, default=os.cpu_count(), help="best as many as there are free cores")
    parser.add_argument("--max-tokens", type=int, default=1024, help="of a reply, whatever the request says")
    given = parser.parse_args()
    model = load(given.model, given.context, given.threads, given.max_tokens)
    with server(model, given.port) as made:
        print(f"serving {model.name} at http://127.0.0.1:{made.server_port}/v1", flush=True)
        with suppress(KeyboardInterrupt):
            made.serve_forever()


if __name__ == "__main__":
    main()
