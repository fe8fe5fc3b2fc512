"""MiniLM on onnxruntime: the same weights, exported once, about three times as fast for one text as torch."""

from __future__ import annotations

import hashlib
import json
import tempfile
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import numpy as np

from ace.core import PlaybookError
from ace.core.durable import move_into
from ace.playbook.index.minilm import WEIGHTS_SHA256, MiniLMEmbedder, Vectors, unit
from ace.playbook.index.saved import cache_folder

FORMAT = 1
MAX_TOKENS = 256
"""Longer texts are cut, as sentence-transformers does for this model."""
BATCH = 64


class OnnxMiniLMEmbedder:
    """`all-MiniLM-L6-v2` as `MiniLMEmbedder` has it, faster; its vectors are the same, and shared with it.

    The first use exports the weights through torch into the user's cache folder; afterwards neither torch nor
    sentence-transformers is loaded.

    Args:
        folder: Where the export is kept.
        threads: That one text may use; 0 leaves it to onnxruntime.
    """

    name = MiniLMEmbedder.name
    _lock = threading.Lock()

    def __init__(self, folder: str | Path | None = None, threads: int = 0) -> None:
        self.folder = Path(folder) if folder is not None else cache_folder() / "onnx"
        self.threads = threads
        self._session: Any = None
        self._tokenizer: Any = None

    def embed(self, texts: Sequence[str]) -> Vectors:
        """See `Embedder`.

        Raises:
            PlaybookError: onnxruntime is not installed, or the export failed.
        """
        self._load()
        # texts of like length together: padding costs as much as text
        order = sorted(range(len(texts)), key=lambda i: len(texts[i]))
        found: list[Any] = [None] * len(texts)
        for start in range(0, len(order), BATCH):
            part = order[start : start + BATCH]
            for index, vector in zip(part, self._embed([texts[i] for i in part]), strict=True):
                found[index] = vector
        return np.stack(found) if found else np.zeros((0, 384), dtype=np.float32)

    def warm(self) -> None:
        """Load the model now."""
        self._load()

    def _embed(self, texts: list[str]) -> Vectors:
        encoded = self._tokenizer.encode_batch(texts)
        ids = np.asarray([e.ids for e in encoded], dtype=np.int64)
        mask = np.asarray([e.attention_mask for e in encoded], dtype=np.int64)
        feed = {"input_ids": ids, "attention_mask": mask, "token_type_ids": np.zeros_like(ids)}
        (hidden,) = self._session.run(None, feed)
        weights = mask[:, :, None].astype(np.float32)
        return unit((hidden * weights).sum(axis=1) / np.maximum(weights.sum(axis=1), 1e-9))

    def _load(self) -> None:
        with self._lock:
            if self._session is not None:
                return
            try:
                import onnxruntime
                from tokenizers import Tokenizer
            except ModuleNotFoundError as error:
                raise PlaybookError(
                    f"the fast embedder needs the package {error.name!r}: pip install 'dspy-ace[onnx]'"
                ) from error
            model, words = self._exported()
            runtime: Any = onnxruntime
            options = runtime.SessionOptions()
            options.intra_op_num_threads = self.threads
            options.log_severity_level = 3
            options.add_session_config_entry("session.intra_op.allow_spinning", "0")  # idle threads cost nothing
            session = runtime.InferenceSession(str(model), options, providers=["CPUExecutionProvider"])
            tokenizer: Any = Tokenizer.from_file(str(words))
            tokenizer.enable_truncation(MAX_TOKENS)
            tokenizer.enable_padding()
            self._tokenizer, self._session = tokenizer, session

    def _exported(self) -> tuple[Path, Path]:
        """The exported model and its tokenizer, whole; exported now when they are not there or damaged."""
        folder = self.folder / f"minilm-{WEIGHTS_SHA256[:12]}-{FORMAT}"
        paths = folder / "model.onnx", folder / "tokenizer.json"
        try:
            digests = json.loads((folder / "digests.json").read_text(encoding="utf-8"))
            if all(_digest(path) == digests.get(path.name) for path in paths):
                return paths
        except (OSError, ValueError):
            pass
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=self.folder) as made:
            fresh = Path(made)
            _export(fresh)
            names = [path.name for path in paths]
            digests = {name: _digest(fresh / name) for name in names}
            (fresh / "digests.json").write_text(json.dumps(digests), encoding="utf-8")
            move_into(folder, fresh, (*names, "digests.json"))
        return paths


def _export(folder: Path) -> None:
    """Write the model that sentence-transformers loads as ONNX, and its tokenizer."""
    import warnings

    try:
        import onnx  # noqa: F401  # pyright: ignore[reportUnusedImport] - torch's exporter needs it
        import torch
    except ModuleNotFoundError as error:
        raise PlaybookError(f"the export needs the package {error.name!r}: pip install 'dspy-ace[onnx]'") from error
    loaded = MiniLMEmbedder().model()

    class Hidden(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.model = loaded[0].auto_model

        def forward(self, input_ids: Any, attention_mask: Any, token_type_ids: Any) -> Any:
            return self.model(
                input_ids=input_ids, attention_mask=attention_mask, token_type_ids=token_type_ids
            ).last_hidden_state

    sample = loaded.tokenizer(["a text", "a somewhat longer text"], padding=True, return_tensors="pt")
    names = ["input_ids", "attention_mask", "token_type_ids"]
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")  # of the exporter, about itself
        cast(Any, torch.onnx).export(
            Hidden().eval(),
            tuple(sample[name] for name in names),
            str(folder / "model.onnx"),
            input_names=names,
            output_names=["hidden"],
            dynamic_axes={name: {0: "texts", 1: "tokens"} for name in (*names, "hidden")},
            opset_version=17,
            dynamo=False,
        )
    loaded.tokenizer.backend_tokenizer.save(str(folder / "tokenizer.json"))


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
