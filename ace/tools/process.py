"""Tools in a process of their own: what hangs there can be killed.

A call goes to a fresh interpreter as JSON and its result comes back as JSON; nothing is pickled. The function has to be
importable by name. The child checks the arguments again, so that they arrive with their types.
"""

from __future__ import annotations

import importlib
import importlib.util
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, cast

from ace.core import ToolError, ToolRegistrationError, value_to_text


def importable(name: str, func: Callable[..., Any]) -> tuple[str, str]:
    """Return module (or the file of ``__main__``) and qualified name of a function.

    Raises:
        ToolRegistrationError: Another process could not find it.
    """
    module, qualname = getattr(func, "__module__", None), getattr(func, "__qualname__", None)
    found: Any = sys.modules.get(module or "")
    for part in (qualname or "<none>").split("."):
        found = getattr(found, part, None)
    # a decorated name may hold the Tool that was made of the function
    decorating = found is None and "<" not in str(qualname)  # the name is bound only after its decorator has run
    if not decorating and (found is None or (found is not func and getattr(found, "func", None) not in (func, None))):
        raise ToolRegistrationError(
            f"tool {name!r}: isolation='process' needs a function at the top level of a module, got {qualname!r}"
        )
    if module == "__main__":
        file = getattr(sys.modules["__main__"], "__file__", None)
        if file is None:
            raise ToolRegistrationError(
                f"tool {name!r}: isolation='process' needs a function in a file, not in a shell"
            )
        return str(Path(file).resolve()), str(qualname)
    return str(module), str(qualname)


class ChildCall:
    """One call in a child process.

    Args:
        name: The tool's name.
        func: Its function.
        args: Checked arguments, as JSON values.
    """

    def __init__(self, name: str, func: Callable[..., Any], args: dict[str, Any]) -> None:
        module, qualname = importable(name, func)
        self._request = {"name": name, "module": module, "qualname": qualname, "args": args}
        self._child: subprocess.Popen[bytes] | None = None
        self._killed = False

    def run(self) -> Any:
        """Start the child and wait.

        Raises:
            ToolError: What the tool raised, or that the child ended without a result.
        """
        path = os.pathsep.join(entry or "." for entry in sys.path)
        # the result comes in a file: a tool may print what it likes, and what it started may outlive it
        with tempfile.NamedTemporaryFile("r", encoding="utf-8", prefix="ace-tool-", suffix=".json") as file:
            self._child = child = subprocess.Popen(
                [sys.executable, "-m", "ace.tools.process"],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,  # its own group, so that what it started is killed with it
                env={**os.environ, "PYTHONPATH": path},
            )
            if self._killed:
                self.kill()
            try:
                child.communicate(json.dumps({**self._request, "file": file.name}).encode())
            except BrokenPipeError:
                child.wait()
            last = file.read()
        if not last:
            raise ToolError("exception", f"its process ended with code {child.returncode} and without a result")
        reply = json.loads(last)
        if "error" in reply:
            raise ToolError(reply["kind"], reply["error"], reply["shown"])
        return reply["value"]

    def kill(self) -> None:
        """End the child and what it started, now; what left its process group lives on."""
        self._killed = True
        if self._child is not None:
            with suppress(ProcessLookupError):  # it ended by itself a moment ago
                os.killpg(self._child.pid, signal.SIGKILL)


def _load(module: str) -> Any:
    if not module.endswith(".py"):
        return importlib.import_module(module)
    spec = importlib.util.spec_from_file_location("__ace_main__", module)
    if spec is None or spec.loader is None:
        raise ImportError(f"{module} cannot be loaded")
    loaded = importlib.util.module_from_spec(spec)
    sys.modules["__ace_main__"] = loaded
    spec.loader.exec_module(loaded)
    return loaded


def _serve(request: dict[str, Any]) -> dict[str, Any]:
    from ace.tools.failure import tool_error
    from ace.tools.schema import function_arguments

    try:
        found: Any = _load(request["module"])
        for part in request["qualname"].split("."):
            found = getattr(found, part)
        func = cast(Callable[..., Any], getattr(found, "func", found))
        arguments, _ = function_arguments(request["name"], func)
        value = func(**arguments.check(request["args"]))
    except BaseException as error:  # border to a foreign tool: whatever it raises goes back as data
        failed = tool_error(error)
        return {"kind": failed.kind, "error": failed.message, "shown": failed.model_message}
    try:
        json.dumps(value)
    except (TypeError, ValueError, RecursionError):
        value = value_to_text(value)
    return {"value": value}


if __name__ == "__main__":
    asked = json.loads(sys.stdin.buffer.read())
    Path(asked["file"]).write_text(json.dumps(_serve(asked)), encoding="utf-8")
