"""The weights of MiniLM."""


def test_minilm_comes_from_the_package_with_the_right_hash():
    from ace.playbook import MiniLMEmbedder
    from ace.playbook.index.minilm import weights_folder

    assert weights_folder() is not None
    vectors = MiniLMEmbedder().embed(["refund an order", "give the money back", "tomorrow it rains"])
    assert vectors.shape == (3, 384)
    assert vectors[0] @ vectors[1] > vectors[0] @ vectors[2]
