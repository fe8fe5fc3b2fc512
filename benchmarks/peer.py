"""Other libraries beside ours: a script of ``benchmarks/peers`` in a virtual environment of its own, over JSON lines."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import venv
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent / "peers"
CACHE = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "dspy-ace-peers"


def python_of(name: str) -> Path:
    """The Python of the environment that ``requirements-NAME.txt`` describes; made on first use."""
    pins = HERE / f"requirements-{name.replace('_', '-')}.txt"
    digest = hashlib.sha256(pins.read_bytes() + sys.version.encode()).hexdigest()[:12]
    home = CACHE / f"{name}-{digest}"
    python = home / "bin" / "python"
    if not (home / "ready").exists():
        print(f"making a virtual environment for {name} in {home} ...", file=sys.stderr)
        venv.create(home, with_pip=True, clear=True)
        install = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "-r", pins]
        subprocess.run(install, check=True)
        (home / "ready").touch()
    return python


class Peer:
    """A running script.

    Args:
        name: Of its environment.
        script: In ``benchmarks/peers``.
        *arguments: For the script.
    """

    def __init__(self, name: str, script: str, *arguments: str) -> None:
        command = [python_of(name), HERE / script, *arguments]
        # several of them install a module `ace`: what finds ours must not find it there
        environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
        )
        self.versions: dict[str, str] = self._read()["versions"]

    def _read(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError("the peer ended")
        return json.loads(line)

    def ask(self, request: dict[str, Any]) -> dict[str, Any]:
        """One request, one answer."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        return self._read()

    def close(self) -> None:
        """End it."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(30)
