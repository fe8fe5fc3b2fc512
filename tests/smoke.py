"""What an installed package must do, in an environment with nothing else: ``python tests/smoke.py``, outside the checkout.

No pytest, no model, no network: an agent runs and learns, the next run is shown the lesson, the book is served to a browser and
over MCP, a suite is sound, and the command line answers.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from pathlib import Path

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")


def agent_and_playbook(folder: Path) -> None:
    """Two runs; what the first one taught is shown to the second."""
    from ace import Playbook, Policy, ReActGenerator, tool
    from ace.testing import ScriptedLM, decision

    @tool
    def refund(order_id: str) -> str:
        """Refund an order."""
        return f"{order_id} refunded"

    def asked(order: str) -> ScriptedLM:
        return ScriptedLM([decision("refund", order_id=order), decision("finish", answer="done")])

    with Playbook.open(folder / "book.db") as book:
        for number, shown in ((17, 0), (18, 1)):
            lm = asked(f"o-{number}")
            agent = ReActGenerator(tools=[refund], playbook=book, lm=lm, policy=Policy.lenient())
            out = agent.forward(f"Refund order o-{number}")
            assert out.answer == "done", out
            assert len(out.injected_bullets) == shown, out.injected_bullets
            agent.learn(out, success=True)
        assert book.history.verify().ok


def served(folder: Path) -> None:
    """The book in a browser's eyes, and an agent's."""
    from mcp import Client

    from ace import Playbook
    from ace.serve import People, Person, SharedMemory, WebServer, mcp_server, web_app

    with Playbook.open(folder / "book.db") as book:
        server = WebServer(web_app(book, People({"token-of-ana-0123456789": Person("ana")})))
        thread = threading.Thread(target=server.run, daemon=True)
        thread.start()
        while not server.server.started:
            time.sleep(0.05)
        request = urllib.request.Request(
            f"{server.url}/lessons?q=Refund+order+o-19", headers={"Authorization": "Bearer token-of-ana-0123456789"}
        )
        page = urllib.request.urlopen(request, timeout=30).read().decode()
        assert 'data-hit="b-1"' in page, page
        server.server.should_exit = True
        thread.join(20)

        async def recall() -> object:
            async with Client(mcp_server(SharedMemory(book, author="ana"))) as client:
                return (await client.call_tool("recall", {"task": "Refund order o-19"})).structured_content

        found = asyncio.run(recall())
        assert "b-1" in str(found), found


def command_line(folder: Path) -> None:
    """Help, a search, a suite, and what is installed."""
    for words in (
        ["--help"],
        ["playbook", "search", "book.db", "Refund order o-19"],
        ["suite", "check", "office"],
        ["doctor"],
    ):
        subprocess.run([sys.executable, "-m", "ace", *words], cwd=folder, check=True, stdout=subprocess.DEVNULL)


def main() -> None:
    """Do all of it, and say so."""
    import ace

    with tempfile.TemporaryDirectory() as name:
        for part in (agent_and_playbook, served, command_line):
            started = time.monotonic()
            part(Path(name))
            print(f"{part.__name__}: ok, {time.monotonic() - started:.1f} s")
    print(f"Python {sys.version.split()[0]}, {Path(ace.__file__).parent}")


if __name__ == "__main__":
    main()
