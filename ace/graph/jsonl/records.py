"""The index of a thread's file: what is on which line; it holds no state.

A checkpoint is one line, after one line for each field that it changed: a value that stays the same is stored once. Writes
of a step that is not over have lines of their own.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from ace.graph.errors import CheckpointError

FORMAT = 1
Place = tuple[int, int]
"""Offset and length of a line."""
ValueKey = tuple[str, str, str]
"""Namespace, channel, version as JSON: 1 and "1" are different versions."""


@dataclass(frozen=True)
class CheckpointInfo:
    """One checkpoint without its state: `saver.history("thread-1")` lists them."""

    thread_id: str
    checkpoint_id: str
    checkpoint_ns: str
    """Empty for the graph itself; names the node for a graph inside a node."""
    parent_id: str | None
    step: int
    """-1 for the input, then from 0."""
    source: str
    """``input``, ``loop``, ``update`` or ``fork``."""
    created_at: str
    """ISO 8601."""
    run_id: str | None = None


@dataclass
class Head:
    """The line of a checkpoint, and what is known without reading it."""

    info: CheckpointInfo
    place: Place
    versions: dict[str, str]
    """Channel to version, as JSON."""
    deltas: dict[str, tuple[int, int]]
    """Delta channels: updates and steps since their value was last saved whole."""


@dataclass
class Write:
    """The line of a pending write."""

    path: str
    place: Place
    position: int
    """Among the writes of its line."""


@dataclass
class Index:
    """What a thread's file holds."""

    thread_id: str
    values: dict[ValueKey, Place] = field(default_factory=dict[ValueKey, Place])
    heads: dict[str, dict[str, Head]] = field(default_factory=dict[str, dict[str, Head]])
    """Namespace, then checkpoint id."""
    writes: dict[tuple[str, str], dict[tuple[str, int], Write]] = field(
        default_factory=dict[tuple[str, str], dict[tuple[str, int], Write]]
    )
    """Namespace and checkpoint id, then task id and number."""
    _loose: list[Place] = field(default_factory=list[Place])
    """Lines of values whose checkpoint has not been read yet."""

    def clear(self) -> None:
        """Forget everything."""
        self.values, self.heads, self.writes, self._loose = {}, {}, {}, []

    def take(self, line: bytes, offset: int, number: int, known: Any = None) -> bool:
        """Add one line to the index; returns whether the line completes an append.

        Raises:
            CheckpointError: It belongs to another thread, or to a newer version of this library.
        """
        place = (offset, len(line))
        if line[18:32] == b'"kind":"value"':
            self._loose.append(place)
            return False
        record = cast("dict[str, Any]", json.loads(line) if known is None else known)
        match record["kind"]:
            case "thread":
                if record["format"] != FORMAT:
                    raise CheckpointError(
                        f"the thread {self.thread_id!r} was saved in the format {record['format']!r}, expected {FORMAT}; "
                        "read it with the version that wrote it"
                    )
                if record["thread_id"] != self.thread_id:
                    raise CheckpointError(
                        f"the file of the thread {self.thread_id!r} holds {record['thread_id']!r}; was it renamed?"
                    )
            case "checkpoint":
                self._take_checkpoint(record, place)
            case "writes":
                self._take_writes(record, place)
            case kind:
                raise CheckpointError(f"line {number} is of the unknown kind {kind!r}; a newer version wrote it")
        return True

    def _take_checkpoint(self, record: dict[str, Any], place: Place) -> None:
        ns, names = record["ns"], record["values"]
        fresh = self._loose[len(self._loose) - len(names) :]
        for (channel, version), where in zip(names, fresh, strict=True):
            self.values[ns, channel, json.dumps(version)] = where
        self._loose = []
        metadata, checkpoint = record["metadata"], record["checkpoint"]
        info = CheckpointInfo(
            thread_id=self.thread_id,
            checkpoint_id=record["id"],
            checkpoint_ns=ns,
            parent_id=record["parent"],
            step=metadata.get("step", 0),
            source=metadata.get("source", ""),
            created_at=checkpoint.get("ts", ""),
            run_id=metadata.get("run_id"),
        )
        versions = {name: json.dumps(version) for name, version in checkpoint["channel_versions"].items()}
        counters = cast("dict[str, Any]", metadata.get("counters_since_delta_snapshot") or {})
        deltas = {
            name: tuple(cast("Sequence[Any]", c["$tuple"] if isinstance(c, dict) else c))
            for name, c in counters.items()
        }
        self.heads.setdefault(ns, {})[record["id"]] = Head(info, place, versions, deltas)

    def _take_writes(self, record: dict[str, Any], place: Place) -> None:
        known = self.writes.setdefault((record["ns"], record["id"]), {})
        for position, (number, *_) in enumerate(record["writes"]):
            key = (record["task"], number)
            if number < 0 or key not in known:  # what a task wrote stays; what it waits for may change
                known[key] = Write(record["path"], place, position)

    def newest(self, ns: str) -> Head | None:
        """The checkpoint that a run resumes from."""
        found = self.heads.get(ns)
        return found[max(found)] if found else None

    def in_order(self, ns: str | None = None) -> Iterator[Head]:
        """The checkpoints, newest first; of all namespaces when none is named."""
        for name, found in self.heads.items():
            if ns is None or name == ns:
                for checkpoint_id in sorted(found, reverse=True):
                    yield found[checkpoint_id]
