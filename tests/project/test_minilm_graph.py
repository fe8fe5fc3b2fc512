"""The graph that the build makes of the weights."""

import hashlib
import json

import numpy as np
import pytest

import minilm_graph as graph
from ace.playbook.index import weights


def safetensors(tensors):
    header, body = {"__metadata__": {"format": "pt"}}, b""
    for name, array in tensors.items():
        kind = "F32" if array.dtype == np.float32 else "I64"
        header[name] = {
            "dtype": kind,
            "shape": list(array.shape),
            "data_offsets": [len(body), len(body) + array.nbytes],
        }
        body += array.tobytes()
    head = json.dumps(header).encode()
    return len(head).to_bytes(8, "little") + head + body


def network(layers=1, width=8, words=11, places=6, inner=16, seed=0):
    random = np.random.default_rng(seed)

    def normal(*shape):
        return random.normal(size=shape).astype(np.float16).astype(np.float32)

    found = {
        "embeddings.word_embeddings.weight": normal(words, width),
        "embeddings.position_embeddings.weight": normal(places, width),
        "embeddings.token_type_embeddings.weight": normal(2, width),
        "embeddings.LayerNorm.weight": normal(width),
        "embeddings.LayerNorm.bias": normal(width),
    }
    for layer in range(layers):
        name = f"encoder.layer.{layer}"
        for part in ("query", "key", "value"):
            found |= {
                f"{name}.attention.self.{part}.weight": normal(width, width),
                f"{name}.attention.self.{part}.bias": normal(width),
            }
        for part, (rows, columns) in {
            "attention.output.dense": (width, width), "intermediate.dense": (inner, width), "output.dense": (width, inner),
        }.items():  # fmt: skip
            found |= {f"{name}.{part}.weight": normal(rows, columns), f"{name}.{part}.bias": normal(rows)}
        for part in ("attention.output", "output"):
            found |= {f"{name}.{part}.LayerNorm.weight": normal(width), f"{name}.{part}.LayerNorm.bias": normal(width)}
    return found


def by_hand(weights, ids, heads):
    """One text through the network, in plain NumPy."""
    from scipy.special import erf, softmax

    def norm(name, x):
        centred = x - x.mean(-1, keepdims=True)
        scaled = centred / np.sqrt((centred**2).mean(-1, keepdims=True) + 1e-12)
        return scaled * weights[f"{name}.LayerNorm.weight"] + weights[f"{name}.LayerNorm.bias"]

    def linear(name, x):
        return x @ weights[f"{name}.weight"].T + weights[f"{name}.bias"]

    state = (
        weights["embeddings.word_embeddings.weight"][ids] + weights["embeddings.position_embeddings.weight"][: len(ids)]
    )
    state = norm("embeddings", state + weights["embeddings.token_type_embeddings.weight"][0])
    layer = "encoder.layer.0"
    size = state.shape[1] // heads
    query, key, value = (
        linear(f"{layer}.attention.self.{part}", state).reshape(len(ids), heads, size).swapaxes(0, 1)
        for part in ("query", "key", "value")
    )
    mixed = softmax(query @ key.swapaxes(1, 2) / np.sqrt(size), axis=-1) @ value
    joined = linear(f"{layer}.attention.output.dense", mixed.swapaxes(0, 1).reshape(len(ids), -1))
    state = norm(f"{layer}.attention.output", joined + state)
    inner = linear(f"{layer}.intermediate.dense", state)
    inner = inner * (1 + erf(inner / np.sqrt(2))) / 2
    state = norm(f"{layer}.output", linear(f"{layer}.output.dense", inner) + state)
    mean = state.mean(axis=0)
    return mean / np.linalg.norm(mean)


@pytest.fixture
def small(monkeypatch):
    for name, value in {"LAYERS": 1, "HEADS": 2, "WIDTH": 8}.items():
        monkeypatch.setattr(graph, name, value)
    return network()


def test_the_graph_computes_what_the_network_says(small):
    import onnxruntime

    session = onnxruntime.InferenceSession(graph.build(small), providers=["CPUExecutionProvider"])
    texts = [[3, 1, 4, 1, 5], [9, 2]]
    ids = np.array([text + [0] * (5 - len(text)) for text in texts])
    mask = np.array([[1] * len(text) + [0] * (5 - len(text)) for text in texts])
    (vectors,) = session.run(None, {"input_ids": ids, "attention_mask": mask})
    for vector, text in zip(vectors, texts, strict=True):
        assert vector == pytest.approx(by_hand(small, text, heads=2), abs=1e-4)


def test_the_same_weights_give_the_same_file(small):
    assert graph.build(small) == graph.build(network())
    assert graph.build(small) != graph.build(network(seed=1))


def test_safetensors_are_read_as_they_were_written():
    tensors = {
        "a": np.arange(6, dtype=np.float32).reshape(2, 3),
        "ids": np.arange(3),
        "b": np.ones(2, dtype=np.float32),
    }
    found = graph.read_safetensors(safetensors(tensors))
    assert set(found) == {"a", "b"}  # whole numbers are no weights
    assert (found["a"] == tensors["a"]).all()
    assert (found["b"] == tensors["b"]).all()


def test_graph_tokenizer_and_manifest_are_written_for_the_right_weights_only(small, tmp_path, monkeypatch):
    source, target = tmp_path / "source", tmp_path / "target"
    source.mkdir()
    data = safetensors(small)
    (source / "model.safetensors").write_bytes(data)
    (source / "tokenizer.json").write_text("{}")
    with pytest.raises(graph.WeightsError, match="expected 53aa"):
        graph.make(source, target)
    assert not target.exists()
    digest = hashlib.sha256(data).hexdigest()
    monkeypatch.setattr(graph, "WEIGHTS_SHA256", digest)
    graph.make(source, target)
    manifest = json.loads((target / graph.MANIFEST).read_text())
    assert manifest.pop("weights") == digest
    assert manifest == {name: hashlib.sha256((target / name).read_bytes()).hexdigest() for name in graph.FILES}


def test_the_build_makes_what_an_installation_looks_for():
    assert (graph.WEIGHTS_SHA256, graph.FILES, graph.MANIFEST) == (
        weights.WEIGHTS_SHA256,
        weights.FILES,
        weights.MANIFEST,
    )
