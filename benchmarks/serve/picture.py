"""The picture of the README: ``python -m benchmarks.serve.picture docs/inspector.png``.

A stand-in learns on the office's tasks (`ace demo`, a short one), the book is served, and Chromium looks at what an agent
would be shown for a task: all of it is real but the model, whose runs are simulated.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from playwright.sync_api import sync_playwright

from benchmarks.serve.browser import chromium

TASK = "Refund the order that Maya received, it is broken"


def main() -> None:
    """Learn, serve, look."""
    out = Path(sys.argv[1])
    environment = {**os.environ, "COLUMNS": "200"}
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "demo.json"
        demo = [sys.executable, "-m", "ace", "demo", "--epochs", "6", "--seeds", "1", "--out", folder]
        subprocess.run([*demo, "--json", str(report)], check=True, env=environment)
        book = json.loads(report.read_text(encoding="utf-8"))["playbook_path"]
        serve = [sys.executable, "-m", "ace", "serve", book, "--port", "0", "--no-browser", "--author", "ana"]
        server = subprocess.Popen(serve, stdout=subprocess.PIPE, text=True, env=environment)
        try:
            assert server.stdout is not None
            address = re.search(r"http\S+", server.stdout.readline())
            assert address is not None
            with sync_playwright() as playwright:
                browser = playwright.chromium.launch(executable_path=chromium(), args=["--no-sandbox"])
                page = browser.new_page(viewport={"width": 1000, "height": 640})
                time.sleep(3)
                page.goto(address[0])
                page.get_by_role("searchbox").fill(TASK)
                page.get_by_text("An agent would be shown").wait_for()
                page.wait_for_timeout(500)
                page.screenshot(path=out)
                browser.close()
        finally:
            server.terminate()
            server.wait()


if __name__ == "__main__":
    main()
