"""`JsonlCheckpointer`: a LangGraph saver over files that a person can read."""

from __future__ import annotations

import asyncio
import functools
import hashlib
import json
import random
import re
import threading
from collections.abc import AsyncIterator, Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import CoroutineType
from typing import Any, ParamSpec, TypeVar, cast

from cachetools import LRUCache
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import (
    WRITES_IDX_MAP,
    BaseCheckpointSaver,
    ChannelVersions,
    Checkpoint,
    CheckpointMetadata,
    CheckpointTuple,
    get_checkpoint_id,
    get_serializable_checkpoint_metadata,
    writes_sort_key,
)

from ace.graph.codec import JsonCodec, to_text
from ace.graph.errors import CheckpointError
from ace.graph.jsonl.records import FORMAT, CheckpointInfo, Head, Index
from ace.graph.jsonl.shared_log import SharedJsonLog, read_at

P = ParamSpec("P")
T = TypeVar("T")
MAX_OPEN = 1_000
"""How many threads' indexes are kept in memory."""
_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9._-]+")


def _in_thread(method: Callable[P, T]) -> Callable[P, CoroutineType[Any, Any, T]]:
    @functools.wraps(method)
    async def call(*args: P.args, **kwargs: P.kwargs) -> T:
        # by its name: a subclass may have a method of its own
        return await asyncio.to_thread(getattr(args[0], method.__name__), *args[1:], **kwargs)

    return call


class Thread:
    """One thread's file and what stands where in it."""

    def __init__(self, path: Path, thread_id: str) -> None:
        self.index = Index(thread_id)
        self.file = SharedJsonLog(path, self.index.take, self.index.clear, CheckpointError)


