"""`ace chat`: a conversation in the terminal."""

from __future__ import annotations

import importlib
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ace.cli import _shared as shared
from ace.cli._shared import check_reachable, console, examples, write_json
from ace.core import ResumeError, RunStoreError, SuiteError

if TYPE_CHECKING:
    from ace.core import Event
    from ace.react import Chat
    from ace.tasks import TaskOutput

EXAMPLES = examples(
    "ace chat --lm ollama_chat/llama3.2",
    "ace chat --tools my_shop:tools --playbook shop.db --lm openai/gpt-5-mini",
    "ace chat --resume --lm openai/gpt-5-mini",
    "ace chat --name refunds --lm openai/gpt-5-mini",
)
HELP = (
    "/good    the last answer was right: learn from it\n"
    "/bad     it was wrong; say why after it: /bad order 18 was meant\n"
    "/quit    end; Ctrl-D does the same, and --resume goes on later"
)
LATEST = "latest"
"""The file in the chats' folder that names the last chat."""


def chat(
    lm: shared.LmOption = "",
    tools: shared.ToolsOption = None,
    corpus: shared.CorpusOption = None,
    playbook: shared.BookOption = None,
    domain: shared.DomainOption = None,
    name: Annotated[str | None, typer.Option(help="The conversation's name: a new one, or one to go on with.")] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with the last conversation.")] = False,
    chats: Annotated[
        Path | None, typer.Option(help="The folder that keeps conversations; by default in your own settings.")
    ] = None,
    api_base: shared.ApiBaseOption = None,
    cache: shared.CacheOption = False,
    json_file: shared.JsonOption = None,
) -> None:
    """Talk with the agent, and let the playbook learn (/good, /bad). Every step is on the disk before it is shown."""
    from ace.evaluation.reach import check_named

    if resume and name is not None:
        raise SuiteError("pass --resume for the last conversation, or --name for one by its name, not both")
    folder = chats if chats is not None else Path(typer.get_app_dir("ace")) / "chats"
    latest = folder / LATEST
    if resume:
        if not latest.exists():
            raise RunStoreError(f"there is no conversation in {str(folder)!r} yet; begin one without --resume")
        name = latest.read_text(encoding="utf-8").strip()
    check_named(lm)
    check_reachable([lm], api_base, playbook, made=True)
    from ace.cli.run import named_tools
    from ace.evaluation.hosted import ModelServer
    from ace.evaluation.models import choose_model
    from ace.playbook import Playbook
    from ace.react import ReActGenerator

    choice = choose_model(lm, None, ModelServer(api_base, cache))
    agent = ReActGenerator(
        tools=named_tools(tools, corpus),
        playbook=Playbook.open(playbook) if playbook is not None else None,
        lm=choice.lm_for(0),
        policy=choice.policy,
        run_store=folder,
    )
    talk = _Talk(agent.chat(name, domain=domain))
    from ace.core.durable import write_atomic

    write_atomic(latest, talk.chat.id)
    talk.go_on()
    write_json({"id": talk.chat.id, "messages": talk.chat.history.messages}, json_file)
    if talk.failed:
        raise typer.Exit(1)


