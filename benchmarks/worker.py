"""A script in a process of its own, asked and answering in JSON lines."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any


class Worker:
    """A running script.

    Args:
        command: What to run.
        environment: All its variables.
        folder: Where it runs.
    """

    def __init__(
        self, command: Sequence[str | Path], environment: Mapping[str, str], folder: Path | None = None
    ) -> None:
        self.command = command
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment, cwd=folder
        )

    def read(self) -> dict[str, Any]:
        """Read its next line.

        Raises:
            RuntimeError: It has ended.
        """
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"the worker {' '.join(map(str, self.command))} ended before it answered")
        return json.loads(line)

    def ask(self, request: dict[str, Any]) -> dict[str, Any]:
        """Send one request, and read one answer."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        return self.read()

    def close(self) -> None:
        """End it."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(30)
