"""What the copies of an agent share: optimizers deep-copy programs, and a copied database or thread would be another one."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from ace.agent import AdmissionControl, FolderRunStore, MemoryRunStore, RunStore
from ace.core import Event, Observer, ObserverThread
from ace.react.catalog import ToolCatalog
from ace.react.inputs import InputFields
from ace.react.memory import Memory
from ace.react.program import submit_tool
from ace.react.shown_tools import ShownTools
from ace.tools import ToolRegistry


@dataclass(frozen=True, eq=False)
class Shared:
    """What copies share, `Shared.of(signature, registry)`; a pickle carries what another process can use of it."""

    signature: Any
    memory: Memory
    lm: Any
    observers: tuple[ObserverThread[Event], ...]
    store: RunStore
    inputs: InputFields
    catalog: ToolCatalog
    admission: AdmissionControl = field(default_factory=AdmissionControl)
    learner: list[Any] = field(default_factory=list[Any])
    """The agent's learner, once it has learned."""

    @classmethod
    def of(
        cls,
        signature: Any,
        registry: ToolRegistry,
        *,
        memory: Memory | None = None,
        lm: Any = None,
        observers: Iterable[Observer] = (),
        store: RunStore | None = None,
        tools_shown: int | None = None,
    ) -> Shared:
        """Build it for an agent.

        Args:
            signature: The agent's.
            registry: Its tools.
            memory: Where lessons come from.
            lm: Its own model.
            observers: Called with every event, each in a thread of its own.
            store: Where runs are kept; in this process by default.
            tools_shown: How many tools a prompt shows; all by default.
        """
        few = tools_shown is not None and tools_shown < len(registry)
        shown = ShownTools(registry, tools_shown) if tools_shown is not None and few else None
        memory = memory or Memory(None)
        return cls(
            signature=signature,
            memory=memory,
            lm=lm,
            observers=tuple(map(ObserverThread, observers)),
            store=store or MemoryRunStore(),
            inputs=InputFields(signature),
            catalog=ToolCatalog(registry, submit_tool(signature, cites=memory.source is not None), shown),
        )

    def with_memory(self, memory: Memory) -> Shared:
        """Return the same with another memory; a run cites lessons only where there may be some."""
        before, catalog = self.memory.source is not None, self.catalog
        cites = memory.source is not None
        if cites != before:
            catalog = ToolCatalog(catalog.registry, submit_tool(self.signature, cites), catalog.shown)
        return replace(self, memory=memory, learner=[], catalog=catalog)

    def __deepcopy__(self, memo: dict[int, Any]) -> Shared:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        folder = self.store.folder if isinstance(self.store, FolderRunStore) else None
        observers = tuple(thread.observer for thread in self.observers)
        shown = self.catalog.shown
        kept = {"lm": self.lm, "observers": observers, "tools_shown": shown and shown.count}
        store, memory = folder and FolderRunStore(folder), self.memory
        again = partial(Shared.of, memory=memory, store=store, **kept)
        return again, (self.signature, self.catalog.registry)
