"""The default embedder: all-MiniLM-L6-v2, run by onnxruntime."""

from __future__ import annotations

import atexit
import os
import threading
from collections.abc import Sequence
from typing import Any, ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from ace.core import PlaybookError, describe_error
from ace.playbook.index.weights import weights_folder

MAX_TOKENS = 256
"""Longer texts are cut, as sentence-transformers does for this model."""
BATCH = 64

Vectors = NDArray[np.float32]


class Embedder(Protocol):
    """Turns texts into vectors of length one: `Playbook(embedder=MiniLMEmbedder())`."""

    @property
    def name(self) -> str:
        """Vectors of different names are never compared."""
        ...

    def embed(self, texts: Sequence[str]) -> Vectors:
        """Embed texts in shape (len(texts), dimension), float32, rows of length one."""
        ...


def unit(vectors: Any) -> Vectors:
    """Scale rows to length one; what is no table of numbers stays as it is, for `embedded` to refuse."""
    array = np.asarray(vectors, dtype=np.float32)
    if array.ndim != 2:
        return array
    return array / np.maximum(np.linalg.norm(array, axis=1, keepdims=True), 1e-12)


def embedded(embedder: Embedder, texts: Sequence[str]) -> Vectors:
    """Embed some texts and check the vectors: what is wrong here would be kept, and searched, ever after.

    Raises:
        PlaybookError: They are not one row of finite numbers for each text.
    """
    try:
        vectors = np.asarray(embedder.embed(texts))
    except PlaybookError as error:
        raise PlaybookError(str(error), out_of_reach=True) from error
    except Exception as error:  # border to a foreign embedder, with its model and its network
        text = f"the embedder {embedder.name!r} failed: {describe_error(error)}; nothing was kept"
        raise PlaybookError(text, out_of_reach=True) from error
    if vectors.ndim != 2 or len(vectors) != len(texts) or not vectors.shape[1]:
        raise PlaybookError(
            f"the embedder {embedder.name!r} answered with shape {vectors.shape} for {len(texts)} texts, expected "
            f"({len(texts)}, dimension); nothing was kept"
        )
    if not np.isfinite(vectors).all():
        row = int(np.flatnonzero(~np.isfinite(vectors).all(axis=1))[0])
        raise PlaybookError(
            f"the embedder {embedder.name!r} has no finite vector for {texts[row][:80]!r}; nothing was kept"
        )
    return vectors.astype(np.float32, copy=False)


_NATIVE = threading.RLock()
atexit.register(_NATIVE.acquire, timeout=10.0)
if hasattr(os, "register_at_fork"):  # else a child would wait for ever for a thread that it does not have
    os.register_at_fork(before=_NATIVE.acquire, after_in_parent=_NATIVE.release, after_in_child=_NATIVE.release)
"""Held for each call into onnxruntime, and by the end of the process: a daemon thread that returned from one when the
interpreter is gone would abort it (the thread is ended inside C++ code, which allows no such thing)."""


class MiniLMEmbedder:
    """`all-MiniLM-L6-v2` (384 dimensions), `Playbook(embedder=MiniLMEmbedder())`; loaded on first use, shared by a process.

    The weights come with the package, and their hash is checked. The vectors are those of sentence-transformers to five
    places.

    Args:
        threads: That one text may use; 0 leaves it to onnxruntime. Who loads the model first decides.
    """

    name = "all-MiniLM-L6-v2"
    _models: ClassVar[dict[str, tuple[Any, Any]]] = {}

    def __init__(self, threads: int = 0) -> None:
        self.threads = threads

    def embed(self, texts: Sequence[str]) -> Vectors:
        """See `Embedder`.

        Raises:
            PlaybookError: The weights are not there, or are not the ones expected.
        """
        session, tokenizer = self._loaded()
        # texts of like length together: padding costs as much as text
        order = sorted(range(len(texts)), key=lambda i: len(texts[i]))
        found: list[Any] = [None] * len(texts)
        for start in range(0, len(order), BATCH):
            part = order[start : start + BATCH]
            encoded = tokenizer.encode_batch([texts[i] for i in part])
            feed = {
                "input_ids": np.asarray([e.ids for e in encoded], dtype=np.int64),
                "attention_mask": np.asarray([e.attention_mask for e in encoded], dtype=np.int64),
            }
            with _NATIVE:
                (vectors,) = session.run(None, feed)
            for index, vector in zip(part, vectors, strict=True):
                found[index] = vector
        return np.stack(found) if found else np.zeros((0, 384), dtype=np.float32)

    def warm(self) -> None:
        """Load the model now."""
        self._loaded()

    def _loaded(self) -> tuple[Any, Any]:
        """Load the session and the tokenizer, once for the process."""
        with _NATIVE:
            if self.name not in self._models:
                import onnxruntime
                from tokenizers import Tokenizer

                folder, runtime = weights_folder(), onnxruntime
                options: Any = runtime.SessionOptions()
                options.intra_op_num_threads = self.threads
                options.log_severity_level = 3
                options.add_session_config_entry("session.intra_op.allow_spinning", "0")  # idle threads cost nothing
                providers = ["CPUExecutionProvider"]
                session = runtime.InferenceSession(str(folder / "model.onnx"), options, providers=providers)
                tokenizer: Any = Tokenizer.from_file(str(folder / "tokenizer.json"))
                tokenizer.enable_truncation(MAX_TOKENS)
                tokenizer.enable_padding()
                self._models[self.name] = (session, tokenizer)
            return self._models[self.name]
