"""What the copies of an agent share: optimizers deep-copy programs, and a copied database or thread would be another one."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
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
    """What copies share, `Shared.of(signature, registry, ...)`; a pickle carries what another process can use of it."""

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
        memory: Memory,
        lm: Any,
        observers: Iterable[Observer],
        store: RunStore | None,
        tools_shown: int | None,
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
        shown = None if tools_shown is None or tools_shown >= len(registry) else ShownTools(registry, tools_shown)
        catalog = ToolCatalog(registry, submit_tool(signature, memory.source is not None), shown)
        threads: tuple[ObserverThread[Event], ...] = tuple(map(ObserverThread, observers))
        return cls(signature, memory, lm, threads, store or MemoryRunStore(), InputFields(signature), catalog)

    def with_memory(self, memory: Memory) -> Shared:
        """Return the same with another memory; a run cites lessons only where there may be some."""
        catalog, cites = self.catalog, memory.source is not None
        if cites != (self.memory.source is not None):
            catalog = ToolCatalog(catalog.registry, submit_tool(self.signature, cites), catalog.shown)
        return replace(self, memory=memory, learner=[], catalog=catalog)

    def __deepcopy__(self, memo: dict[int, Any]) -> Shared:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        observers = [thread.observer for thread in self.observers]
        store = FolderRunStore(self.store.folder) if isinstance(self.store, FolderRunStore) else None
        shown = self.catalog.shown
        parts = (self.memory, self.lm, observers, store, shown and shown.count)
        return Shared.of, (self.signature, self.catalog.registry, *parts)
