"""An OpenAI-compatible server on loopback, with a rule-based model behind it that reads its prompt."""

from __future__ import annotations

import http.server
import json
import re
import threading
from contextlib import contextmanager

from ace.testing.engine import Prompt, read_prompt, render_reply
from ace.testing.scripted import decision


def shop_assistant(prompt: Prompt) -> str:
    """Finds and refunds orders, works out percentages, and finishes with the last observation."""
    if "next_tool_name" not in prompt.wants:
        return render_reply(reasoning="", answer="?")
    steps, tools = prompt.steps, prompt.tools
    if not steps and "find_orders" in tools:
        return decision("find_orders", customer=re.search(r"(\w+)'s order", prompt.fields["task"])[1])
    if len(steps) == 1 and "refund" in tools:
        return decision("refund", order_id=json.loads(steps[0]["observation"])[0])
    if not steps and "calculator" in tools:
        share, whole = re.findall(r"\d+", prompt.fields["task"])[:2]
        return decision("calculator", expression=f"{share} / 100 * {whole}")
    return decision("finish", answer=steps[-1]["observation"] if steps else "?")


class _Server(http.server.ThreadingHTTPServer):
    daemon_threads = True


@contextmanager
def openai_server(answer=shop_assistant):
    """Serve chat completions; yields the base URL and the list of request bodies."""
    requests = []

    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *args):
            pass

        def do_POST(self):
            body = json.loads(self.rfile.read(int(self.headers["content-length"])))
            requests.append({"path": self.path, **body})
            text = answer(read_prompt([{"role": m["role"], "content": _text(m["content"])} for m in body["messages"]]))
            reply = {
                "id": "1",
                "object": "chat.completion",
                "model": body["model"],
                "choices": [{"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}],
                "usage": {"prompt_tokens": 100, "completion_tokens": 10, "total_tokens": 110},
            }
            data = json.dumps(reply).encode()
            self.send_response(200)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

    server = _Server(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/v1", requests
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def _text(content):
    return content if isinstance(content, str) else "".join(part.get("text", "") for part in content)
