"""What the commands say where something is missing: ``python -m benchmarks.serve.refusals OUT.json [--only dead-port]``.

Each command that asks a model, and `ace serve`, is started where its model's server is dead, its model's name or key is
wrong, or its playbook is not there, damaged, locked, of an old release or on a full disk. Each has to end with exit code 1
and one sentence within two seconds; a traceback, a second line or an answer is wrong.
"""

from __future__ import annotations

import os
import socket
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from ace.playbook import Playbook
from benchmarks.command import command

COMMANDS = {
    "run": ("run", "Look"),
    "chat": ("chat", "--chats", "chats"),
    "learn": ("learn", "--from", "office"),
    "evaluate": ("evaluate", "office", "--arms", "none,playbook", "--limit", "1", "--out", "evaluation"),
    "optimize": ("optimize", "office", "--out", "optimized"),
    "serve": ("serve", "--port", "0", "--no-browser"),
}
MODELS = {
    "dead-port": (
        ("openai/local", "--api-base", "http://127.0.0.1:{port}/v1"),
        "no model server answers at http://127.0.0.1:{port}",
    ),
    "wrong-model": (("openai/nosuch", "--api-base", "http://127.0.0.1:{live}/v1"), "has no model 'nosuch'"),
    "no-provider": (("llama3.2",), "write PROVIDER/MODEL, as openai/llama3.2"),
    "wrong-provider": (("opeani/gpt-5-mini",), "nobody serves 'opeani/gpt-5-mini'"),
    "no-key": (("openai/gpt-5-mini",), "set OPENAI_API_KEY"),
}
"""What is wrong with the model: its options, and what the sentence has to say."""
BOOKS = {
    "no-book": ("none.db", "there is no playbook"),
    "damaged-book": ("damaged.db", "not a database"),
    "old-book": ("old.db", "before the first release"),
    "locked-book": ("locked.db", "locked by another program"),
    "full-disk": ("full/book.db", "no room on the disk"),
}
"""What is wrong with the playbook: its file, and what the sentence has to say."""
MAKING = ("chat", "learn", "serve")
"""Commands that make a playbook where none is."""


def free_port() -> int:
    """Find a port of this machine that nobody listens at."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


@contextmanager
def live_server() -> Iterator[int]:
    """Run a server that has one model, and tells so, and yield its port."""

    class Handler(BaseHTTPRequestHandler):
        def log_message(self, format: str, *args: object) -> None:
            """Say nothing."""

        def do_GET(self) -> None:
            """Tell of the model, alone and in a list."""
            self.send_response(200 if self.path in ("/v1/models", "/v1/models/local") else 404)
            self.end_headers()
            self.wfile.write(b'{"data": [{"id": "local"}]}')

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server.server_port
        server.shutdown()


@contextmanager
def books(folder: Path) -> Iterator[None]:
    """Make playbooks that cannot be used, one of them locked for as long as the block runs."""
    for name in ("old.db", "locked.db"):
        with Playbook.open(folder / name) as book:
            book.add(section="Pitfalls", content="Ask first.")
    with sqlite3.connect(folder / "old.db") as connection:
        connection.execute("UPDATE alembic_version SET version_num = '0003'")
    connection.close()
    (folder / "damaged.db").write_bytes(b"no database at all" * 1_000)
    locking = sqlite3.connect(folder / "locked.db", isolation_level=None)
    locking.execute("BEGIN IMMEDIATE")
    try:
        yield
    finally:
        locking.close()


@contextmanager
def full_disk(folder: Path) -> Iterator[bool]:
    """Make a playbook on a file system without room, where this machine lets us make one."""
    place = folder / "full"
    place.mkdir()
    made = (
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=400k", "none", place], capture_output=True).returncode == 0
    )
    try:
        if made:
            with Playbook.open(place / "book.db"):
                pass
            with suppress_full(), (place / "filler").open("wb") as filler:
                while True:
                    filler.write(b"x" * 4_096)
                    filler.flush()
        yield made
    finally:
        if made:
            subprocess.run(["umount", "-l", place], check=False)


@contextmanager
def suppress_full() -> Iterator[None]:
    """Let the disk be full."""
    try:
        yield
    except OSError as error:
        if error.errno != 28:
            raise


def asked(folder: Path, command: Sequence[str]) -> tuple[int | None, str, float]:
    """Return exit code, what was said and the seconds of one command; no code where it goes on after 20 s."""
    kept = {name: value for name, value in os.environ.items() if "KEY" not in name and not name.startswith("ACE_")}
    environment = kept | {"COLUMNS": "200", "HF_HUB_OFFLINE": "1", "XDG_CONFIG_HOME": str(folder)}
    begun = time.monotonic()
    try:
        done = subprocess.run(
            [sys.executable, "-m", "ace", *command], cwd=folder, env=environment, capture_output=True, text=True,
            input="Look\n", timeout=20,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return None, "", time.monotonic() - begun
    return done.returncode, (done.stdout + done.stderr).strip(), time.monotonic() - begun


def cases(port: int, live: int, full: bool) -> Iterator[tuple[str, str, tuple[str, ...], str]]:
    """Yield the command, what is wrong, the words of the command, and what it has to say."""
    for name, words in COMMANDS.items():
        for wrong, (model, says) in MODELS.items() if name != "serve" else ():
            book = ("--playbook", "new.db") if name == "learn" else ()
            model = tuple(part.format(port=port, live=live) for part in model)
            yield name, wrong, (*words, *book, "--lm", *model), says.format(port=port)
        for wrong, (file, says) in BOOKS.items() if name != "optimize" else ():
            if (wrong == "full-disk" and not (full and name in MAKING)) or (wrong == "no-book" and name in MAKING):
                continue
            book = (file,) if name == "serve" else ("--playbook", file, "--lm", "bedrock/not-asked")
            yield name, wrong, (*words, *book), says
    for wrong, (file, says) in BOOKS.items():
        if wrong != "full-disk":
            yield "arms", wrong, ("evaluate", "office", "--arms", f"none,old={file}", "--lm", "bedrock/not-asked"), says
    yield "arms", "dead-port", ("evaluate", "office", "--arms", "a=lm:ollama_chat/x"), "no model server answers"


def main(only: list[str] | None = None) -> dict[str, Any]:
    """Start all, look, and return the report."""
    rows: list[dict[str, object]] = []
    with (
        tempfile.TemporaryDirectory() as name,
        books(Path(name)),
        full_disk(Path(name)) as full,
        live_server() as live,
    ):
        for command, wrong, words, says in cases(free_port(), live, full):
            if only and not {command, wrong} & set(only):
                continue
            code, said, seconds = asked(Path(name), words)
            right = code == 1 and said.startswith("error: ") and "\n" not in said and says in said
            rows.append(
                {
                    "command": command,
                    "wrong": wrong,
                    "right": right,
                    "code": code,
                    "said": said[-400:],
                    "seconds": seconds,
                }
            )
    return {
        "asked": len(rows),
        "not_right": sum(not row["right"] for row in rows),
        "most_seconds": max(float(str(row["seconds"])) for row in rows),
        "rows": rows,
    }


if __name__ == "__main__":
    command(main)
