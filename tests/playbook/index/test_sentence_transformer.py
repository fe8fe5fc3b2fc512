"""Models of sentence-transformers, an extra."""

import importlib.util
import sys
from types import SimpleNamespace

import numpy as np
import pytest

from ace.core import PlaybookError
from ace.playbook import MiniLMEmbedder, SentenceTransformerEmbedder, as_embedder

needs_torch = pytest.mark.skipif(
    importlib.util.find_spec("sentence_transformers") is None,
    reason="sentence-transformers is an extra, and not installed: `make test-torch` installs it and runs this",
)


def test_minilm_has_one_name_and_other_models_their_own():
    assert SentenceTransformerEmbedder().name == MiniLMEmbedder.name
    assert as_embedder("all-MiniLM-L6-v2").name == MiniLMEmbedder.name
    assert as_embedder("BAAI/bge-small-en-v1.5").name == "sentence-transformers/BAAI/bge-small-en-v1.5"
    assert SentenceTransformerEmbedder("/models/mine", name="mine").name == "mine"


@pytest.mark.skipif(importlib.util.find_spec("sentence_transformers") is not None, reason="it is installed")
def test_without_the_extra_it_says_what_to_install():
    with pytest.raises(PlaybookError, match=r"pip install 'dspy-ace\[sentence-transformers\]'"):
        SentenceTransformerEmbedder().embed(["a text"])


@needs_torch
def test_both_give_the_same_vectors():
    texts = ["Refund the order.", "", "word " * 600, "naïve café ✓", *[f"text number {n} of many" for n in range(70)]]
    vectors, expected = MiniLMEmbedder().embed(texts), SentenceTransformerEmbedder().embed(texts)
    assert (vectors * expected).sum(axis=1).min() > 0.9999


@needs_torch
def test_a_model_that_is_not_there_is_named():
    with pytest.raises(PlaybookError, match="no-such-model"):
        SentenceTransformerEmbedder("no-such-model").embed(["a text"])


@needs_torch
def test_two_models_on_disk_have_two_names():
    import copy

    import torch

    model = SentenceTransformerEmbedder().model()
    other = copy.deepcopy(model)
    with torch.no_grad():
        next(other.parameters()).add_(0.01)
    names = [as_embedder(one).name for one in (model, other, copy.deepcopy(model))]
    assert names[0] == names[2] != names[1]
    assert as_embedder(model).embed(["a", "b"]).shape == (2, 384)


def test_a_model_embeds_in_unit_vectors_and_shows_no_progress(monkeypatch, capsys):
    class Model:
        def __init__(self, name, device):
            self.name = name

        def encode(self, texts, *, show_progress_bar=True, **_):
            if show_progress_bar:
                print("Batches: 100%", file=sys.stderr)
            return np.asarray([[3.0, 4.0] for _ in texts], dtype=np.float32)

    monkeypatch.setitem(sys.modules, "sentence_transformers", SimpleNamespace(SentenceTransformer=Model))
    for name in ("transformers", "transformers.utils", "transformers.utils.logging"):
        monkeypatch.setitem(sys.modules, name, SimpleNamespace(disable_progress_bar=lambda: None))
    vectors = SentenceTransformerEmbedder("mine").embed(["a", "b"])
    assert vectors == pytest.approx(np.asarray([[0.6, 0.8]] * 2))
    assert capsys.readouterr() == ("", "")
