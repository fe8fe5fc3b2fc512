"""What can embed, and what it returns wrongly."""

import copy
import importlib.util

import numpy as np
import pytest
from playbook_kit import bullets

from ace.core import PlaybookError
from ace.playbook import CallableEmbedder, MiniLMEmbedder, Playbook, as_embedder
from benchmarks.playbook.bench import torch_minilm

needs_torch = pytest.mark.skipif(
    importlib.util.find_spec("sentence_transformers") is None,
    reason="sentence-transformers is not installed: `make test-torch` installs it and runs this",
)


def mean_length(texts):
    return [[float(len(text)), 1.0] for text in texts]


def test_many_things_can_embed():
    import dspy

    assert as_embedder(mean_length).name.endswith("mean_length")
    assert as_embedder(dspy.Embedder(mean_length)).embed(["abc"]).shape == (1, 2)
    assert as_embedder(None).name == MiniLMEmbedder.name
    given = CallableEmbedder("x", mean_length)
    assert as_embedder(given) is given

    assert as_embedder(dspy.Embedder(mean_length, dimensions=256)).name.endswith("mean_length?dimensions=256")

    def made(texts):
        return mean_length(texts)

    for nonsense in (3, made, lambda texts: texts):
        with pytest.raises(PlaybookError, match=r"embed|name"):
            as_embedder(nonsense)


@pytest.mark.parametrize("wrong", [[[np.nan, 1.0]], [1.0, 2.0], [[1.0, 0.0], [0.0, 1.0]], [[]]])
def test_wrong_vectors_are_refused_and_not_kept(tmp_path, wrong):
    answers = {"now": wrong}
    embedder = CallableEmbedder("odd", lambda texts: answers["now"])
    with Playbook.open(tmp_path / "b.db", embedder=embedder) as book:
        book.commit(bullets(1))
        with pytest.raises(PlaybookError, match="'odd'"):
            book.retrieve("a task")
        answers["now"] = [[1.0, 0.0]]
        assert len(book.retrieve("a task")) == 1
        answers["now"] = [[1.0, 0.0, 0.0]]
        with pytest.raises(PlaybookError, match="another name"):
            book.retrieve("another task")


def test_the_name_of_a_model_is_no_embedder_and_the_error_says_what_is():
    with pytest.raises(PlaybookError, match=r"'BAAI/bge-small-en-v1.5': give .* a SentenceTransformer\(name\)"):
        as_embedder("BAAI/bge-small-en-v1.5")


@needs_torch
def test_the_default_embedder_gives_the_vectors_of_sentence_transformers():
    texts = ["Refund the order.", "", "word " * 600, "naïve café ✓", *[f"text number {n} of many" for n in range(70)]]
    vectors, expected = MiniLMEmbedder().embed(texts), torch_minilm().embed(texts)
    assert (vectors * expected).sum(axis=1).min() > 0.9999


@needs_torch
def test_two_models_have_two_names():
    import torch

    model = torch_minilm()._func.func.__self__
    other = copy.deepcopy(model)
    with torch.no_grad():
        next(other.parameters()).add_(0.01)
    names = [as_embedder(one).name for one in (model, other, copy.deepcopy(model))]
    assert names[0] == names[2] != names[1]
    assert as_embedder(model).embed(["a", "b"]).shape == (2, 384)
