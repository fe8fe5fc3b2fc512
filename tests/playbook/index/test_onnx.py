"""The ONNX runtime gives the vectors of torch."""

from ace.playbook import MiniLMEmbedder


def test_onnx_gives_the_same_vectors(tmp_path):
    from ace.playbook.index.onnx import OnnxMiniLMEmbedder

    texts = ["Refund the order.", "", "word " * 600, "naïve café ✓", *[f"text number {n} of many" for n in range(70)]]
    fast = OnnxMiniLMEmbedder(tmp_path)
    vectors, expected = fast.embed(texts), MiniLMEmbedder().embed(texts)
    assert (vectors * expected).sum(axis=1).min() > 0.9999
    assert fast.embed([]).shape == (0, 384)
    (model,) = tmp_path.glob("*/model.onnx")
    stamp = model.stat().st_mtime_ns
    assert OnnxMiniLMEmbedder(tmp_path).embed(["again"]).shape == (1, 384)
    assert model.stat().st_mtime_ns == stamp  # exported once
    model.write_bytes(model.read_bytes()[:-100])
    assert (OnnxMiniLMEmbedder(tmp_path).embed(texts[:1]) @ expected[0])[0] > 0.9999  # damaged: exported again
