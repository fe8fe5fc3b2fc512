"""`examples/model_server.py` over a stand-in for the engine, which answers with a function of the messages."""

from __future__ import annotations

import importlib.util
import sys
import threading
from contextlib import contextmanager

from conftest import ROOT


def example(name):
    """An example as a module: `benchmarks` has files of the same names."""
    spec = importlib.util.spec_from_file_location(f"example_{name}", ROOT / "examples" / f"{name}.py")
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


model_server = example("model_server")
CONTEXT = 2_000


class StandInLlama:
    """What the server needs of `llama_cpp.Llama`; a word is a token, and it holds all that it read and wrote."""

    def __init__(self, answer):
        self.answer = answer
        self.asked = []
        self.n_tokens = 0
        self.written = 0

    def n_ctx(self):
        return CONTEXT

    def create_chat_completion(self, *, messages, max_tokens, stream, **options):
        self.asked.append({"messages": messages, "max_tokens": max_tokens, **options})
        return self._chunks(messages, max_tokens)

    def _chunks(self, messages, max_tokens):
        self.n_tokens = sum(len(message["content"].split()) for message in messages)
        if self.n_tokens >= CONTEXT:  # like the engine, when the first chunk is wanted
            raise ValueError(f"Requested tokens ({self.n_tokens}) exceed context window of {CONTEXT}")
        yield self._chunk({"role": "assistant"})
        words = self.answer(messages)
        words = words.split(" ") if isinstance(words, str) else words
        reason = "stop"
        for number, word in enumerate(words):
            if number == max_tokens:
                reason, self.n_tokens = "length", self.n_tokens - 1
                break
            self.n_tokens += 1
            self.written += 1
            yield self._chunk({"content": word if not number else f" {word}"})
        yield self._chunk({}, reason)

    def _chunk(self, delta, reason=None):
        choice = {"index": 0, "delta": delta, "finish_reason": reason}
        return {"id": "1", "object": "chat.completion.chunk", "created": 0, "model": "/x.gguf", "choices": [choice]}


@contextmanager
def served(answer, *, grammar=None, name="stand-in", max_tokens=400):
    """Serve a stand-in; yields the base URL and the stand-in."""
    llama = StandInLlama(answer)
    made = model_server.server(model_server.ChatModel(llama, grammar, name, max_tokens))
    thread = threading.Thread(target=made.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{made.server_port}/v1", llama
    finally:
        made.shutdown()
        made.server_close()
        thread.join()
