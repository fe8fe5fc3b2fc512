"""`JsonlCheckpointer`: a LangGraph saver over files that a person can read.

Each thread has one file that only grows. A checkpoint is one line with the fields that it changed, so that a value that
stays the same is stored once; what the tasks of a step wrote has lines of its own. Each line begins with a checksum over
itself and the line before it. Reading is left to LangGraph's own saver in memory, which is filled from the file.
"""

from __future__ import annotations

import asyncio
import functools
import hashlib
import json
import logging
import os
import random
import re
import threading
import zlib
from collections.abc import AsyncIterator, Callable, Generator, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from types import CoroutineType, SimpleNamespace
from typing import Any, ParamSpec, TypeVar, cast

import orjson
from cachetools import LRUCache
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import (
    WRITES_IDX_MAP,
    BaseCheckpointSaver,
    ChannelVersions,
    Checkpoint,
    CheckpointMetadata,
    CheckpointTuple,
    get_serializable_checkpoint_metadata,
)
from langgraph.checkpoint.memory import InMemorySaver

from ace.core.durable import hold, sync_folder, write_all, write_atomic
from ace.graph.codec import JsonCodec, to_text
from ace.graph.errors import CheckpointError

P = ParamSpec("P")
T = TypeVar("T")
Record = dict[str, Any]
"""One line of a file."""
FORMAT = 2
TASK = "ace:"
"""How the names of our own tasks inside nodes begin."""
NODES_KEY = "ace_nodes"
"""The key in a checkpoint's metadata for the nodes of its step."""
TURN_KEY = "ace_turn"
"""The key for the call that began with an input."""
MAX_OPEN = 200
"""How many threads are kept in memory."""
_log = logging.getLogger(__name__)
_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9._-]+")
_HEAD = b'{"sum":"'
_BODY = len(_HEAD) + 8 + 2
"""Where the line's own fields begin, after ``{"sum":"01234567",``."""


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
    node: str = ""
    """The node that ran in this step; several are joined by commas."""


