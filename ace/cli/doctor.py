"""`ace doctor`: is everything here that is needed?"""

from __future__ import annotations

import sys
from typing import Any

import typer

from ace.cli._shared import JsonOption, check_writable, console, write_json

EXAMPLES = "Example: ace doctor"
_REQUIRED = (
    "dspy", "faiss-cpu", "onnxruntime", "tokenizers", "numpy", "pydantic", "sqlalchemy", "tiktoken",
)  # fmt: skip


def doctor(json_file: JsonOption = None) -> None:
    """Check the installation: versions, the embedder's weights, other packages that own the module `ace`."""
    from importlib.metadata import PackageNotFoundError, packages_distributions, version

    check_writable(json_file)
    checks: list[dict[str, Any]] = []

    def report(ok: bool, text: str, advice: str = "") -> None:
        checks.append({"ok": ok, "what": text, "advice": "" if ok else advice})
        console.print("ok     " if ok else "PROBLEM", style="green" if ok else "red", end=" ")
        console.print(f"{text}{'' if ok else '; ' + advice}", highlight=False)

    report(sys.version_info >= (3, 11), f"Python {sys.version.split()[0]}", "3.11 or newer is needed")
    for name in _REQUIRED:
        try:
            report(True, f"{name} {version(name)}")
        except PackageNotFoundError:
            report(False, f"{name} is missing", f"pip install {name}")
    owners = sorted(set(packages_distributions().get("ace", ["dspy-ace"])))
    report(
        owners == ["dspy-ace"],
        f"the module `ace` belongs to {', '.join(owners)}",
        "uninstall the others: they install a module of the same name",
    )
    _check_weights(report)
    write_json(checks, json_file)
    if not all(check["ok"] for check in checks):
        raise typer.Exit(1)


def _check_weights(report: object) -> None:
    from ace.core import PlaybookError
    from ace.playbook.index.weights import weights_folder

    assert callable(report)
    try:
        weights_folder()
    except PlaybookError as error:
        report(False, str(error), "install the package again")
        return
    report(True, "the embedder's weights are installed and have the right hash")