class JsonlCheckpointer(BaseCheckpointSaver[str]):
    """Saves graphs as JSON lines, one append-only file per thread.

    A save is on the disk when it returns. A save that was torn by the end of its process is cut off with a warning; any
    other damage is a `CheckpointError`. Nothing is pickled and no class is imported by its name. Several threads and
    processes may use one folder.

    Args:
        folder: Created when it is missing.
        classes: Models, dataclasses and enums that may stand in the state, besides those that the annotations name.

    Examples:
        >>> saver = JsonlCheckpointer(getfixture("tmp_path"))
        >>> saver.threads()
        []
    """

    def __init__(self, folder: str | Path, *, classes: Sequence[type] = ()) -> None:
        codec = JsonCodec(classes)
        super().__init__(serde=codec)
        self.codec = codec
        self.folder = Path(folder)
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise CheckpointError(f"cannot make the folder {str(folder)!r}: {error.strerror}") from error
        self._threads: LRUCache[str, Thread] = LRUCache(MAX_OPEN)
        self._lock = threading.Lock()

    # -- one thread's file --------------------------------------------------------------------------------------------

    def path_of(self, thread_id: str) -> Path:
        """The file of a thread: as much of its id as a file's name may hold, and a digest that tells ids apart."""
        shown = _NOT_IN_NAMES.sub("_", thread_id)[:60].strip(".") or "thread"
        return (
            self.folder / f"{shown}-{hashlib.sha256(thread_id.encode('utf-8', 'surrogatepass')).hexdigest()[:16]}.jsonl"
        )

    def threads(self) -> list[str]:
        """The ids of all threads, in the order of their files' names."""
        found: list[str] = []
        for path in sorted(self.folder.glob("*.jsonl")):
            try:
                with path.open("rb") as file:
                    line = file.readline()
            except FileNotFoundError:  # somebody has just deleted it
                continue
            try:
                found.append(str(json.loads(line)["thread_id"]))
            except (ValueError, KeyError, TypeError) as error:
                if not line.endswith(b"\n"):
                    continue  # torn before anything was saved
                raise CheckpointError(
                    f"{str(path)!r} is damaged: line 1 names no thread; restore or delete it"
                ) from error
        return found

    def _thread(self, thread_id: str) -> Thread:
        with self._lock:
            thread = self._threads.get(thread_id)
            if thread is None:
                thread = self._threads[thread_id] = Thread(self.path_of(thread_id), thread_id)
            return thread

    @contextmanager
    def _opened(self, thread_id: str) -> Generator[tuple[int | None, Thread]]:
        thread = self._thread(thread_id)
        with thread.file.opened() as file:
            yield file, thread

    def _append(self, thread_id: str, bodies: Sequence[str], record: dict[str, Any]) -> None:
        """Add lines; the last one is a record that is known already."""
        thread = self._thread(thread_id)
        with thread.file.opened(make=True) as file:
            assert file is not None
            first = [] if thread.file.known else [_thread_line(thread_id)]
            thread.file.append(file, [*first, *bodies, to_text(record)], record)

    # -- saving -------------------------------------------------------------------------------------------------------

    def put(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        """Save a checkpoint: the fields that changed, and a line that closes it."""
        thread_id, ns, parent = _named(config)
        values = {
            name: checkpoint["channel_values"][name] for name in new_versions if name in checkpoint["channel_values"]
        }
        bodies = [
            f'{{"kind":"value","channel":{json.dumps(name)},"value":{self.codec.dumps(value, f"state.{name}")}}}'
            for name, value in values.items()
        ]
        head = {
            "kind": "checkpoint",
            "ns": ns,
            "id": checkpoint["id"],
            "parent": parent,
            "values": [[name, new_versions[name]] for name in values],
            "checkpoint": {k: v for k, v in checkpoint.items() if k not in ("channel_values", "id")},
            "metadata": get_serializable_checkpoint_metadata(config, metadata),
        }
        for part in ("checkpoint", "metadata"):
            head[part] = self.codec.encode(head[part], part)
        self._append(thread_id, bodies, head)
        return _config(thread_id, ns, checkpoint["id"])

    def put_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        """Save what a task wrote in a step that is not over."""
        thread_id, ns, checkpoint_id = _named(config)
        numbered = [
            [WRITES_IDX_MAP.get(name, i), name, self.codec.encode(value, f"state.{name}")]
            for i, (name, value) in enumerate(writes)
        ]
        record = {
            "kind": "writes",
            "ns": ns,
            "id": checkpoint_id,
            "task": task_id,
            "path": task_path,
            "writes": numbered,
        }
        self._append(thread_id, [], record)

    # -- reading ------------------------------------------------------------------------------------------------------

    def get_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """One checkpoint with its state: the one that is named, or the newest."""
        thread_id, ns, checkpoint_id = _named(config)
        with self._opened(thread_id) as (file, thread):
            if file is None:
                return None
            heads = thread.index.heads.get(ns, {})
            head = heads.get(checkpoint_id) if checkpoint_id else thread.index.newest(ns)
            return None if head is None else self._read(file, thread.index, head)

    def list(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> Iterator[CheckpointTuple]:
        """Checkpoints with their states, newest first."""
        given = config["configurable"] if config else {}  # pyright: ignore[reportTypedDictNotRequiredAccess]
        thread_ids = [str(given["thread_id"])] if "thread_id" in given else self.threads()
        until = get_checkpoint_id(before) if before else None
        left = limit
        for thread_id in thread_ids:
            with self._opened(thread_id) as (file, thread):
                found: list[CheckpointTuple] = []
                for head in thread.index.in_order(given.get("checkpoint_ns")) if file is not None else ():
                    if left is not None and left <= 0:
                        break
                    if given.get("checkpoint_id") and head.info.checkpoint_id != given["checkpoint_id"]:
                        continue
                    if until and head.info.checkpoint_id >= until:
                        continue
                    assert file is not None
                    metadata: dict[str, Any] = self._record(file, head)["metadata"] if filter else {}
                    if any(metadata.get(key) != value for key, value in (filter or {}).items()):
                        continue
                    found.append(self._read(file, thread.index, head))
                    left = None if left is None else left - 1
            yield from found  # not while the file is held: a reader may take its time

    def history(self, thread_id: str, checkpoint_ns: str | None = "") -> list[CheckpointInfo]:
        """What was saved, newest first, without reading a state.

        Args:
            thread_id: The thread.
            checkpoint_ns: Of a graph inside a node; None for all.
        """
        with self._opened(thread_id) as (file, thread):
            return [head.info for head in thread.index.in_order(checkpoint_ns)] if file is not None else []

    def _record(self, file: int, head: Head) -> dict[str, Any]:
        return cast("dict[str, Any]", json.loads(read_at(file, *head.place)))

    def _read(self, file: int, index: Index, head: Head) -> CheckpointTuple:
        record, info = self._record(file, head), head.info
        ns = info.checkpoint_ns
        places = {n: index.values[ns, n, v] for n, v in head.versions.items() if (ns, n, v) in index.values}
        stored = {name: json.loads(read_at(file, *place))["value"] for name, place in places.items()}
        values = {name: self._decoded(value) for name, value in stored.items()}
        checkpoint = {**self._decoded(record["checkpoint"]), "id": info.checkpoint_id, "channel_values": values}
        return CheckpointTuple(
            config=_config(info.thread_id, ns, info.checkpoint_id),
            checkpoint=cast(Checkpoint, checkpoint),
            metadata=cast(CheckpointMetadata, self._decoded(record["metadata"])),
            parent_config=_config(info.thread_id, ns, info.parent_id) if info.parent_id else None,
            pending_writes=self._pending(file, index, ns, info.checkpoint_id),
        )

    def _pending(self, file: int, index: Index, ns: str, checkpoint_id: str) -> list[tuple[str, str, Any]]:
        known = index.writes.get((ns, checkpoint_id), {})
        lines = {write.place: json.loads(read_at(file, *write.place))["writes"] for write in known.values()}
        ordered = sorted(known.items(), key=lambda item: writes_sort_key(item[1].path, *item[0]))
        found: list[tuple[str, str, Any]] = []
        for (task_id, _), write in ordered:
            _, channel, value = lines[write.place][write.position]
            found.append((task_id, channel, self._decoded(value)))
        return found

    def _decoded(self, value: Any) -> Any:
        try:
            return self.codec.decode(value)
        except (ValueError, TypeError, KeyError, RecursionError) as error:
            raise CheckpointError(f"a saved value cannot be read: {str(error)[:300]}") from error

    # -- maintenance --------------------------------------------------------------------------------------------------

    def delete_thread(self, thread_id: str) -> None:
        """Delete a thread's file."""
        with self._opened(thread_id) as (file, thread):
            if file is not None:
                thread.file.remove()

    def delete_for_runs(self, run_ids: Sequence[str]) -> None:
        """Delete the checkpoints of these runs, with their writes, from every thread."""
        gone = set(run_ids)
        for thread_id in self.threads() if gone else ():
            self._keep(thread_id, lambda index: [h for h in index.in_order() if h.info.run_id not in gone])

    def copy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        """Copy a thread with its whole history.

        Raises:
            CheckpointError: The target is there already: its history would be mixed with the copy's.
        """
        with self._opened(source_thread_id) as (file, source):
            if file is None:
                return
            bodies = self._bodies(file, source.index, list(source.index.in_order()))
        target = self._thread(target_thread_id)
        with target.file.opened(make=True) as copy:
            assert copy is not None
            if target.file.known:
                raise CheckpointError(
                    f"the thread {target_thread_id!r} is there already; delete it, or copy to another"
                )
            target.file.replace([_thread_line(target_thread_id), *bodies])  # all of it or nothing

    def prune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        """Delete what is not needed to go on.

        Args:
            thread_ids: The threads.
            strategy: ``keep_latest`` keeps each namespace's newest checkpoint, ``delete`` none.

        Raises:
            ValueError: There is no such strategy.
        """
        if strategy not in ("keep_latest", "delete"):
            raise ValueError(f"the strategy is {strategy!r}, expected 'keep_latest' or 'delete'")
        for thread_id in thread_ids:
            if strategy == "delete":
                self.delete_thread(thread_id)
            else:
                self._keep(thread_id, _latest)

    def compact(self, thread_id: str) -> int:
        """Write a thread's file again without what no checkpoint speaks of; returns the bytes that this freed."""
        path = self.path_of(thread_id)
        before = path.stat().st_size if path.exists() else 0
        self._keep(thread_id, lambda index: list(index.in_order()), always=True)
        return before - (path.stat().st_size if path.exists() else 0)

    def _keep(self, thread_id: str, choose: Callable[[Index], list[Head]], always: bool = False) -> None:
        with self._opened(thread_id) as (file, thread):
            if file is None:
                return
            kept = choose(thread.index)
            if always or len(kept) < sum(map(len, thread.index.heads.values())):
                thread.file.replace([_thread_line(thread_id), *self._bodies(file, thread.index, kept)])

    def _bodies(self, file: int, index: Index, heads: Sequence[Head]) -> list[str]:
        """The lines of some checkpoints, oldest first; each value that they need once."""
        bodies: list[str] = []
        written: set[tuple[str, str, str]] = set()
        for head in sorted(heads, key=lambda head: head.info.checkpoint_id):
            ns, record = head.info.checkpoint_ns, self._record(file, head)
            names: list[list[Any]] = []
            for name, version in head.versions.items():
                key = (ns, name, version)
                if key in index.values and key not in written:
                    written.add(key)
                    names.append([name, json.loads(version)])
                    bodies.append(_without_sum(read_at(file, *index.values[key])))
            record.pop("sum")
            bodies.append(json.dumps({**record, "values": names}, separators=(",", ":")))
            places = {write.place for write in index.writes.get((ns, head.info.checkpoint_id), {}).values()}
            bodies += [_without_sum(read_at(file, *place)) for place in sorted(places)]
        return bodies

    # -- what LangGraph calls ------------------------------------------------------------------------------------------

    def get_next_version(self, current: str | None, channel: None) -> str:
        """A version that no other branch of the thread's history gives."""
        number = int(current.split(".")[0]) + 1 if current else 1
        return f"{number:010}.{random.getrandbits(32):08x}"

    def with_allowlist(self, extra_allowlist: Any) -> JsonlCheckpointer:
        """Itself: classes are declared, see `JsonCodec.declare`."""
        return self

    # -- the same without blocking the event loop: each call in a thread ------------------------------------------------

    aput = _in_thread(put)
    aput_writes = _in_thread(put_writes)
    aget_tuple = _in_thread(get_tuple)
    adelete_thread = _in_thread(delete_thread)
    adelete_for_runs = _in_thread(delete_for_runs)
    acopy_thread = _in_thread(copy_thread)
    aprune = _in_thread(prune)

    async def alist(self, config: RunnableConfig | None, **options: Any) -> AsyncIterator[CheckpointTuple]:
        """`list`, one checkpoint at a time."""
        found = self.list(config, **options)
        while (one := await asyncio.to_thread(next, found, None)) is not None:
            yield one


def _named(config: RunnableConfig) -> tuple[str, str, Any]:
    given = config["configurable"]  # pyright: ignore[reportTypedDictNotRequiredAccess]
    if "thread_id" not in given:
        raise CheckpointError("a saved graph belongs to a thread; pass config={'configurable': {'thread_id': ...}}")
    return str(given["thread_id"]), given.get("checkpoint_ns", ""), given.get("checkpoint_id")


def _config(thread_id: str, ns: str, checkpoint_id: str) -> RunnableConfig:
    return {"configurable": {"thread_id": thread_id, "checkpoint_ns": ns, "checkpoint_id": checkpoint_id}}


def _thread_line(thread_id: str) -> str:
    return json.dumps({"kind": "thread", "format": FORMAT, "thread_id": thread_id}, separators=(",", ":"))


def _without_sum(line: bytes) -> str:
    return "{" + line[18:-1].decode()


def _latest(index: Index) -> list[Head]:
    """Each namespace's newest checkpoint, and before it what its delta channels are rebuilt from."""
    kept: list[Head] = []
    for ns, found in index.heads.items():
        head = index.newest(ns)
        needed = 1 + max((steps for _, steps in head.deltas.values()), default=0) if head is not None else 0
        while head is not None and needed > 0:
            kept.append(head)
            needed -= 1
            head = found.get(head.info.parent_id or "")
    return kept
