"""Finding bullets by meaning and by words."""

from ace.playbook.index.embedders import CallableEmbedder, as_embedder
from ace.playbook.index.minilm import Embedder, MiniLMEmbedder

__all__ = ["CallableEmbedder", "Embedder", "MiniLMEmbedder", "as_embedder"]
