"""An OpenAI-compatible server on loopback, with a rule-based model behind it that reads its prompt."""

from __future__ import annotations

import json
import re
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from ace.testing.engine import Prompt, render_reply
from ace.testing.scripted import decision
from benchmarks.model_server import serve


def shop_assistant(prompt: Prompt) -> str:
    """Finds and refunds orders, works out percentages, and finishes with the last observation."""
    if "tool_calls" not in prompt.wants:
        return render_reply(reasoning="", answer="?")
    steps, tools = prompt.steps, prompt.tools
    if not steps and "find_orders" in tools:
        return decision("find_orders", customer=re.search(r"(\w+)'s order", prompt.fields["task"])[1])
    if not steps and "refund" in tools:
        return decision("refund", order_id=re.search(r"o-\d+", prompt.fields["task"])[0])
    if len(steps) == 1 and "find_orders" in tools and "refund" in tools:
        return decision("refund", order_id=json.loads(steps[0]["observation"])[0])
    if not steps and "calculator" in tools:
        share, whole = re.findall(r"\d+", prompt.fields["task"])[:2]
        return decision("calculator", expression=f"{share} / 100 * {whole}")
    return decision("finish", answer=steps[-1]["observation"] if steps else "?")


@contextmanager
def openai_server(answer=shop_assistant, **options):
    """Serve a text model; yields the base URL and the list of request bodies."""
    with serve(lambda prompt, native: answer(prompt), **options) as served:
        yield served


@contextmanager
def refusing(status=404, code="model_not_found"):
    """A server that is there and knows no model; yields the base URL."""

    class Refuses(BaseHTTPRequestHandler):
        def do_GET(self):
            self._answer(200, {"object": "list", "data": []})

        def do_POST(self):
            self.rfile.read(int(self.headers["content-length"]))
            self._answer(
                status, {"error": {"message": f"refused: {code}", "type": "invalid_request_error", "code": code}}
            )

        def _answer(self, status, value):
            body = json.dumps(value).encode()
            self.send_response(status)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Refuses)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/v1"
    finally:
        server.shutdown()
        server.server_close()
