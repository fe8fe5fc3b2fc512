"""A wrapper around a saver: the session learns when the state was saved, and stops the graph when a save failed."""

from __future__ import annotations

from collections.abc import AsyncIterator, Generator, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, cast

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import BaseCheckpointSaver, CheckpointTuple

from ace.graph.codec import JsonCodec, name_of
from ace.graph.errors import CheckpointError
from ace.graph.jsonl import NODES_KEY, TURN_KEY
from ace.graph.session import STEPS_KEY, session_of


@contextmanager
def _watched(what: str, given: tuple[Any, ...]) -> Generator[tuple[Any, ...]]:
    """Prepare a call of a saver and report it; whatever it raises becomes a `CheckpointError`.

    The session keeps the error of a save, too: LangGraph looks at the result of a save only later.
    """
    config: RunnableConfig = (given[0] if given else None) or {}
    session, inner = session_of(config), config.get("configurable", {})
    checkpoint, metadata = cast("Sequence[dict[str, Any]]", given[1:3] if what == "put" else ({}, {}))
    if what == "put" and session is not None and not inner.get("checkpoint_ns"):
        # how many steps the run has taken, for the limit on them after a resume, and the nodes of this one
        step = metadata.get("step", 0)
        metadata = {
            **metadata,
            STEPS_KEY: session.taken_until(step),
            NODES_KEY: session.nodes_of(step),
            TURN_KEY: session.turn,
        }
        given = (config, checkpoint, metadata, *given[3:])
    try:
        yield given
    except Exception as error:
        done = "read" if what == "read" else "saved"
        mapped = CheckpointError(f"the state could not be {done}: {type(error).__name__}: {error}")
        mapped = error if isinstance(error, CheckpointError) else mapped
        if session is not None and done == "saved" and session.save_error is None:
            session.save_error = mapped
        if mapped is error:
            raise
        raise mapped from error
    if what == "put" and session is not None:
        data = {"checkpoint_id": checkpoint["id"], "checkpoint_ns": inner.get("checkpoint_ns", "")}
        data["source"] = metadata.get("source", "")
        session.emit("checkpoint_saved", step=metadata.get("step", 0), data=data)


def _sync(name: str, what: str) -> Any:
    def call(self: WatchedSaver, *given: Any, **options: Any) -> Any:
        with _watched(what, given) as prepared:
            return getattr(self.inner, name)(*prepared, **options)

    return call


def _async(name: str, what: str) -> Any:
    async def call(self: WatchedSaver, *given: Any, **options: Any) -> Any:
        with _watched(what, given) as prepared:
            return await getattr(self.inner, name)(*prepared, **options)

    return call


class WatchedSaver(BaseCheckpointSaver[Any]):
    """Passes every call on to another saver, and reports saves and their errors to the session.

    Args:
        inner: Any LangGraph saver.
    """

    def __init__(self, inner: BaseCheckpointSaver[Any]) -> None:
        super().__init__(serde=inner.serde)
        self.inner: Any = inner

    @property
    def config_specs(self) -> list[Any]:
        """The inner saver's."""
        return self.inner.config_specs

    def get_next_version(self, current: Any, channel: None) -> Any:
        """Return the inner saver's."""
        return self.inner.get_next_version(current, channel)

    get_tuple = _sync("get_tuple", "read")
    aget_tuple = _async("aget_tuple", "read")
    get_delta_channel_history = _sync("get_delta_channel_history", "read")
    aget_delta_channel_history = _async("aget_delta_channel_history", "read")
    put = _sync("put", "put")
    aput = _async("aput", "put")
    put_writes = _sync("put_writes", "put_writes")
    aput_writes = _async("aput_writes", "put_writes")

    def list(self, config: RunnableConfig | None, **options: Any) -> Iterator[CheckpointTuple]:
        """Read checkpoints."""
        with _watched("read", ()):
            yield from self.inner.list(config, **options)

    async def alist(self, config: RunnableConfig | None, **options: Any) -> AsyncIterator[CheckpointTuple]:
        """Read checkpoints."""
        with _watched("read", ()):
            async for one in self.inner.alist(config, **options):
                yield one

    def with_allowlist(self, extra_allowlist: Any) -> WatchedSaver:
        """Return the inner saver's, in a `WatchedSaver`."""
        return WatchedSaver(self.inner.with_allowlist(extra_allowlist))


def watched(saver: BaseCheckpointSaver[Any], classes: set[type]) -> WatchedSaver:
    """Return a saver that knows the state's classes, in a `WatchedSaver`."""
    if isinstance(saver.serde, JsonCodec):
        saver.serde.declare(classes)
    elif hasattr(saver.serde, "with_msgpack_allowlist"):
        # strict serialisers give back what they know, and a dict instead of what they do not
        saver = saver.with_allowlist([tuple(name_of(found).split(":")) for found in classes])
    return WatchedSaver(saver)
