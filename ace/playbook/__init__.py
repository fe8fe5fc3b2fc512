"""Memory: bullets, the journal of their changes, the index that finds them."""

from ace.playbook.bullet import PlaybookBullet, Provenance, Section, Stage
from ace.playbook.delta import Add, Delta, Merge, Promote, Quarantine, Remove, Restore, Tag, Update, fold
from ace.playbook.filters import Filters
from ace.playbook.index import CallableEmbedder, Embedder, MiniLMEmbedder, as_embedder
from ace.playbook.playbook import Playbook
from ace.playbook.render import render_bullets
from ace.playbook.results import Explanation, Retrieved
from ace.playbook.retriever import DEFAULT_K, Experiment, PlaybookView
from ace.playbook.screening import screen

__all__ = [
    "DEFAULT_K",
    "Add",
    "CallableEmbedder",
    "Delta",
    "Embedder",
    "Experiment",
    "Explanation",
    "Filters",
    "Merge",
    "MiniLMEmbedder",
    "Playbook",
    "PlaybookBullet",
    "PlaybookView",
    "Promote",
    "Provenance",
    "Quarantine",
    "Remove",
    "Restore",
    "Retrieved",
    "Section",
    "Stage",
    "Tag",
    "Update",
    "as_embedder",
    "fold",
    "render_bullets",
    "screen",
]
