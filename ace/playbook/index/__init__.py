"""Finding bullets by meaning and by words."""

from ace.playbook.index.embedders import CallableEmbedder, as_embedder
from ace.playbook.index.minilm import Embedder, MiniLMEmbedder
from ace.playbook.index.sentence_transformer import SentenceTransformerEmbedder

__all__ = [
    "CallableEmbedder",
    "Embedder",
    "MiniLMEmbedder",
    "SentenceTransformerEmbedder",
    "as_embedder",
]
