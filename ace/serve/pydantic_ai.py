"""A playbook in a Pydantic AI agent: ``Agent(model, capabilities=[PlaybookMemory(SharedMemory(book))])``."""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from typing import Any, cast

from pydantic_ai.agent import AgentRunResult
from pydantic_ai.capabilities import AbstractCapability
from pydantic_ai.messages import ModelMessage, ModelMessagesTypeAdapter, ToolReturnPart, UserPromptPart
from pydantic_ai.tools import RunContext

from ace.core import PlaybookError
from ace.serve.shared_memory import Remembered, SharedMemory

_log = logging.getLogger(__name__)
_OUTPUT = "the output of the run"
HEADING = "Lessons from earlier runs, as data; follow one that fits the task:"


@dataclass
class PlaybookMemory(AbstractCapability[Any]):
    """Shows an agent the lessons for its task, and learns from its runs.

    The lessons are looked up once for a run, and stand in its instructions. A memory is a help and never a condition: where
    it cannot be read or written, the run goes on, and a warning says so.

    Args:
        memory: The playbook.
        verdict: Whether a run did what it should, from its result; None when that is not known yet. It may be async.
            Without a verdict nothing is learned: call `learn` when you know.
        domain: Of the agent's tasks.
        read_only_tools: Tools that change nothing.

    Examples:
        >>> from ace.playbook import CallableEmbedder, Playbook
        >>> toy = CallableEmbedder("toy", lambda texts: [[len(t), 1.0] for t in texts])
        >>> PlaybookMemory(SharedMemory(Playbook(embedder=toy)), domain="shop").domain
        'shop'
    """

    memory: SharedMemory
    verdict: Callable[[AgentRunResult[Any]], bool | Awaitable[bool | None] | None] | None = None
    _: KW_ONLY
    domain: str | None = None
    read_only_tools: Sequence[str] = ()
    _shown: str | None = field(default=None, init=False, repr=False)

    async def for_run(self, ctx: RunContext[Any]) -> AbstractCapability[Any]:
        """Copy it, to look up the lessons of a run of its own."""
        return replace(self)

    def get_instructions(self) -> Any:
        """Return the lessons for the run's task, the same for each of its requests."""

        async def lessons(ctx: RunContext[Any]) -> str:
            if self._shown is None:
                # a run that goes on from a history, as after an approval, is given no words of its own
                asked = ctx.prompt or [part.content for part in _prompts(_from_task(ctx.messages)[:1])]
                self._shown = await asyncio.to_thread(self._lessons, asked)
            return self._shown

        return lessons

    async def after_run(self, ctx: RunContext[Any], *, result: AgentRunResult[Any]) -> AgentRunResult[Any]:
        """Learn from the run, where the verdict is known."""
        try:
            success = None if self.verdict is None else self.verdict(result)
            if inspect.isawaitable(success):
                success = await success
            if success is not None:
                await asyncio.to_thread(self.learn, result, success)
        except PlaybookError as error:
            _log.warning("the run was not learned from: %s", error)
        except Exception:  # a verdict, or a store of somebody else's, may raise anything: the run is done and paid for
            _log.warning("the run was not learned from", exc_info=True)
        return result

    def learn(self, result: AgentRunResult[Any], success: bool, note: str = "") -> Remembered:
        """Learn from a run's own messages, `memory.learn(agent.run_sync("Refund order 17"), success=True)`.

        A run that goes on from a history without words of its own is read from the user's last words on.

        Args:
            result: Of the run.
            success: Whether it did what it should.
            note: What went wrong, in words.

        Raises:
            PlaybookError: The book cannot be written, or `success` is neither True nor False.
        """
        if success not in (True, False):
            raise PlaybookError(f"the verdict is {success!r}, expected True or False")
        # instructions hold the lessons that were shown: they are nobody's words in this run
        own = result.new_messages()
        own = own if _prompts(own) else _from_task(result.all_messages())
        said = [replace(m, instructions=None) if hasattr(m, "instructions") else m for m in own]
        messages = _with_answer(ModelMessagesTypeAdapter.dump_python(said, mode="json"), _output_tool(result))
        return self.memory.remember(
            messages, bool(success), domain=self.domain, read_only_tools=self.read_only_tools, note=note
        )

    def _lessons(self, prompt: object) -> str:
        task = "\n".join(_texts(prompt))
        if not task.strip():
            return ""
        shown = ""
        try:
            shown = self.memory.recall(task, self.domain).prompt
        except PlaybookError as error:
            _log.warning("the playbook cannot be read, and the run goes on without it: %s", error)
        except Exception:  # as above: an embedder or a store of somebody else's
            _log.warning("the playbook cannot be read, and the run goes on without it", exc_info=True)
        return f"{HEADING}\n{shown}" if shown else ""


def _prompts(messages: Sequence[ModelMessage]) -> list[UserPromptPart]:
    return [part for message in messages for part in message.parts if isinstance(part, UserPromptPart)]


def _from_task(messages: Sequence[ModelMessage]) -> Sequence[ModelMessage]:
    """Return the messages from the user's last words on; all where there are none."""
    return messages[max((n for n, message in enumerate(messages) if _prompts([message])), default=0) :]


def _output_tool(result: AgentRunResult[Any]) -> str | None:
    """Name the tool by which the model gave the output; None where it was no tool.

    A result tells it only by letting the answer of that tool be replaced.
    """
    try:
        *_, last = result.all_messages(output_tool_return_content=_OUTPUT)
    except (ValueError, LookupError):
        return None
    return next(
        (part.tool_name for part in last.parts if isinstance(part, ToolReturnPart) and part.content == _OUTPUT), None
    )


def _with_answer(messages: list[dict[str, Any]], tool: str | None) -> list[dict[str, Any]]:
    """Return messages in which what was said by the output tool is the answer, and no call of the plan."""

    def read(part: dict[str, Any]) -> Iterator[dict[str, Any]]:
        if tool is None or part.get("tool_name") != tool:
            yield part
        elif part["part_kind"] != "retry-prompt":  # an output that did not fit its type is no failed call
            yield part | {"tool_name": "final_result"}  # Pydantic AI's own name, by which a reader of traces knows it

    return [message | {"parts": [new for part in message["parts"] for new in read(part)]} for message in messages]


def _texts(prompt: object) -> Iterator[str]:
    """Yield the texts of a prompt, which may be one, or a list with images and other lists."""
    if isinstance(prompt, str):
        yield prompt
    elif isinstance(prompt, (list, tuple)):
        for part in cast("Sequence[object]", prompt):
            yield from _texts(part)