class Thread(InMemorySaver):
    """One thread: its file, and LangGraph's saver in memory with what stands there.

    For Linux and macOS: a file that is open is locked with `fcntl`, so that many threads and processes may append to it.
    """

    def __init__(self, path: Path, thread_id: str, codec: JsonCodec) -> None:
        super().__init__()  # pyright: ignore[reportUnknownMemberType]
        # LangGraph's saver in memory is filled from lines, whose values are read only when they are asked for
        self.serde = cast(Any, SimpleNamespace(loads_typed=lambda line: codec.decode(line[1])))  # pyright: ignore
        self.path, self.thread_id, self._codec = path, thread_id, codec
        self._named: Record = {"v": FORMAT, "thread": thread_id}
        self._lock = threading.RLock()
        self._forget()

    def _forget(self) -> None:
        for held in (self.storage, self.blobs, self.writes):
            held.clear()
        self._seen = (0, 0, 0)
        self._size = self._sum = self._count = 0

    # -- the file -----------------------------------------------------------------------------------------------------

    @contextmanager
    def opened(self, *, make: bool = False) -> Generator[int | None]:
        """Yield the file's descriptor, locked for this caller and read up to its end; None when it is not there.

        Raises:
            CheckpointError: It is damaged, or out of reach.
        """
        with self._lock:
            file = self._open(make)
            if file is None:
                self._forget()
                yield None
                return
            try:
                self._follow(file)
                yield file
            finally:
                os.close(file)  # this releases the lock

    def _open(self, make: bool) -> int | None:
        while True:
            try:
                file = os.open(self.path, os.O_RDWR | (os.O_CREAT if make else 0), 0o600)
            except FileNotFoundError:
                if not make:
                    return None
                raise CheckpointError(f"the folder {str(self.path.parent)!r} is gone; make it again") from None
            except OSError as error:
                raise CheckpointError(f"cannot open {str(self.path)!r}: {error.strerror}") from error
            if hold(file, self.path):
                return file

    def _follow(self, file: int) -> None:
        """Read what others have written since; a torn end is cut off."""
        if (now := _seen(file)) == self._seen:
            return
        if now[0] != self._seen[0] or now[1] <= self._size:
            self._forget()
        known = self._size
        try:
            self._read(file)
        except CheckpointError:
            self._forget()
            if not known:
                raise
            self._read(file)  # another file may be under the same number: that of a deleted one is given again
        self._seen = _seen(file)

    def _read(self, file: int) -> None:
        with open(file, "rb", closefd=False) as lines:
            lines.seek(self._size)
            for line in lines:
                if not line.endswith(b"\n"):
                    _log.warning("the last save to %s was torn when its process ended; it is cut off", self.path.name)
                    os.ftruncate(file, self._size)
                    return
                self._count += 1
                expected = zlib.crc32(line[_BODY:-1], self._sum)
                if line[:_BODY] != b'%s%08x",' % (_HEAD, expected):
                    raise CheckpointError(
                        f"{str(self.path)!r} is damaged: line {self._count} is not what was written, or one before it is "
                        "gone; restore the file from a copy, or delete it"
                    )
                self._take(cast(Record, json.loads(line)))
                self._sum = expected
                self._size += len(line)

    def append(self, record: Record) -> None:
        """Add a line; on return it is on the disk. When that fails, the file is as it was."""
        record = {**self._named, **record}
        body = _body(record)  # before the file is held: the other saves of a step wait for it
        with self.opened(make=True) as file:
            assert file is not None
            line, checksum = _sealed(body, self._sum)
            os.lseek(file, self._size, os.SEEK_SET)
            try:
                write_all(file, line)
                os.fsync(file)
                if not self._size:
                    sync_folder(self.path.parent)
            except BaseException as error:
                os.ftruncate(file, self._size)
                if isinstance(error, OSError):
                    raise CheckpointError(f"cannot write to {str(self.path)!r}: {error.strerror}") from error
                raise
            self._take(record)
            self._sum, self._size, self._count = checksum, self._size + len(line), self._count + 1
            self._seen = _seen(file)

    def replace(self, records: Iterator[Record]) -> None:
        """Put other lines in the place of all: a reader sees the old ones or the new ones. Call it while `opened`."""
        lines, checksum = list[bytes](), 0
        for record in records:
            line, checksum = _sealed(_body({**self._named, **record}), checksum)
            lines.append(line)
        write_atomic(self.path, b"".join(lines).decode(), power_cut=True, private=True)
        self._forget()

    # -- what stands in it --------------------------------------------------------------------------------------------

    def _take(self, record: Record) -> None:
        """Hold what a line says.

        Raises:
            CheckpointError: It belongs to another thread, or to another version of this library.
        """
        if (version := record.get("v", record.get("format"))) != FORMAT:
            raise CheckpointError(
                f"the thread {self.thread_id!r} was saved in the format {version!r}, expected {FORMAT}; read it with the "
                "version that wrote it"
            )
        if record["thread"] != self.thread_id:
            raise CheckpointError(
                f"the file of the thread {self.thread_id!r} holds {record['thread']!r}; was it renamed?"
            )
        ns, checkpoint_id = record["ns"], record["id"]
        if "writes" in record:
            known = self.writes[self.thread_id, ns, checkpoint_id]
            for number, channel, value in record["writes"]:
                key = (record["task"], number)
                if number < 0 or key not in known:  # what a task wrote stays; what it waits for may change
                    known[key] = (record["task"], channel, cast(Any, ("line", value)), record["path"])
            return
        for channel, (version, value) in record["values"].items():
            self.blobs[self.thread_id, ns, channel, version] = cast(Any, ("line", value))
        parts: Any = (("line", record["checkpoint"]), ("line", record["metadata"]), record["parent"])
        self.storage[self.thread_id][ns][checkpoint_id] = parts

    def infos(self, ns: str | None = None) -> Iterator[CheckpointInfo]:
        """Yield the checkpoints, newest first; of all namespaces when none is named."""
        for name, found in self.storage[self.thread_id].items():
            for checkpoint_id in sorted(found, reverse=True) if ns is None or name == ns else ():
                checkpoint, metadata, parent = self._parts(name, checkpoint_id)
                seen: dict[str, Any] = checkpoint["versions_seen"]
                before: dict[str, Any] = self._parts(name, parent)[0]["versions_seen"] if parent in found else {}
                ran: set[str] = {*metadata.get(NODES_KEY, ())}
                if parent is None or parent in found:
                    ran |= {node for node in seen if seen[node] != before.get(node)}
                yield CheckpointInfo(
                    thread_id=self.thread_id,
                    checkpoint_id=checkpoint_id,
                    checkpoint_ns=name,
                    parent_id=parent,
                    step=metadata.get("step", 0),
                    source=metadata.get("source", ""),
                    created_at=checkpoint.get("ts", ""),
                    run_id=metadata.get("run_id"),
                    node=", ".join(node for node in sorted(ran) if not node.startswith(("__", TASK))),
                )

    def _parts(self, ns: str, checkpoint_id: Any) -> tuple[Record, Record, str | None]:
        """Return a checkpoint and its metadata as they stand in the file, and its parent."""
        checkpoint, metadata, parent = cast(Any, self.storage[self.thread_id][ns][checkpoint_id])
        return checkpoint[1], metadata[1], parent

    def records(self, kept: Callable[[CheckpointInfo], bool]) -> Iterator[Record]:
        """Yield the lines of some checkpoints, oldest first; each value that they need once."""
        written = set[tuple[Any, ...]]()
        for info in reversed([info for info in self.infos() if kept(info)]):
            ns, name = info.checkpoint_ns, info.checkpoint_id
            checkpoint, metadata, parent = self._parts(ns, name)
            values = Record()
            for channel, version in self._codec.decode(checkpoint["channel_versions"]).items():
                key = (self.thread_id, ns, channel, version)
                if key in self.blobs and key not in written:
                    written.add(key)
                    values[channel] = [version, self.blobs[key][1]]
            head: Record = {"ns": ns, "id": name}
            yield head | {"parent": parent, "values": values, "checkpoint": checkpoint, "metadata": metadata}
            for (task, number), (_, channel, value, path) in self.writes[self.thread_id, ns, name].items():
                yield head | {"task": task, "path": path, "writes": [[number, channel, value[1]]]}

    def latest(self) -> set[tuple[str, str]]:
        """Return each namespace's newest checkpoint, and before it what its delta channels are rebuilt from."""
        kept = set[tuple[str, str]]()
        for ns, found in self.storage[self.thread_id].items():
            head: str | None = max(found, default=None)
            counters = self._parts(ns, head)[1].get("counters_since_delta_snapshot") if head else None
            steps: list[int] = [self._codec.decode(counter)[1] for counter in cast(Record, counters or {}).values()]
            for _ in range(1 + max(steps, default=0)):
                if head is not None and head in found:
                    kept.add((ns, head))
                    head = self._parts(ns, head)[2]
        return kept


