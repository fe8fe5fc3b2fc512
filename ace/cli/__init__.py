"""The `ace` command. Each command imports what it needs when it runs, so that ``ace --help`` answers at once."""

from __future__ import annotations

import errno
import logging
import os
import signal
import sys
import threading
from typing import Annotated, Any, NoReturn

import typer

from ace.cli import chat, demo, doctor, evaluate, learn, optimize, playbook_review, run, serve, suite
from ace.cli._shared import examples
from ace.core import AceError, visible

INTERRUPTED = 130
"""Exit code of a command that Ctrl-C ended, as shells have it."""
_RETRY_SECONDS = 0.05

app = typer.Typer(
    name="ace",
    epilog=examples("ace demo", "ace run 'What is 17% of 240?' --lm ollama_chat/llama3.2"),
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    add_completion=False,
)


@app.callback(invoke_without_command=True)
def about(
    version: Annotated[bool, typer.Option("--version", help="Print the version, and end.")] = False,
) -> None:
    """Run a tool-calling DSPy agent that learns a playbook from its own runs."""
    if version:
        from importlib.metadata import version as of

        typer.echo(f"dspy-ace {of('dspy-ace')}, dspy {of('dspy')}, Python {sys.version.split()[0]}")
        raise typer.Exit


app.command("demo", epilog=demo.EXAMPLES)(demo.demo)
app.command("run", epilog=run.EXAMPLES)(run.run)
app.command("chat", epilog=chat.EXAMPLES)(chat.chat)
app.command("evaluate", epilog=evaluate.EXAMPLES)(evaluate.evaluate)
app.command("learn", epilog=learn.EXAMPLES)(learn.learn)
app.command("optimize", epilog=optimize.EXAMPLES)(optimize.optimize)
app.command("serve", epilog=serve.EXAMPLES)(serve.serve)
app.command("doctor", epilog=doctor.EXAMPLES)(doctor.doctor)
app.add_typer(playbook_review.app, name="playbook")
app.add_typer(suite.app, name="suite")


def main() -> None:
    """Run the command line; errors of this library are one line and exit code 1, wrong options 2, Ctrl-C 130."""
    _insist_on_ctrl_c()
    # prices that the packages carry will do: what they warn of when they cannot look for newer ones is no news
    os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")
    logging.getLogger("dspy.clients.model_metadata").setLevel(logging.ERROR)
    try:
        code = app(standalone_mode=False) or 0
    except AceError as error:
        _fail(str(error))
    except OSError as error:
        if error.filename is None and error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise  # neither a file that cannot be used nor a full disk: a bug
        place = f" {str(error.filename)!r}" if error.filename else ""
        _fail(f"{error.strerror or error}{place}; make room, or name another place")
    except (KeyboardInterrupt, typer.Abort):  # before the command began; inside it, Typer makes it exit code 130
        code = INTERRUPTED
    except Exception as error:
        # click's own errors know how to show themselves; anything else is a bug and may show its traceback
        if hasattr(error, "show") and hasattr(error, "exit_code"):
            error.show()  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType]
            sys.exit(error.exit_code)  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType, reportUnknownArgumentType]
        raise
    if code == INTERRUPTED:
        typer.secho("interrupted; everything committed so far is kept", err=True)
    sys.exit(code)


def _fail(said: str) -> NoReturn:
    typer.secho(f"error: {visible(said)}", fg="red", err=True)
    sys.exit(1)


def _insist_on_ctrl_c() -> None:
    """Send Ctrl-C again when Python has dropped it.

    Python raises `KeyboardInterrupt` between any two bytecodes of the main thread. When those belong to a finalizer or a
    weak reference's callback, as they do in about one of a hundred interrupts of `ace learn` (the garbage collector frees
    what PyTorch and SQLAlchemy watch), the exception is printed and dropped, and the command would go on for hours.
    """
    before = sys.unraisablehook

    def again(unraisable: Any) -> None:
        if not issubclass(unraisable.exc_type, KeyboardInterrupt):
            before(unraisable)
            return
        # not from here: it would be raised inside this very hook, and be dropped once more
        main = threading.main_thread().ident or 0
        timer = threading.Timer(_RETRY_SECONDS, signal.pthread_kill, [main, signal.SIGINT])
        timer.daemon = True
        timer.start()

    sys.unraisablehook = again