class _Talk:
    """Reads what is said, and shows what is answered."""

    def __init__(self, chat: Chat) -> None:
        self.chat = chat
        self._streamed = ""
        """The pieces of the answer that are on the screen."""
        self.failed = False
        """Whether the last message ended in an error."""

    def go_on(self) -> None:
        """Go on until the input ends."""
        from ace.agent.history import read_messages

        if sys.stdin.isatty():
            with suppress(ImportError):  # arrow keys, and what was typed before
                importlib.import_module("readline")
        console.print(f"{self.chat.id}   /help for help, Ctrl-D to end", style="dim")
        for message in read_messages(self.chat.history.messages):
            console.print(f"> {next(iter(message.inputs.values()), '')}", style="dim")
            answered = "\n".join(map(str, message.outputs.values()))
            console.print(answered, style="dim")
        if self.chat.waiting is not None:
            console.print("The last message was cut off; going on with it.", style="yellow")
            self._decided(None)
        while (line := self._line("> ")) is not None and line.strip() != "/quit":
            if line.strip():
                self._take(line.strip())
        console.print(f"Go on later with: ace chat --name {self.chat.id}", style="dim")

    def _line(self, prompt: str) -> str | None:
        """Read what is typed; None at the end of the input."""
        try:
            return console.input(prompt) if sys.stdin.isatty() else input()
        except EOFError:
            return None

    def _take(self, line: str) -> None:
        command, _, words = line.partition(" ")
        match command:
            case "/help":
                console.print(HELP)
            case "/good" | "/bad":
                self._learn(command == "/good", words.strip())
            case _ if line.startswith("/"):
                console.print(f"there is no {command}; /help names what there is", style="yellow")
            case _:
                self._answer(line)

    def _answer(self, line: str) -> None:
        """Send a message, show the calls and the answer as they come."""
        self._streamed = ""
        with self.chat.stream(line) as stream:
            for event in stream:
                self._event(event)
        self._end(stream.output.output)

    def _event(self, event: Event) -> None:
        """Show a call, or a piece of the answer."""
        if event.kind == "tool_call_started":
            console.print(f"· {event.data['tool']}", style="dim")
        elif event.kind == "model_request_started" and self._streamed:  # what was shown was no answer that fits
            console.print("")
            self._streamed = ""
        elif event.kind == "model_request_delta" and (piece := event.data.get("answer", "")):
            console.print(piece, end="")
            self._streamed += piece

    def _end(self, output: TaskOutput) -> None:
        self.failed = output.request is None and output.error is not None
        if output.request is not None:
            calls = ", ".join(f"{call.tool_name}({call.tool_args})" for call in output.request.calls)
            console.print(f"May this be called? {calls}")
            said = self._read_yes_or_no()
            if said is not None:  # at the end of the input it waits, and is asked again later
                self._decided("approve" if said == "y" else "deny")
            return
        answer = "" if output.answer is None else str(output.answer)
        shown, self._streamed = self._streamed, ""
        if shown:
            console.print("")
        if answer != shown:
            console.print(answer)
        if output.error is not None:
            from ace.evaluation.reach import in_words

            why = in_words(output.error.message, str(self.chat.agent.lm))
            console.print(f"{output.termination_reason}: {why}", style="red")

    def _read_yes_or_no(self) -> str | None:
        """Ask for ``y`` or ``n`` until it is one of them; None at the end of the input."""
        while (said := self._line("y or n: ")) is not None:
            word = said.strip().lower()
            if word in ("y", "yes", "n", "no"):
                return word[0]
            console.print(f"{word!r} is neither", style="yellow")
        return None

    def _decided(self, decision: Any) -> None:
        try:
            output = self.chat.resume(decision).output
        except RunStoreError as error:
            console.print(str(error), style="yellow")
            console.print("Give this message up? Its calls so far stay in the history.")
            if self._read_yes_or_no() != "y":
                raise
            self.chat.drop()
            return
        except ResumeError:  # it waits for a decision that nobody has given yet
            stored = self.chat.agent.run_store.load(self.chat.waiting or "")
            if decision is not None or getattr(stored.state, "request", None) is None:
                raise
            output = self.chat.agent.output_of(stored)
        self._end(output)

    def _learn(self, success: bool, words: str) -> None:
        from ace.tasks import Feedback

        if self.chat.agent.playbook is None:
            console.print("there is nothing to learn into: start the chat with --playbook FILE", style="yellow")
            return
        try:
            # who types it here is the user of this machine
            report = self.chat.learn(Feedback(success=success, text=words, trusted=True))
        except ValueError as error:
            console.print(str(error), style="yellow")
        else:
            console.print(f"learned: {report.added} new, {report.merged} merged", style="dim")
