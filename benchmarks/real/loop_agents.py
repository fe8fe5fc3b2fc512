"""The three agents of `loop.py` over the same tasks and tools: ours, `dspy.ReActV2`, and a plain loop of chat turns."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any, Protocol

import dspy
from dspy import lm15
from dspy.utils.exceptions import AdapterParseError, ContextWindowExceededError

from ace import ReActGenerator
from ace.agent.episode import Episode
from ace.core import PlaybookError, ToolError
from ace.playbook import Playbook
from ace.playbook.render import render_bullets
from ace.react import BulletSource
from ace.suites.protocol import Suite, signature_of
from ace.tasks import ReasoningStep, TaskOutput, TerminationReason
from ace.tools import Tool
from benchmarks.real.recording import CONTEXT, Exchange, Request

ITERATIONS = 8
SETTINGS: Request = {"max_tokens": 300, "temperature": 0.0}


class Model(Protocol):
    """Answers the requests of one run: a server or a recording."""

    def ask(self, request: Request) -> Exchange:
        """Return the reply to one request."""
        ...


class ModelEngine:
    """A model as DSPy calls it, with the capabilities that `dspy.LM("openai/local", api_base=...)` has: none but text."""

    supports_function_calling = False
    supports_response_schema = False
    supports_reasoning = False
    supported_params = frozenset({"temperature", "max_tokens", "stop", "seed", "top_p"})

    def __init__(self, model: Model) -> None:
        self.model = model

    def complete(self, request: lm15.Request) -> lm15.Response:
        """Return the answer to one request."""
        found = self.model.ask(chat_request(request))
        if found.error:
            raise lm15.ContextLengthError(found.text)
        read, written = found.prompt_tokens, found.completion_tokens
        return lm15.Response(
            id=None,
            model=request.model,
            message=lm15.Message.assistant([lm15.TextPart(found.text)]),
            finish_reason="length" if found.finish_reason == "length" else "stop",
            usage=lm15.Usage(input_tokens=read, output_tokens=written, total_tokens=read + written),
        )

    def stream(self, request: lm15.Request) -> Iterator[Any]:
        """Yield the whole answer, as the events of a stream."""
        yield from lm15.response_to_events(self.complete(request))

    def close(self) -> None:
        """Do nothing: there is nothing to close."""

    def __deepcopy__(self, memo: dict[int, Any]) -> ModelEngine:
        return self


def chat_request(request: lm15.Request) -> Request:
    """Write DSPy's request in the words of the chat API.

    Raises:
        TypeError: It holds what is no text.
    """
    messages: list[dict[str, str]] = []
    if request.system is not None:
        system = request.system if isinstance(request.system, str) else "".join(p.text for p in request.system)
        messages.append({"role": "system", "content": system})
    for message in request.messages:
        if message.text is None:
            raise TypeError(f"a message of the role {message.role!r} is no text; this benchmark asks in text mode")
        messages.append({"role": message.role, "content": message.text})
    config = request.config
    asked: dict[str, Any] = {"max_tokens": config.max_tokens, "temperature": config.temperature}
    asked |= {"stop": list(config.stop), "seed": config.seed}
    wanted = dict(config.response_format or {})
    if wanted.get("type") == "json_schema":  # DSPy has the schema beside the type, the chat API below it
        wanted = {
            "type": "json_schema",
            "json_schema": {name: wanted[name] for name in ("name", "schema") if name in wanted},
        }
    asked["response_format"] = wanted or None
    return {"messages": messages, **{name: value for name, value in asked.items() if value not in (None, [])}}


def language_model(model: Model, **settings: Any) -> dspy.LM:
    """Make a model for DSPy: no cache, no second try."""
    return dspy.LM("openai/local", engine=ModelEngine(model), cache=False, num_retries=0, **SETTINGS | settings)


def lessons_for(episode: Episode, book: Playbook | None) -> str:
    """Return what the playbook shows for a task, as text; empty without one."""
    return render_bullets(book.retrieve_for(episode.task, episode.registry.schema_hashes)) if book is not None else ""


def with_lessons(episode: Episode, book: Playbook | None) -> str:
    """Write the task with its lessons before it, for agents that have no memory."""
    lessons, task = lessons_for(episode, book), episode.task.text
    return f"Lessons from earlier tasks:\n{lessons}\n\nThe task: {task}" if lessons else task


def ended(
    episode: Episode, reason: TerminationReason, answer: Any = None, calls: tuple[ReasoningStep, ...] = ()
) -> TaskOutput:
    """Make the outcome of a run of an agent that is not ours, for the suite's score."""
    return TaskOutput(
        task_id=episode.task.task_id,
        run_id="",
        task=episode.task,
        structured_trace=calls,
        answer=answer,
        termination_reason=reason,
    )


def ours(suite: Suite, episode: Episode, model: Model, book: BulletSource | None, **settings: Any) -> TaskOutput:
    """Run `ReActGenerator` as it is, without settings of its own unless some are given."""
    agent = ReActGenerator(
        signature_of(suite),
        tools=episode.registry,
        playbook=book,
        **{"lm": language_model(model), "max_iters": ITERATIONS, "memory_timeout": None} | settings,
    )
    return agent.run(episode.task)


def bound(suite: Suite, episode: Episode, model: Model, book: Playbook | None) -> TaskOutput:
    """Run ours, with replies that are bound to a schema."""
    return ours(suite, episode, model, book, replies="bound")


def plans(suite: Suite, episode: Episode, model: Model, book: Playbook | None) -> TaskOutput:
    """Run ours, with the plans of its lessons as one call, each of them released."""
    for bullet in book.bullets if book is not None else ():
        with suppress(PlaybookError):
            book.review.release(bullet.id, author="benchmark")
    return ours(suite, episode, model, book, plans="approved")


