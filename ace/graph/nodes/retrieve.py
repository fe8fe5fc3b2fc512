"""`RetrieveNode`: looks up what is known about the user's question, before an agent runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any

from langchain_core.runnables import RunnableConfig

from ace.core import clean_text, value_to_text
from ace.graph.nodes.base import Node
from ace.graph.state import Document, needed
from ace.playbook import DEFAULT_K, Playbook
from ace.playbook.bullet import PlaybookBullet
from ace.playbook.render import render_bullet


@dataclass(eq=False, repr=False)
class RetrieveNode(Node):
    """Looks something up and writes it into ``retrieved``, and as text into ``context``.

    Args:
        source: A `Playbook`, or a function from the query to texts, `Document`s or bullets, best first.
        query: The field with the query.
        k: At most this many; for a playbook its own default when left out.
        domain: Of the playbook's bullets.
        tenant: Of the playbook's bullets.
        into: Field for the list.
        context: Field for the text.

    Examples:
        >>> node = RetrieveNode(lambda query: ["Orders ship on Mondays."])
        >>> node.invoke({"user_input": "When does my order ship?"})["context"]
        'Orders ship on Mondays.'
    """

    source: Playbook | Callable[[str], Sequence[Any]]
    _: KW_ONLY
    query: str = "user_input"
    k: int | None = None
    domain: str | None = None
    tenant: str | None = None
    into: str = "retrieved"
    context: str = "context"

    def __post_init__(self) -> None:
        if self.k is not None and self.k < 1:
            raise ValueError(f"k must be at least 1, got {self.k!r}")

    def invoke(self, input: Any, config: RunnableConfig | None = None, **kwargs: Any) -> dict[str, Any]:
        """See the class."""
        query = value_to_text(needed(input, self.query, "RetrieveNode"))
        found = [_retrieved(one) for one in self._found(query)][: self.k]
        return {self.into: found, self.context: "\n".join(one.content for one in found)}

    def _found(self, query: str) -> Sequence[Any]:
        if isinstance(self.source, Playbook):
            return self.source.retrieve(query, self.domain, k=self.k or DEFAULT_K, tenant=self.tenant)
        return self.source(query)


def _retrieved(one: Any) -> Document:
    if isinstance(one, (Document, dict)):
        return Document.model_validate(one)
    if isinstance(one, PlaybookBullet):
        return Document(id=one.id, content=render_bullet(one), metadata={"section": one.section})
    return Document(content=clean_text(value_to_text(one)))
