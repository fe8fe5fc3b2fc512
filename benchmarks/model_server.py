"""An OpenAI-compatible server on loopback: any rule-based or recorded model behind a real HTTP boundary."""

from __future__ import annotations

import http.server
import json
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from typing import Any

from ace.testing.engine import Prompt, read_prompt

Calls = list[tuple[str, Any]]
"""Tool calls of one reply: names, and arguments of any type."""
Answer = Callable[[Prompt, bool], "str | tuple[str, Calls]"]
"""From a prompt, and whether tools came beside it, to a text, or a thought with tool calls."""


class _Server(http.server.ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 256


@contextmanager
def serve(
    answer: Answer, port: int = 0, meta: dict[str, Any] | None = None
) -> Generator[tuple[str, list[dict[str, Any]]]]:
    """Serve chat completions; gives the base URL and the list of request bodies.

    Args:
        answer: The model.
        port: A free one by default.
        meta: What the list of models tells of it.

    Examples:
        >>> import urllib.request
        >>> with serve(lambda prompt, native: "hi") as (url, requests):
        ...     body = json.dumps({"model": "m", "messages": [{"role": "user", "content": "hello"}]}).encode()
        ...     reply = json.load(urllib.request.urlopen(f"{url}/chat/completions", body))
        >>> reply["choices"][0]["message"]["content"], requests[0]["model"]
        ('hi', 'm')
    """
    requests: list[dict[str, Any]] = []

    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def log_message(self, format: str, *args: Any) -> None:
            """Say nothing."""

        def do_GET(self) -> None:
            """Send the list of models."""
            self._send(200, {"object": "list", "data": [{"id": "test", "object": "model", "meta": meta or {}}]})

        def do_POST(self) -> None:
            """Send one completion."""
            body = json.loads(self.rfile.read(int(self.headers["content-length"])))
            requests.append({"path": self.path, **body})
            messages = [{"role": m["role"], "content": _text(m["content"])} for m in body["messages"]]
            try:
                reply = answer(read_prompt(messages), bool(body.get("tools")))
            except Exception as error:  # what a model raises is a failing server
                self._send(500, {"error": {"message": str(error), "type": "server_error"}})
            else:
                done = _completion(body["model"], reply, len(requests))
                if body.get("stream") and isinstance(reply, str):
                    self._stream(reply, done)
                else:
                    self._send(200, done)

        def _stream(self, text: str, done: dict[str, Any]) -> None:
            """Send the text in pieces of five characters, as server-sent events."""
            self.send_response(200)
            self.send_header("content-type", "text/event-stream")
            self.send_header("connection", "close")
            self.end_headers()
            pieces = [{"content": text[start : start + 5]} for start in range(0, len(text), 5)]
            same = {"id": done["id"], "object": "chat.completion.chunk", "model": done["model"], "created": 0}
            chunks = [{**same, "choices": [{"index": 0, "delta": piece, "finish_reason": None}]} for piece in pieces]
            end = {"index": 0, "delta": {}, "finish_reason": "stop"}
            chunks.append({**same, "choices": [end], "usage": done["usage"]})
            with suppress(ConnectionError):
                for chunk in chunks:
                    self.wfile.write(f"data: {json.dumps(chunk)}\n\n".encode())
                    self.wfile.flush()
                self.wfile.write(b"data: [DONE]\n\n")
            self.close_connection = True

        def _send(self, status: int, value: dict[str, Any]) -> None:
            data = json.dumps(value).encode()
            self.send_response(status)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(data)))
            self.end_headers()
            with suppress(ConnectionError):  # who asked may be gone by now
                self.wfile.write(data)

    server = _Server(("127.0.0.1", port), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/v1", requests
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def _completion(model: str, reply: str | tuple[str, Calls], number: int) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant", "content": reply if isinstance(reply, str) else reply[0]}
    if not isinstance(reply, str):
        message["tool_calls"] = [
            {
                "id": f"call-{number}-{index}",
                "type": "function",
                "function": {"name": name, "arguments": json.dumps(args)},
            }
            for index, (name, args) in enumerate(reply[1])
        ]
    reason = "stop" if isinstance(reply, str) else "tool_calls"
    return {
        "id": str(number),
        "object": "chat.completion",
        "model": model,
        "choices": [{"index": 0, "message": message, "finish_reason": reason}],
        "usage": {"prompt_tokens": 100, "completion_tokens": 10, "total_tokens": 110},
    }


def _text(content: Any) -> str:
    return content if isinstance(content, str) else "".join(part.get("text", "") for part in content or ())
