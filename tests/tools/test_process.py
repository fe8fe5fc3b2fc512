"""Tools in a process of their own: killed when they hang, and nothing leaks out."""

import contextlib
import os
import subprocess
import sys
import time
from typing import ClassVar

import pytest

from ace.core import CancellationToken, ToolContext, ToolError, ToolRegistrationError
from ace.tools import Tool, ToolCall, TypedTool, call_tool
from ace.tools.process import ChildCall, _load, _serve, importable


def add(a: int, b: float = 1.0) -> dict:
    """Add."""
    print("noise on stdout")
    return {"sum": a + b, "pid": os.getpid(), "kinds": [type(a).__name__, type(b).__name__]}


def hang(path: str) -> str:
    """Hang, and write the process id first."""
    with open(path, "w") as file:
        file.write(str(os.getpid()))
    time.sleep(60)
    return "late"


def refuse() -> None:
    """Refuse."""
    raise ToolError("refused", "operator text", "model text")


def crash() -> None:
    """Die."""
    os._exit(3)


def raise_error() -> None:
    """Raise."""
    raise ConnectionError("in /srv/secret/file.py")


def odd() -> object:
    """Return what is no JSON."""
    return {1, 2}.__class__


def isolated(func, **options):
    return Tool.from_function(func, isolation="process", **{"timeout": 20, **options})


def run(func, context=None, **args):
    options = args.pop("options", {})
    return call_tool(isolated(func, **options), ToolCall(id="c", name=func.__name__, args=args), context)


def test_it_runs_elsewhere_with_typed_arguments():
    result = run(add, a="2")
    assert result.content["sum"] == 3.0
    assert result.content["pid"] != os.getpid()
    assert result.content["kinds"] == ["int", "float"]


def alive(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    with open(f"/proc/{pid}/stat") as file:
        return file.read().split()[2] != "Z"


def until(condition, seconds=10):
    end = time.monotonic() + seconds
    while not condition() and time.monotonic() < end:
        time.sleep(0.02)
    return condition()


def test_a_hanging_tool_is_killed_at_its_time_limit(tmp_path):
    path = tmp_path / "pid"
    result = run(hang, path=str(path), options={"timeout": 5})
    assert result.error_kind == "timeout"
    pid = int(path.read_text())
    assert until(lambda: not alive(pid))


def test_a_cancelled_tool_is_killed(tmp_path):
    import threading

    path, token = tmp_path / "pid", CancellationToken()
    threading.Thread(target=lambda: (until(lambda: path.exists() and path.read_text()), token.cancel())).start()
    result = run(hang, ToolContext(cancellation=token), path=str(path))
    assert (result.outcome, result.error_kind) == ("interrupted", "cancelled")
    assert until(lambda: not alive(int(path.read_text())))


@pytest.mark.parametrize(
    ("func", "kind", "text"),
    [
        (refuse, "refused", "model text"),
        (crash, "exception", "code 3"),
        (raise_error, "network", "ConnectionError: in file.py"),
    ],
)
def test_what_goes_wrong_there_comes_back_as_data(func, kind, text):
    result = run(func)
    assert (result.outcome, result.error_kind) == ("failed", kind)
    assert text in result.text


def test_the_child_serves_one_request():
    def request(func, **args):
        return {"name": func.__name__, "module": __name__, "qualname": func.__qualname__, "args": args}

    import sys

    sys.modules.setdefault(__name__, sys.modules[add.__module__])
    assert _serve(request(add, a="2"))["value"]["sum"] == 3.0
    assert _serve(request(odd))["value"] == '"type"'
    assert _serve(request(refuse)) == {"kind": "refused", "error": "operator text", "shown": "model text"}
    assert _serve(request(raise_error))["kind"] == "network"
    assert _serve(request(add, a="x"))["kind"] == "exception"
    loaded = _load(str(__file__))
    assert loaded.add(a=1)["sum"] == 2.0


def test_only_what_another_process_can_find_is_taken():
    def local() -> None:
        """Local."""

    async def later() -> None:
        """Later."""

    def with_context(ctx: ToolContext) -> None:
        """Context."""

    class Typed(TypedTool):
        """Typed."""

        name = "typed"
        Args = type("Args", (__import__("pydantic").BaseModel,), {})
        options: ClassVar = {"isolation": "process"}

        def run(self, args):
            return None

    for source in (local, later, with_context):
        with pytest.raises(ToolRegistrationError, match="isolation='process'"):
            Tool.from_function(source, isolation="process")
    with pytest.raises(ToolRegistrationError, match="needs a function"):
        Tool.of(Typed())
    with pytest.raises(ToolRegistrationError, match="'thread' or 'process'"):
        Tool.from_function(add, isolation="container")
    assert importable("add", add)[1] == "add"


def test_a_call_that_is_given_up_before_it_begins_is_killed_at_once():
    call = ChildCall("hang", hang, {"path": "/dev/null"})
    call.kill()
    with pytest.raises(ToolError, match="without a result"):
        call.run()


def test_a_function_of_the_script_itself_is_found_by_its_file(monkeypatch):
    import sys

    script = type(sys)("__main__")
    monkeypatch.setitem(sys.modules, "__main__", script)
    monkeypatch.setattr(add, "__module__", "__main__")
    script.add = add
    with pytest.raises(ToolRegistrationError, match="not in a shell"):
        importable("add", add)
    script.__file__ = __file__
    assert importable("add", add) == (os.path.realpath(__file__), "add")


def test_the_child_reads_its_request_and_writes_a_file(tmp_path, monkeypatch):
    import io
    import json
    import runpy
    import sys

    target = tmp_path / "result.json"
    request = {"name": "add", "module": str(__file__), "qualname": "add", "args": {"a": 1}, "file": str(target)}
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(json.dumps(request).encode())))
    monkeypatch.delitem(sys.modules, "ace.tools.process")
    runpy.run_module("ace.tools.process", run_name="__main__")
    assert json.loads(target.read_text())["value"]["sum"] == 2.0


