"""A wrapper around a saver: the session learns when the state was saved, and stops the graph when a save failed."""

from __future__ import annotations

from collections.abc import AsyncIterator, Generator, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, cast

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import (
    BaseCheckpointSaver,
    Checkpoint,
    CheckpointMetadata,
    CheckpointTuple,
)

from ace.graph.codec import JsonCodec, name_of
from ace.graph.errors import CheckpointError
from ace.graph.session import STEPS_KEY, Session, session_of


class WatchedSaver(BaseCheckpointSaver[Any]):
    """Passes every call on to another saver, and reports saves and their errors to the session.

    Args:
        inner: Any LangGraph saver.
    """

    def __init__(self, inner: BaseCheckpointSaver[Any]) -> None:
        super().__init__(serde=inner.serde)
        self.inner = inner

    @property
    def config_specs(self) -> list[Any]:
        """The inner saver's."""
        return self.inner.config_specs  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]

    def get_next_version(self, current: Any, channel: None) -> Any:
        """The inner saver's."""
        return self.inner.get_next_version(current, channel)

    def get_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """Read one checkpoint."""
        with _errors_mapped("read"):
            return self.inner.get_tuple(config)

    async def aget_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """Read one checkpoint."""
        with _errors_mapped("read"):
            return await self.inner.aget_tuple(config)

    def list(self, config: RunnableConfig | None, **options: Any) -> Iterator[CheckpointTuple]:
        """Read checkpoints."""
        with _errors_mapped("read"):
            yield from self.inner.list(config, **options)

    async def alist(self, config: RunnableConfig | None, **options: Any) -> AsyncIterator[CheckpointTuple]:
        """Read checkpoints."""
        with _errors_mapped("read"):
            async for one in self.inner.alist(config, **options):
                yield one

    def put(self, config: RunnableConfig, checkpoint: Checkpoint, metadata: Any, new_versions: Any) -> RunnableConfig:
        """Save a checkpoint, and report it."""
        metadata = _counted(config, metadata)
        with _errors_mapped("saved", session_of(config)):
            saved = self.inner.put(config, checkpoint, metadata, new_versions)
        _report_saved(config, checkpoint, metadata)
        return saved

    async def aput(
        self, config: RunnableConfig, checkpoint: Checkpoint, metadata: Any, new_versions: Any
    ) -> RunnableConfig:
        """Save a checkpoint, and report it."""
        metadata = _counted(config, metadata)
        with _errors_mapped("saved", session_of(config)):
            saved = await self.inner.aput(config, checkpoint, metadata, new_versions)
        _report_saved(config, checkpoint, metadata)
        return saved

    def put_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        """Save what a task wrote."""
        with _errors_mapped("saved", session_of(config)):
            self.inner.put_writes(config, writes, task_id, task_path)

    async def aput_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        """Save what a task wrote."""
        with _errors_mapped("saved", session_of(config)):
            await self.inner.aput_writes(config, writes, task_id, task_path)

    def get_delta_channel_history(self, **given: Any) -> Any:
        """The inner saver's."""
        return self.inner.get_delta_channel_history(**given)

    async def aget_delta_channel_history(self, **given: Any) -> Any:
        """The inner saver's."""
        return await self.inner.aget_delta_channel_history(**given)

    def with_allowlist(self, extra_allowlist: Any) -> WatchedSaver:
        """The inner saver's, in a `WatchedSaver`."""
        return WatchedSaver(self.inner.with_allowlist(extra_allowlist))


@contextmanager
def _errors_mapped(what: str, session: Session | None = None) -> Generator[None]:
    """Turn whatever a saver raises into a `CheckpointError`.

    The session keeps the error of a save, too: LangGraph looks at the result of a save only later.
    """
    try:
        yield
    except Exception as error:
        mapped = CheckpointError(f"the state could not be {what}: {type(error).__name__}: {error}")
        mapped = error if isinstance(error, CheckpointError) else mapped
        if session is not None and session.save_error is None:
            session.save_error = mapped
        if mapped is error:
            raise
        raise mapped from error


def _counted(config: RunnableConfig, metadata: CheckpointMetadata) -> CheckpointMetadata:
    """How many steps the run has taken, for the limit on them after a resume."""
    session = session_of(config)
    if session is None or config.get("configurable", {}).get("checkpoint_ns"):
        return metadata
    return cast(CheckpointMetadata, {**metadata, STEPS_KEY: session.taken_until(metadata.get("step", 0))})


def _report_saved(config: RunnableConfig, checkpoint: Checkpoint, metadata: CheckpointMetadata) -> None:
    if (session := session_of(config)) is not None:
        given = config.get("configurable", {})
        session.saved(given.get("checkpoint_ns", ""), checkpoint["id"], metadata)


def watched(saver: BaseCheckpointSaver[Any], classes: set[type]) -> WatchedSaver:
    """A saver that knows the state's classes, in a `WatchedSaver`."""
    if isinstance(saver.serde, JsonCodec):
        saver.serde.declare(classes)
    elif hasattr(saver.serde, "with_msgpack_allowlist"):
        # strict serialisers give back what they know, and a dict instead of what they do not
        saver = saver.with_allowlist([tuple(name_of(found).split(":")) for found in classes])
    return WatchedSaver(saver)
