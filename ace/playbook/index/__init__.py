"""Finding bullets by meaning and by words."""

from ace.playbook.index.embedders import CallableEmbedder, Embedder, SentenceTransformerEmbedder, as_embedder
from ace.playbook.index.minilm import MiniLMEmbedder

__all__ = [
    "CallableEmbedder",
    "Embedder",
    "MiniLMEmbedder",
    "SentenceTransformerEmbedder",
    "as_embedder",
]
