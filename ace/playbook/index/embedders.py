"""Anything that can embed, as an `Embedder`."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Sequence
from typing import Any

from ace.core import PlaybookError
from ace.playbook.index.minilm import Embedder, MiniLMEmbedder, Vectors, unit


class CallableEmbedder:
    """Any function from texts to a 2-D array as an embedder.

    Examples:
        >>> CallableEmbedder("lengths", lambda texts: [[len(t), 1.0] for t in texts]).embed(["ab"]).shape
        (1, 2)
    """

    def __init__(self, name: str, func: Callable[[Sequence[str]], Any]) -> None:
        self.name = name
        self._func = func

    def embed(self, texts: Sequence[str]) -> Vectors:
        """See `Embedder`."""
        return unit(self._func(list(texts)))


def as_embedder(source: Any = None) -> Embedder:
    """Convert anything that can embed to an `Embedder`.

    Args:
        source: An `Embedder`; None for MiniLM; a `dspy.Embedder`; a `SentenceTransformer`; or a function from a list of
            texts to a 2-D array, named by its module and name.

    Raises:
        PlaybookError: It can do none of that, or is a function without a name of its own.

    Examples:
        >>> def lengths(texts):
        ...     return [[len(text), 1.0] for text in texts]
        >>> as_embedder(lengths).embed(["ab"]).shape
        (1, 2)
    """
    if source is None or source == "minilm":
        return MiniLMEmbedder()
    if hasattr(source, "embed") and isinstance(getattr(source, "name", None), str):
        return source
    if hasattr(source, "encode") and not isinstance(source, str):  # sentence-transformers
        return CallableEmbedder(f"sentence-transformers/{_fingerprint(source)}", source.encode)
    model = getattr(source, "model", None)
    if callable(source) and model is not None:  # dspy.Embedder
        name = model if isinstance(model, str) else _function_name(model)
        given = getattr(source, "default_kwargs", {})
        options = ",".join(f"{k}={v}" for k, v in sorted(given.items()) if not re.search("key|token|secret|base", k))
        return CallableEmbedder(f"dspy/{name}{f'?{options}' if options else ''}", source)
    if callable(source):
        return CallableEmbedder(_function_name(source), source)
    raise PlaybookError(
        f"cannot embed with {source!r:.60}: give an Embedder, a dspy.Embedder, a SentenceTransformer(name), or "
        "CallableEmbedder(name, function)"
    )


def _function_name(function: Any) -> str:
    name = getattr(function, "__qualname__", "")
    if not name or "<" in name:  # a lambda, or one of many that a function made
        raise PlaybookError(
            "a function without a name of its own cannot say which vectors are its own; use CallableEmbedder(name, f)"
        )
    return f"{function.__module__}.{name}"


def _fingerprint(model: Any) -> str:
    """Return what tells a model on disk from another: its name is often missing, its weights never are."""
    if not hasattr(model, "state_dict"):
        raise PlaybookError(
            f"{type(model).__name__} cannot say which vectors are its own; use CallableEmbedder(name, model.encode)"
        )
    digest = hashlib.sha256()
    for name, tensor in model.state_dict().items():
        ends = tensor.detach().flatten()[:: max(1, tensor.numel() // 64)].float().cpu().numpy()
        digest.update(f"{name}{tuple(tensor.shape)}".encode() + ends.tobytes())
    return f"{type(model).__name__}-{digest.hexdigest()[:16]}"
