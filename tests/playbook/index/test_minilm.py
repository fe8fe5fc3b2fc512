"""The default embedder."""

import subprocess
import sys

import numpy as np
import pytest

from ace.playbook import MiniLMEmbedder

TORCH = {
    "Refund the order.": [-0.03182, 0.04367, 0.12049, -0.00456, -0.02147, -0.02038, -0.03534, -0.05885],
    "naïve café ✓": [-0.01397, -0.00715, 0.03343, 0.02492, 0.02346, 0.01245, 0.12264, -0.09143],
    "word " * 600: [-0.00812, -0.09559, -0.03867, 0.04966, -0.04379, 0.02372, -0.01814, -0.02021],
}
"""The first numbers that sentence-transformers gives for the same weights."""


def test_vectors_are_those_of_sentence_transformers():
    vectors = MiniLMEmbedder().embed(list(TORCH))
    assert vectors.shape == (3, 384)
    assert vectors.dtype == np.float32
    assert np.linalg.norm(vectors, axis=1) == pytest.approx([1, 1, 1], abs=1e-5)
    for vector, expected in zip(vectors, TORCH.values(), strict=True):
        assert vector[:8] == pytest.approx(expected, abs=2e-4)


def test_a_text_has_one_vector_in_whatever_company():
    texts = ["", "short", "a somewhat longer text", *[f"text number {n} of many" for n in range(70)]]
    embedder = MiniLMEmbedder()
    together = embedder.embed(texts)
    for place in (0, 1, 2, 40):
        assert together[place] @ embedder.embed([texts[place]])[0] > 0.99999
    assert embedder.embed([]).shape == (0, 384)
    assert np.isfinite(together).all()


def test_what_is_alike_is_near():
    refund, money, rain = MiniLMEmbedder().embed(["refund an order", "give the money back", "tomorrow it rains"])
    assert refund @ money > refund @ rain


def test_neither_torch_nor_scikit_learn_is_loaded():
    code = (
        "import sys; from ace.playbook import Playbook, PlaybookBullet, Add\n"
        "book = Playbook(); book.commit([Add(bullet=PlaybookBullet(section='Strategies', content='find the order'))])\n"
        "assert book.retrieve('find an order')\n"
        "print(sorted({'torch', 'sklearn', 'sentence_transformers', 'transformers', 'dspy', 'scipy', 'onnx'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize("delay", [0, 0.05, 0.1, 0.2, 0.3, 0.5])
def test_a_process_may_end_while_the_model_is_loaded_or_used_in_a_thread(delay):
    code = (
        "import threading, time; from ace.playbook import MiniLMEmbedder\n"
        "def use():\n"
        "    while True: MiniLMEmbedder().embed(['a text'] * 64)\n"
        f"threading.Thread(target=use, daemon=True).start(); time.sleep({delay})"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_fork_may_embed_while_a_thread_of_its_parent_does():
    code = (
        "import os, threading, time; from ace.playbook import MiniLMEmbedder\n"
        "one, over = MiniLMEmbedder(threads=1), threading.Event(); one.embed(['a'])\n"
        "def busy():\n"
        "    while not over.is_set(): one.embed(['a text of some length'] * 32)\n"
        "thread = threading.Thread(target=busy); thread.start(); time.sleep(0.2)\n"
        "for _ in range(3):\n"
        "    if (child := os.fork()) == 0: one.embed(['b']); os._exit(0)\n"
        "    until = time.monotonic() + 20\n"
        "    while not (done := os.waitpid(child, os.WNOHANG))[0] and time.monotonic() < until: time.sleep(0.01)\n"
        "    if not done[0]: os.kill(child, 9); os.waitpid(child, 0)\n"
        "    print(done[0] == child, done[1])\n"
        "over.set(); thread.join()"
    )
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["True 0"] * 3
