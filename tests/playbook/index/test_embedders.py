"""What can embed, and what it returns wrongly."""

import numpy as np
import pytest
from playbook_kit import bullets

from ace.core import PlaybookError
from ace.playbook import CallableEmbedder, MiniLMEmbedder, Playbook, as_embedder


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
