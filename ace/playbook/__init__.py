"""Memory: bullets, the journal of their changes, the index that finds them."""

from ace.playbook.bullet import PlaybookBullet, Provenance, Section, Stage, sequence_key
from ace.playbook.delta import Add, Delta, Merge, Promote, Quarantine, Remove, Tag, Update, fold
from ace.playbook.embedder import CallableEmbedder, Embedder, MiniLMEmbedder
from ace.playbook.playbook import Playbook
from ace.playbook.render import render_bullets
from ace.playbook.retrieval import Filters

__all__ = [
    "Add",
    "CallableEmbedder",
    "Delta",
    "Embedder",
    "Filters",
    "Merge",
    "MiniLMEmbedder",
    "Playbook",
    "PlaybookBullet",
    "Promote",
    "Provenance",
    "Quarantine",
    "Remove",
    "Section",
    "Stage",
    "Tag",
    "Update",
    "fold",
    "render_bullets",
    "sequence_key",
]
