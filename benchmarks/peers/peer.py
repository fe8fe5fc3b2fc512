"""Other libraries beside ours: a script of ``benchmarks/peers`` in a virtual environment of its own, over JSON lines."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import venv
from pathlib import Path

from benchmarks.worker import Worker

HERE = Path(__file__).parent
CACHE = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "dspy-ace-peers"


def python_of(name: str) -> Path:
    """Return the Python of the environment that ``requirements-NAME.txt`` describes; made on first use."""
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


class Peer(Worker):
    """A running script of another library.

    Args:
        name: Of its environment.
        script: In ``benchmarks/peers``.
        *arguments: For the script.
    """

    def __init__(self, name: str, script: str, *arguments: str) -> None:
        # several of them install a module `ace`: what finds ours must not find it there
        environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        super().__init__([python_of(name), HERE / script, *arguments], environment)
        self.versions: dict[str, str] = self.read()["versions"]
