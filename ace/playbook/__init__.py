"""Memory: bullets, the journal of their changes, the index that finds them."""

from ace.playbook._retrieving import GuardedPlaybook, Trial
from ace.playbook._upkeep import verify_book
from ace.playbook.bullet import PlaybookBullet, Provenance, Section, Stage, sequence_key
from ace.playbook.dedup import Calibration, calibrate, labelled_pairs
from ace.playbook.delta import Add, Delta, Merge, Promote, Quarantine, Remove, Restore, Tag, Update, fold
from ace.playbook.embedder import CallableEmbedder, Embedder, MiniLMEmbedder, as_embedder
from ace.playbook.playbook import Playbook
from ace.playbook.render import render_bullets
from ace.playbook.results import Explanation, Retrieved
from ace.playbook.retrieval import Filters
from ace.playbook.trust import Verdict, screen

__all__ = [
    "Add",
    "Calibration",
    "CallableEmbedder",
    "Delta",
    "Embedder",
    "Explanation",
    "Filters",
    "GuardedPlaybook",
    "Merge",
    "MiniLMEmbedder",
    "Playbook",
    "PlaybookBullet",
    "Promote",
    "Provenance",
    "Quarantine",
    "Remove",
    "Restore",
    "Retrieved",
    "Section",
    "Stage",
    "Tag",
    "Trial",
    "Update",
    "Verdict",
    "as_embedder",
    "calibrate",
    "fold",
    "labelled_pairs",
    "render_bullets",
    "screen",
    "sequence_key",
    "verify_book",
]