def react_v2(suite: Suite, episode: Episode, model: Model, book: Playbook | None) -> TaskOutput:
    """Run DSPy's own loop; only a `submit` of its own accord counts as an end, as with the others."""
    limit, history = episode.task.max_iters or ITERATIONS, dspy.History(messages=[])
    agent = dspy.ReActV2(signature_of(suite), tools=[for_dspy(tool) for tool in episode.registry], max_iters=limit)
    try:
        with dspy.context(lm=language_model(model), adapter=dspy.ChatAdapter()):
            found = agent(task=with_lessons(episode, book), history=history)
    except (AdapterParseError, ContextWindowExceededError, ValueError):
        return ended(episode, "invalid_model_action", calls=calls_of(history))
    reason = "completed" if found.termination_reason == "submit" else "max_iterations"
    return ended(episode, reason, found.answer, calls_of(history))


class FirstReply:
    """A model for a single turn: beyond its first reply, where agents ask for an answer, it has no room for more."""

    def __init__(self, model: Model) -> None:
        self.model, self.used = model, False

    def ask(self, request: Request) -> Exchange:
        """Return the model's reply, once."""
        if self.used:
            return Exchange(key="", request=request, error=CONTEXT, text="one turn is all there is", seconds=0)
        self.used = True
        return self.model.ask(request)


def for_dspy(tool: Tool) -> Any:
    """Convert a tool to what DSPy takes: a function that it reads itself, or one with its schema."""
    if any(part.kind is part.VAR_KEYWORD for part in inspect.signature(tool.func).parameters.values()):
        return dspy.Tool(tool.func, name=tool.name, desc=tool.description, args=tool.schema.get("properties", {}))
    return tool.func


def calls_of(history: dspy.History) -> tuple[ReasoningStep, ...]:
    """Return the calls in DSPy's history, but for the one that ends it."""
    turns = enumerate((message.get("tool_calls") for message in history.messages), 1)
    return tuple(
        ReasoningStep(
            iteration=number,
            tool_call_id="",
            tool_name=call.name,
            tool_args=call.args,
            outcome="success",
            observation="",
        )
        for number, turn in turns
        for call in (turn.tool_calls if turn else ())
        if call.name != "submit"
    )


PLAIN = """{instructions}

Tools:
{catalogue}
finish(answer): End the task, when all of it is done.

Reply with one JSON object and nothing else, one call at a time:
{{"tool": "NAME", "args": {{"ARGUMENT": "VALUE"}}}}
The result of the call is told to you, then you make the next one. When the task is done, call finish."""


def plain(suite: Suite, episode: Episode, model: Model, book: Playbook | None) -> TaskOutput:
    """Run a growing chat: signatures in the system message, the one call of each turn, results as they are."""
    tools = {tool.name: tool for tool in episode.registry}
    catalogue = "\n".join(signature_line(tool) for tool in tools.values())
    messages = [
        {"role": "system", "content": PLAIN.format(instructions=suite.instructions, catalogue=catalogue)},
        {"role": "user", "content": with_lessons(episode, book)},
    ]
    for _ in range(ITERATIONS):
        found = model.ask({"messages": list(messages), **SETTINGS})
        if found.error:
            return ended(episode, "model_transport")
        name, args = first_call(found.text)
        if name == "finish":
            return ended(episode, "completed", args.get("answer"))
        # a model that writes three calls at once would else take all three for made
        made = json.dumps({"tool": name, "args": args}, ensure_ascii=False) if name else found.text
        messages.append({"role": "assistant", "content": made})
        messages.append({"role": "user", "content": f"Result: {result_of(tools, name, args)}"})
    return ended(episode, "max_iterations")


def signature_line(tool: Tool) -> str:
    """Write a tool in one line: ``name(argument, argument?): description``."""
    needed = tool.schema.get("required", [])
    arguments = ", ".join(name if name in needed else f"{name}?" for name in tool.schema.get("properties", {}))
    return f"{tool.name}({arguments}): {inspect.cleandoc(tool.description)}"


def first_call(text: str) -> tuple[str, dict[str, Any]]:
    """Find the tool and the arguments in a reply; an empty name where it holds no such object.

    Examples:
        >>> first_call('Sure: {"tool": "get_order", "args": {"order_id": "o-1"}} and more')
        ('get_order', {'order_id': 'o-1'})
    """
    start = text.find("{")
    try:
        found, _ = json.JSONDecoder().raw_decode(text[start:]) if start >= 0 else ({}, 0)
    except ValueError:
        found = {}
    args = found.get("args", {})
    return str(found.get("tool", "")), args if isinstance(args, dict) else {}


def result_of(tools: dict[str, Tool], name: str, args: dict[str, Any]) -> str:
    """Return what a call gives, as the model reads it; what went wrong is a result too."""
    if name not in tools:
        return f"Error: there is no tool {name!r}." if name else "Error: reply with one JSON object."
    try:
        result = tools[name].func(**args)
    except ToolError as error:
        return f"Error: {error.model_message}"
    except TypeError as error:
        return f"Error: {error}"
    return result if isinstance(result, str) else json.dumps(result, ensure_ascii=False)


Agent = Callable[[Suite, Episode, Model, "Playbook | None"], TaskOutput]
COMPARED = ("ours", "react_v2", "plain")
"""What is tried where nothing else is asked for."""
AGENTS: dict[str, Agent] = {"ours": ours, "react_v2": react_v2, "plain": plain, "bound": bound, "plans": plans}