def test_isolation_works_as_a_decorator(tmp_path):
    (tmp_path / "jobs.py").write_text(
        "import subprocess, sys\nfrom ace import tool\n\n\n@tool(isolation='process', timeout=20)\ndef start(what: str) -> str:\n"
        '    """Start something that outlives the call."""\n'
        "    subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(8)'])\n"
        "    sys.stdout.buffer.write(b'\\xff')\n    return 'started ' + what\n"
    )
    code = (
        "import time\nfrom jobs import start\nfrom ace.tools import ToolCall, call_tool\nbegan = time.monotonic()\n"
        "print(call_tool(start, ToolCall(id='c', name='start', args={'what': 'it'})).text, time.monotonic() - began < 7)"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert done.stdout == "started it True\n", done.stderr[-1500:]


def start_another(file: str) -> str:
    """Start a process, and hang."""
    import subprocess

    code = f"import os, time; open({file!r}, 'w').write(str(os.getpid())); time.sleep(600)"
    starter = f"import subprocess, sys; subprocess.Popen([sys.executable, '-c', {code!r}])"
    subprocess.run([sys.executable, "-c", starter], check=True)
    time.sleep(600)
    return file


def test_what_a_tool_started_dies_with_its_time_limit(tmp_path):
    import psutil

    file = tmp_path / "pid"
    tool = Tool.from_function(start_another, isolation="process", timeout=3.0)
    result = call_tool(tool, ToolCall(id="c", name=tool.name, args={"file": str(file)}))
    assert (result.outcome, result.error_kind) == ("failed", "timeout")
    with contextlib.suppress(psutil.NoSuchProcess):  # whoever adopts it may leave it unburied
        process = psutil.Process(int(file.read_text()))
        until = time.monotonic() + 10
        while process.status() != psutil.STATUS_ZOMBIE and time.monotonic() < until:
            time.sleep(0.05)
        assert process.status() == psutil.STATUS_ZOMBIE
