"""Finding bullets by meaning and by words."""

from ace.playbook.index.embedders import CallableEmbedder, Embedder, SentenceTransformerEmbedder, as_embedder
from ace.playbook.index.minilm import MiniLMEmbedder, MiniLMInt8Embedder

__all__ = [
    "CallableEmbedder",
    "Embedder",
    "MiniLMEmbedder",
    "MiniLMInt8Embedder",
    "SentenceTransformerEmbedder",
    "as_embedder",
]
