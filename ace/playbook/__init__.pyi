# What `import ace.playbook` offers; loaded on first use.
from .bullet import PlaybookBullet as PlaybookBullet, Provenance as Provenance, Section as Section, Stage as Stage
from .delta import (
    Add as Add,
    Delta as Delta,
    Merge as Merge,
    Promote as Promote,
    Quarantine as Quarantine,
    Remove as Remove,
    Restore as Restore,
    Tag as Tag,
    Update as Update,
    fold as fold,
)
from .filters import Filters as Filters
from .index import (
    CallableEmbedder as CallableEmbedder,
    Embedder as Embedder,
    MiniLMEmbedder as MiniLMEmbedder,
    as_embedder as as_embedder,
)
from .playbook import Playbook as Playbook
from .render import render_bullets as render_bullets
from .results import Explanation as Explanation, Retrieved as Retrieved
from .retriever import DEFAULT_K as DEFAULT_K, Experiment as Experiment, PlaybookView as PlaybookView
from .sources import SOURCES as SOURCES, Part as Part, Source as Source
