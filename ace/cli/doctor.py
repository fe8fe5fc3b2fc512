"""`ace doctor`: is everything here that is needed?"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Annotated, Any

import typer

from ace.cli._shared import ApiBaseOption, JsonOption, LmOption, console, counted, examples, write_json
from ace.core import AceError, SuiteError

EXAMPLES = examples("ace doctor", "ace doctor --lm ollama_chat/llama3.2 --playbook team.db")
_PACKAGES = (
    "dspy-ace", "dspy", "faiss-cpu", "onnxruntime", "tokenizers", "numpy", "pydantic", "sqlalchemy", "tiktoken",
)  # fmt: skip


def doctor(
    lm: LmOption = "",
    api_base: ApiBaseOption = None,
    playbook: Annotated[
        str, typer.Option("--playbook", envvar="ACE_PLAYBOOK", help="Look at this playbook, too: a file or a URL.")
    ] = "",
    json_file: JsonOption = None,
) -> None:
    """Check the installation, and whether a model's server and a playbook can be reached."""
    checks: list[dict[str, Any]] = []

    def check(look: Callable[[], str], advice: str = "") -> None:
        try:
            ok, text = True, look()
        except (AceError, ImportError, ValueError) as error:
            ok, text = False, f"{error}{'; ' if advice else ''}{advice}"
        checks.append({"ok": ok, "what": text, "advice": "" if ok else advice})
        console.print("ok     " if ok else "PROBLEM", style="green" if ok else "red", end=" ")
        console.print(text, soft_wrap=True)

    check(lambda: f"Python {sys.version.split()[0]}")
    for name in _PACKAGES:
        check(lambda name=name: _package(name), f"pip install {name}")
    check(_owner, "uninstall the others: they install a module of the same name")
    check(_weights, "install the package again")
    if lm:
        check(lambda: _model(lm, api_base))
    if playbook:
        check(lambda: _book(playbook))
    write_json(checks, json_file)
    if not all(one["ok"] for one in checks):
        raise typer.Exit(1)


def _package(name: str) -> str:
    from importlib.metadata import version

    return f"{name} {version(name)}"


def _owner() -> str:
    from importlib.metadata import packages_distributions

    owners = sorted(set(packages_distributions().get("ace", ["dspy-ace"])))
    said = f"the module `ace` belongs to {', '.join(owners)}"
    if owners != ["dspy-ace"]:
        raise ValueError(said)
    return said


def _weights() -> str:
    from ace.playbook.index.weights import weights_folder

    weights_folder()
    return "the embedder's weights are installed and have the right hash"


def _model(lm: str, api_base: str | None) -> str:
    from ace.evaluation.reach import check_model, in_words

    check_model(lm, api_base)
    if lm.partition(":")[0] == "simulated":
        return "simulated is our stand-in for a model, and always there"
    from ace.evaluation.hosted import ModelServer
    from ace.evaluation.models import choose_model

    choice = choose_model(lm, None, ModelServer(api_base))
    try:
        choice.lm_for(0)("Answer with one word: ready")
    except Exception as error:  # whatever a model's client raises
        raise SuiteError(in_words(f"{type(error).__name__}: {error}", lm)) from error
    return f"the model {choice.name} answers"


def _book(path: str) -> str:
    from ace.cli.playbook import open_book

    with open_book(path) as book:
        waiting = len(book.review.pending())
        return f"{path} opens: revision {book.revision}, {counted(len(book), 'lesson')}, {waiting} waiting"