def _in_thread(method: Callable[P, T]) -> Callable[P, CoroutineType[Any, Any, T]]:
    @functools.wraps(method)
    async def call(*args: P.args, **kwargs: P.kwargs) -> T:
        # by its name: a subclass may have a method of its own
        return await asyncio.to_thread(getattr(args[0], method.__name__), *args[1:], **kwargs)

    return call


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
        self.codec = JsonCodec(classes)
        super().__init__(serde=self.codec)
        self.folder = Path(folder)
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise CheckpointError(f"cannot make the folder {str(folder)!r}: {error.strerror}") from error
        self._threads: LRUCache[str, Thread] = LRUCache(MAX_OPEN)
        self._lock = threading.Lock()

    def path_of(self, thread_id: str) -> Path:
        """Return the file of a thread: as much of its id as a file's name may hold, and a digest that tells ids apart."""
        shown = _NOT_IN_NAMES.sub("_", thread_id)[:60].strip(".") or "thread"
        return (
            self.folder / f"{shown}-{hashlib.sha256(thread_id.encode('utf-8', 'surrogatepass')).hexdigest()[:16]}.jsonl"
        )

    def threads(self) -> list[str]:
        """List the ids of all threads, in the order of their files' names."""
        found: list[str] = []
        for path in sorted(self.folder.glob("*.jsonl")):
            with suppress(FileNotFoundError), path.open("rb") as file:  # somebody may just have deleted it
                line = file.readline()
                try:
                    found.append(str(json.loads(line)["thread"]))
                except (ValueError, KeyError, TypeError) as error:
                    if line.endswith(b"\n"):  # otherwise it was torn before anything was saved
                        raise CheckpointError(
                            f"{str(path)!r} is damaged: line 1 names no thread; restore or delete it"
                        ) from error
        return found

    def _thread(self, thread_id: str) -> Thread:
        with self._lock:
            if thread_id not in self._threads:
                self._threads[thread_id] = Thread(self.path_of(thread_id), thread_id, self.codec)
            return self._threads[thread_id]

    # -- saving and reading -------------------------------------------------------------------------------------------

    def put(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        """Save a checkpoint with the fields that changed."""
        given, values = _named(config), checkpoint["channel_values"]
        changed = {name: version for name, version in new_versions.items() if name in values}
        record: Record = {
            "ns": given.get("checkpoint_ns", ""),
            "id": checkpoint["id"],
            "parent": given.get("checkpoint_id"),
            "values": {n: [version, self.codec.encode(values[n], f"state.{n}")] for n, version in changed.items()},
            "checkpoint": self.codec.encode({k: v for k, v in checkpoint.items() if k != "channel_values"}),
            "metadata": self.codec.encode(get_serializable_checkpoint_metadata(config, metadata), "metadata"),
        }
        self._thread(given["thread_id"]).append(record)
        saved = {"thread_id": given["thread_id"], "checkpoint_ns": record["ns"], "checkpoint_id": record["id"]}
        return {"configurable": saved}

    def put_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        """Save what a task wrote in a step that is not over."""
        given = _named(config)
        numbered = [
            [WRITES_IDX_MAP.get(name, number), name, self.codec.encode(value, f"state.{name}")]
            for number, (name, value) in enumerate(writes)
        ]
        head: Record = {"ns": given.get("checkpoint_ns", ""), "id": given.get("checkpoint_id")}
        record = head | {"task": task_id, "path": task_path, "writes": numbered}
        self._thread(given["thread_id"]).append(record)

    def get_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """Return one checkpoint with its state: the one that is named, or the newest."""
        given = _named(config)
        thread = self._thread(given["thread_id"])
        with thread.opened():
            return thread.get_tuple({"configurable": given})

    def list(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> Iterator[CheckpointTuple]:
        """Yield checkpoints with their states, newest first."""
        given = config.get("configurable", {}) if config else {}
        for thread_id in [str(given["thread_id"])] if "thread_id" in given else self.threads():
            thread = self._thread(thread_id)
            asked: RunnableConfig = {"configurable": {**given, "thread_id": thread_id}}
            with thread.opened():
                found = [*thread.list(asked, filter=filter, before=before, limit=limit)]
            limit = None if limit is None else limit - len(found)
            yield from found  # not while the file is held: a reader may take its time

    def history(self, thread_id: str, checkpoint_ns: str | None = "") -> Sequence[CheckpointInfo]:
        """Return what was saved, newest first, without reading a state.

        Args:
            thread_id: The thread.
            checkpoint_ns: Of a graph inside a node; None for all.
        """
        thread = self._thread(thread_id)
        with thread.opened():
            return [*thread.infos(checkpoint_ns)]

    # -- maintenance --------------------------------------------------------------------------------------------------

    def delete_thread(self, thread_id: str) -> None:
        """Delete a thread's file."""
        thread = self._thread(thread_id)
        with thread.opened() as file:
            if file is not None:
                thread.path.unlink(missing_ok=True)
                sync_folder(self.folder)

    def delete_for_runs(self, run_ids: Sequence[str]) -> None:
        """Delete the checkpoints of these runs, with their writes, from every thread."""
        for thread_id in self.threads() if run_ids else ():
            self._keep(thread_id, lambda info: info.run_id not in run_ids)

    def copy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        """Copy a thread with its whole history.

        Raises:
            CheckpointError: The target is there already: its history would be mixed with the copy's.
        """
        source, target = self._thread(source_thread_id), self._thread(target_thread_id)
        with source.opened() as file:
            records = [*source.records(lambda info: True)] if file is not None else []
        with target.opened(make=bool(records)):
            if any(target.storage[target_thread_id].values()):
                raise CheckpointError(
                    f"the thread {target_thread_id!r} is there already; delete it, or copy to another"
                )
            if records:
                target.replace(iter(records))  # all of it or nothing

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
                self._keep(thread_id, None)

    def _keep(self, thread_id: str, kept: Callable[[CheckpointInfo], bool] | None) -> None:
        """Write a thread's file again with some of its checkpoints; the latest ones by default."""
        thread = self._thread(thread_id)
        with thread.opened() as file:
            if file is not None:
                latest = thread.latest()
                thread.replace(
                    thread.records(kept or (lambda info: (info.checkpoint_ns, info.checkpoint_id) in latest))
                )

    # -- what LangGraph calls -----------------------------------------------------------------------------------------

    def get_next_version(self, current: str | None, channel: None) -> str:
        """Return a version that no other branch of the thread's history gives."""
        number = int(current.split(".")[0]) + 1 if current else 1
        return f"{number:010}.{random.getrandbits(32):08x}"

    def with_allowlist(self, extra_allowlist: Any) -> JsonlCheckpointer:
        """Return itself: classes are declared, see `JsonCodec.declare`."""
        return self

    # the same without blocking the event loop: each call in a thread
    aput = _in_thread(put)
    aput_writes = _in_thread(put_writes)
    aget_tuple = _in_thread(get_tuple)
    adelete_thread = _in_thread(delete_thread)
    adelete_for_runs = _in_thread(delete_for_runs)
    acopy_thread = _in_thread(copy_thread)
    aprune = _in_thread(prune)

    async def alist(self, config: RunnableConfig | None, **options: Any) -> AsyncIterator[CheckpointTuple]:
        """Yield what `list` does, one checkpoint at a time."""
        found = self.list(config, **options)
        while (one := await asyncio.to_thread(next, found, None)) is not None:
            yield one


def _seen(file: int) -> tuple[int, int, int]:
    now = os.fstat(file)
    return now.st_ino, now.st_size, now.st_mtime_ns


def _body(record: Record) -> bytes:
    """Return a line without its checksum."""
    try:
        return orjson.dumps(record)[1:]
    except TypeError:  # numbers above 64 bits, halves of surrogate pairs, very deep values
        return to_text(record)[1:].encode()


def _sealed(body: bytes, checksum: int) -> tuple[bytes, int]:
    """Return a line with its checksum, which rests on the line before."""
    checksum = zlib.crc32(body, checksum)
    return b'%s%08x",%s\n' % (_HEAD, checksum, body), checksum


def _named(config: RunnableConfig) -> dict[str, Any]:
    given = config.get("configurable", {})
    if "thread_id" not in given:
        raise CheckpointError("a saved graph belongs to a thread; pass config={'configurable': {'thread_id': ...}}")
    return {**given, "thread_id": str(given["thread_id"])}
