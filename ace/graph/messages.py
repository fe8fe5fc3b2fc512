"""LangChain's messages: a conversation out of them, and a run as messages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Any

from langchain_core.messages import (
    AIMessage,
    AIMessageChunk,
    AnyMessage,
    HumanMessage,
    ToolMessage,
    convert_to_messages,
)
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, LLMResult
from langchain_core.runnables import RunnableConfig
from langchain_core.runnables.config import get_async_callback_manager_for_config, get_callback_manager_for_config

from ace.agent.history import CALLS, message_groups
from ace.core import value_to_text
from ace.learner.trace_formats import field_of
from ace.react.history import HistoryReader
from ace.tasks import ReasoningStep, TaskOutput


def last_message(messages: Sequence[Any], asked: str, answer: str) -> tuple[str, tuple[dict[str, Any], ...]]:
    """Return what the user has asked last, and the turns before it.

    Where something was answered since (by another agent of the graph), that is the last of the turns.

    Args:
        messages: LangChain's, as objects or dicts.
        asked: The field of a turn for what the user says.
        answer: The field for what is answered.

    Raises:
        ValueError: No message is the user's.

    Examples:
        >>> from langchain_core.messages import AIMessage, HumanMessage
        >>> said = [HumanMessage("Hi"), AIMessage("Hello"), HumanMessage("Where is it?")]
        >>> request, (before,) = last_message(said, "task", "answer")
        >>> request, before["task"], before["answer"]
        ('Where is it?', 'Hi', 'Hello')
    """
    entries = HistoryReader([asked], [answer]).read(list(messages))
    turns = message_groups(entries)
    said = [index for index, turn in enumerate(turns) if turn[0].get(asked)]
    if not said:
        raise ValueError("the state's messages hold none of the user's; the agent needs one to answer")
    last = turns[said[-1]]
    if _kind(messages[-1]) in ("human", "user") and said[-1] != len(turns) - 1:
        raise ValueError("the user's last message is empty")
    waits = said[-1] == len(turns) - 1 and not any(answer in entry or CALLS in entry for entry in last)
    return last[0][asked], entries[: len(entries) - len(last)] if waits else entries


def instructions_of(messages: Sequence[Any]) -> str:
    """Return the text of the system messages: `instructions_of([SystemMessage("Be brief")])`."""
    found = [message for message in messages if _kind(message) in ("system", "developer")]
    return "\n\n".join(str(message.text) for message in convert_to_messages(found))


def _kind(message: Any) -> str:
    return str(field_of(message, "role") or field_of(message, "type") or "")


def as_messages(output: TaskOutput, sent: Mapping[str, str] | None = None) -> list[AnyMessage]:
    """Convert a run to messages: the calls of each decision, their results, and the answer.

    Args:
        output: The run.
        sent: Answers whose tokens were sent already, to the ids of their messages: the same answer keeps its id.
    """
    made: list[AnyMessage] = []
    for _, steps in groupby(output.structured_trace, key=lambda step: step.iteration):
        made += _decision(list(steps), output.run_id[-8:])
    usage = output.usage
    tokens = {"input_tokens": usage.input_tokens, "output_tokens": usage.output_tokens}
    text = f"No answer: {output.termination_reason}."
    if output.answer is not None:
        text = output.answer if isinstance(output.answer, str) else value_to_text(output.answer)
    last = AIMessage(text, id=(sent or {}).get(text))
    last.usage_metadata = {**tokens, "total_tokens": usage.input_tokens + usage.output_tokens}  # pyright: ignore
    return [*made, last]


def _decision(steps: Sequence[ReasoningStep], run: str) -> list[AnyMessage]:
    # ids count from one in each run, and a thread holds many runs
    calls, results = list[Any](), list[ToolMessage]()
    for step in steps:
        call_id, status = f"{run}-{step.tool_call_id}", "success" if step.outcome == "success" else "error"
        calls.append({"name": step.tool_name, "args": step.tool_args, "id": call_id})
        results.append(ToolMessage(step.observation, tool_call_id=call_id, name=step.tool_name, status=status))
    return [AIMessage(steps[0].thought, tool_calls=calls), *results]  # pyright: ignore[reportArgumentType]


class AnswerTokens:
    """Sends the answer's tokens to LangChain's callbacks, as those of a chat model: ``stream_mode="messages"`` shows them.

    Args:
        config: The node's.
        asked: The task.
        name: The agent's class.
    """

    def __init__(self, config: RunnableConfig | None, asked: str, name: str) -> None:
        self._config = config or {}
        self._request = asked
        self._name = name
        self._run: Any = None
        self._text = ""
        self.sent: dict[str, str] = {}
        """What was sent as an answer, to the id of its message."""

    def send(self, text: str) -> None:
        """Send one piece."""
        if self._run is None:
            manager = get_callback_manager_for_config(self._config)
            self._run = manager.on_chat_model_start({"name": self._name}, [[HumanMessage(self._request)]])[0]
        self._run.on_llm_new_token(text, chunk=self._chunk(text))

    def end(self) -> None:
        """End the answer, which is whole or was given up."""
        if self._run is not None:
            self._run.on_llm_end(self._whole())
            self._run = None

    async def asend(self, text: str) -> None:
        """Send a piece as `send` does, on the event loop."""
        if self._run is None:
            manager = get_async_callback_manager_for_config(self._config)
            self._run = (await manager.on_chat_model_start({"name": self._name}, [[HumanMessage(self._request)]]))[0]
        await self._run.on_llm_new_token(text, chunk=self._chunk(text))

    async def aend(self) -> None:
        """End the answer as `end` does, on the event loop."""
        if self._run is not None:
            await self._run.on_llm_end(self._whole())
            self._run = None

    def _chunk(self, text: str) -> ChatGenerationChunk:
        self._text += text
        return ChatGenerationChunk(message=AIMessageChunk(content=text, id=f"run-{self._run.run_id}"))

    def _whole(self) -> LLMResult:
        text, self._text = self._text, ""
        self.sent[text] = message_id = f"run-{self._run.run_id}"
        return LLMResult(generations=[[ChatGeneration(message=AIMessage(text, id=message_id))]])
