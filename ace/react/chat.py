"""`Chat`: a conversation that keeps its own history."""

from __future__ import annotations

import re
import threading
import uuid
from collections.abc import Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import dspy

from ace.agent import ResumeDecision
from ace.agent.history import message_groups
from ace.agent.record import RunSnapshot
from ace.agent.states import Completed, Failed
from ace.agent.streaming import AsyncRunStream, RunStream
from ace.core import CancellationToken, Event, ResumeError, RunStoreError, SignatureError
from ace.react.prediction import ReActPrediction
from ace.tasks import Feedback, TaskOutput, run_of

if TYPE_CHECKING:
    from ace.learner import LearningReport

_NAME = re.compile(r"[A-Za-z0-9_-]{1,100}")


class Chat:
    """A conversation with an agent, `agent.chat()`: each message knows the ones before, with their calls and results.

    An agent with a `run_store` keeps every step of every message on the disk: `agent.chat(chat.id)` opens the conversation
    in another process, and `resume` goes on with a message that was cut off. A chat answers one message at a time.

    Args:
        agent: A `ReActGenerator`.
        chat_id: Of a conversation that is in the run store, or a name for a new one.
        **options: For each message, as `forward` takes them: `domain`, `tenant`, `user`, `max_iters`, `lm`, `limits` ...

    Attributes:
        id: The conversation's name; its messages are the runs ``ID-0``, ``ID-1`` ...
        waiting: The run of a message that has no answer yet, because it waits for a decision or was cut off; or None.

    Raises:
        RunStoreError: The id holds other characters than letters, digits, ``-`` and ``_``.

    Examples:
        >>> from ace import ReActGenerator
        >>> from ace.testing import ScriptedLM, decision
        >>> lm = ScriptedLM([decision("submit", answer="At home"), decision("submit", answer="At the depot")])
        >>> chat = ReActGenerator(tools=[], lm=lm).chat()
        >>> chat.send("Where is Ana's order?").answer, chat.send("And Ben's?").answer, len(chat)
        ('At home', 'At the depot', 2)
    """

    def __init__(self, agent: Any, chat_id: str | None = None, **options: Any) -> None:
        self.agent = agent
        self.id = chat_id or f"chat-{uuid.uuid4().hex[:12]}"
        if not _NAME.fullmatch(self.id):
            raise RunStoreError(f"a chat's id holds up to 100 letters, digits, '-' and '_', got {self.id!r}")
        self.waiting: str | None = None
        self._options = options
        self._entries: tuple[dict[str, Any], ...] = ()
        self._outputs: dict[int, TaskOutput] = {}
        self._busy = threading.Lock()
        self._read()

    def __len__(self) -> int:
        """Count the messages that were answered, or given up."""
        return len(message_groups(self._entries))

    def __repr__(self) -> str:
        return f"Chat({self.id!r}, {len(self)} messages{', one waits' if self.waiting else ''})"

    @property
    def history(self) -> dspy.History:
        """The conversation so far; `forward(history=...)` of any agent takes it, and it is JSON."""
        return dspy.History(messages=[dict(entry) for entry in self._entries])

    # -- messages ----------------------------------------------------------------------------------------------------

    def send(self, message: str | None = None, /, **fields: Any) -> ReActPrediction:
        """Say something, and wait for the answer.

        Args:
            message: The text of the signature's only input field.
            **fields: As for `ReActGenerator.forward`.

        Raises:
            ResumeError: The message before waits, see `waiting`; or another thread is sending one.
        """
        with self._one_at_a_time():
            said, given = self._given(message, fields)
            return self._taken(self.agent.forward(*said, **given))

    async def asend(self, message: str | None = None, /, **fields: Any) -> ReActPrediction:
        """Send a message as `send` does, for async callers."""
        with self._one_at_a_time():
            said, given = self._given(message, fields)
            return self._taken(await self.agent.acall(*said, **given))

    def stream(self, message: str | None = None, /, **fields: Any) -> RunStream[Event, ReActPrediction]:
        """Say something, and get the events as they happen; ``stream.output`` is what `send` returns.

        Examples:
            >>> from ace import ReActGenerator
            >>> from ace.testing import ScriptedLM, decision
            >>> chat = ReActGenerator(tools=[], lm=ScriptedLM([decision("submit", answer="42")])).chat()
            >>> with chat.stream("What is 6 times 7?") as stream:
            ...     print("".join(event.data.get("answer", "") for event in stream))
            42
            >>> stream.output.answer
            '42'
        """
        stream: AsyncRunStream[Event, ReActPrediction] = self.astream(message, **fields)
        return RunStream[Event, ReActPrediction].of(stream)

    def astream(self, message: str | None = None, /, **fields: Any) -> AsyncRunStream[Event, ReActPrediction]:
        """Send a message as `stream` does, for async callers."""
        token = fields.pop("cancellation", None) or CancellationToken()

        async def start(listener: Any) -> ReActPrediction:
            with self._one_at_a_time():
                said, given = self._given(message, fields)
                given["cancellation"] = token
                return self._taken(await self.agent.apredict(*said, listener=listener, **given))

        return AsyncRunStream(start, token)

    def resume(self, decision: ResumeDecision | None = None) -> ReActPrediction:
        """Go on with the message that waits: it was cut off with its process, cancelled, or needs a decision.

        Args:
            decision: ``"approve"``, ``"deny"`` and so on, as for `ReActGenerator.resume`.

        Raises:
            ResumeError: No message waits; or a decision is missing or not needed.
        """
        with self._one_at_a_time(resumes=True):
            return self._taken(self.agent.resume(self._waiting(), decision, lm=self._options.get("lm")))

    async def aresume(self, decision: ResumeDecision | None = None) -> ReActPrediction:
        """Resume as `resume` does, for async callers."""
        with self._one_at_a_time(resumes=True):
            return self._taken(await self.agent.aresume(self._waiting(), decision, lm=self._options.get("lm")))

    def drop(self) -> None:
        """Give up the message that waits: it stays in the history, without an answer.

        Raises:
            ResumeError: No message waits.
        """
        store = self.agent.run_store
        with self._one_at_a_time(resumes=True), store.claim(self._waiting()):
            stored: RunSnapshot = store.load(self._waiting())
            given_up = Failed("interrupted", "the message was given up")
            store.save(stored.model_copy(update={"state": given_up}))
            self._take_up(stored.run_id)

    # -- learning ------------------------------------------------------------------------------------------------------

    def learn(
        self, success: Feedback | bool | float | None = None, message: int | None = None, *, group: str = ""
    ) -> LearningReport:
        """Learn from a message: `chat.learn(False, message=0)`.

        It is learned as a task of its own, with the words that it needs from earlier messages.

        Args:
            success: As for `ReActGenerator.learn`.
            message: Which, from 0; the last one by default, and -1 is the last as well.
            group: The task's family.

        Raises:
            ValueError: There is no such message, or the agent has no playbook.
        """
        count = len(self)
        number = count - 1 if message is None else message + count if message < 0 else message
        if not 0 <= number < count:
            raise ValueError(f"there is no message {message!r}; the chat has {count}, counted from 0")
        if number in self._outputs:
            return self.agent.learn(self._outputs[number], success, group=group)
        store, run_id = self.agent.run_store, f"{self.id}-{number}"
        if store.has(run_id):
            return self.agent.learn(self.agent.output_of(store.load(run_id)), success, group=group)
        raise ValueError(f"the run of message {number} is not there any more; give the agent a run_store")

    # -- internals ---------------------------------------------------------------------------------------------------

    def _read(self) -> None:
        """Take up a conversation that is in the run store."""
        store = self.agent.run_store
        names = (name for name in getattr(store, "run_ids", tuple)() if name.startswith(f"{self.id}-"))
        numbers = [int(end) for name in names if (end := name.removeprefix(f"{self.id}-")).isdigit()]
        if numbers or store.has(f"{self.id}-0"):
            self._take_up(f"{self.id}-{max(numbers, default=0)}")

    def _take_up(self, run_id: str) -> None:
        """Take up the conversation up to a run that is in the store."""
        stored: RunSnapshot = self.agent.run_store.load(run_id)
        if isinstance(stored.state, (Completed, Failed)):
            self._entries, self.waiting = self.agent.history_of(stored), None
        else:
            self._entries, self.waiting = stored.task.history, run_id

    @contextmanager
    def _one_at_a_time(self, resumes: bool = False) -> Generator[None]:
        if not self._busy.acquire(blocking=False):
            raise ResumeError("this chat is answering a message; wait until it is done, or begin another chat")
        try:
            if self.waiting is not None and not resumes:
                raise ResumeError(f"message {len(self)} waits for its answer; chat.resume(...) goes on with it")
            yield
        except BaseException:  # Ctrl-C and the like: what the run store has of this message waits to be resumed
            if self.agent.run_store.has(f"{self.id}-{len(self)}"):
                self._take_up(f"{self.id}-{len(self)}")
            raise
        finally:
            self._busy.release()

    def _waiting(self) -> str:
        if self.waiting is None:
            raise ResumeError("no message of this chat waits; send one")
        return self.waiting

    def _given(self, message: str | None, fields: dict[str, Any]) -> tuple[tuple[str, ...], dict[str, Any]]:
        """Return what a message hands to the agent."""
        if message is None and not fields:
            raise SignatureError("a message says something; expected the input fields by name, or its text")
        run_id = f"{self.id}-{len(self)}"
        if self.agent.run_store.has(run_id):
            raise ResumeError(
                f"the conversation {self.id!r} went on elsewhere; open it again with agent.chat({self.id!r})"
            )
        said = () if message is None else (message,)
        return said, {**self._options, **fields, "history": self._entries, "run_id": run_id}

    def _taken(self, prediction: ReActPrediction) -> ReActPrediction:
        """Keep what came of a message."""
        output = run_of(prediction)
        if output.termination_reason == "interrupted":
            self.waiting = output.run_id
            return prediction
        self.waiting = None
        self._outputs[len(self)] = output
        self._entries = self.agent.entries_of(prediction.history)
        return prediction
