"""LangChain's messages: a conversation out of them, and a run as messages."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import Any

from langchain_core.messages import AIMessage, AIMessageChunk, AnyMessage, HumanMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, LLMResult
from langchain_core.runnables import RunnableConfig
from langchain_core.runnables.config import get_callback_manager_for_config

from ace.core import value_to_text
from ace.react.history import HistoryReader
from ace.tasks import ReasoningStep, TaskOutput


def last_message(messages: Sequence[Any], asked: str, answer: str) -> tuple[str, tuple[dict[str, Any], ...]]:
    """What the user has asked last, and the turns before it.

    Where something was answered since (by another agent of the graph), that is the last of the turns.

    Args:
        messages: LangChain's, as objects or dicts.
        asked: The field of a turn for what the user says.
        answer: The field for what is answered.

    Raises:
        ValueError: No message is the user's.

    Example:
        >>> from langchain_core.messages import AIMessage, HumanMessage
        >>> last_message([HumanMessage("Hi"), AIMessage("Hello"), HumanMessage("Where is it?")], "task", "answer")
        ('Where is it?', ({'task': 'Hi', 'answer': 'Hello', 'trajectory': {}},))
    """
    turns = HistoryReader([asked], [answer]).read(list(messages))
    said = [index for index, turn in enumerate(turns) if turn.get(asked)]
    if not said:
        raise ValueError("the state's messages hold none of the user's; the agent needs one to answer")
    last = turns[said[-1]]
    waits = said[-1] == len(turns) - 1 and answer not in last and not last["trajectory"]
    return last[asked], turns[:-1] if waits else turns


def as_messages(output: TaskOutput, answer_id: str | None = None) -> list[AnyMessage]:
    """A run as messages: the calls of each decision, their results, and the answer.

    Args:
        output: The run.
        answer_id: The id of the last message, where its tokens were sent already.
    """
    made: list[AnyMessage] = []
    for _, steps in groupby(output.structured_trace, key=lambda step: step.iteration):
        made += _decision(list(steps), output.run_id[-8:])
    usage = output.usage
    tokens = {"input_tokens": usage.input_tokens, "output_tokens": usage.output_tokens}
    text = value_to_text(output.answer) if output.answer is not None else f"No answer: {output.termination_reason}."
    last = AIMessage(text, id=answer_id)
    last.usage_metadata = {**tokens, "total_tokens": usage.input_tokens + usage.output_tokens}  # pyright: ignore
    return [*made, last]


def _decision(steps: Sequence[ReasoningStep], run: str) -> list[AnyMessage]:
    # ids count from one in each run, and a thread holds many runs
    names = [f"{run}-{step.tool_call_id}" for step in steps]
    calls = [{"name": s.tool_name, "args": s.tool_args, "id": name} for s, name in zip(steps, names, strict=True)]
    results = [
        ToolMessage(
            step.observation,
            tool_call_id=name,
            name=step.tool_name,
            status="success" if step.outcome == "success" else "error",
        )
        for step, name in zip(steps, names, strict=True)
    ]
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
        self._asked = asked
        self._name = name
        self._run: Any = None
        self._text = ""
        self.message_id: str | None = None
        """Of the last answer that was sent."""

    def send(self, text: str) -> None:
        """One piece."""
        if self._run is None:
            manager = get_callback_manager_for_config(self._config)
            self._run = manager.on_chat_model_start({"name": self._name}, [[HumanMessage(self._asked)]])[0]
            self._text, self.message_id = "", f"run-{self._run.run_id}"
        self._text += text
        chunk = ChatGenerationChunk(message=AIMessageChunk(content=text, id=self.message_id))
        self._run.on_llm_new_token(text, chunk=chunk)

    def end(self) -> None:
        """The answer is whole, or was given up."""
        if self._run is not None:
            message = AIMessage(self._text, id=self.message_id)
            self._run.on_llm_end(LLMResult(generations=[[ChatGeneration(message=message)]]))
            self._run = None
