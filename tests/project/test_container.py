"""The steps of the Dockerfile, run as a script in an empty environment: a container engine is not on every machine."""

import fnmatch
import json
import os
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

import pytest
from conftest import ROOT

NOBODY = 65534


def steps():
    """Instruction to its words; the last one counts."""
    lines = [line for line in (ROOT / "Dockerfile").read_text(encoding="utf-8").splitlines() if line and line[0] != "#"]
    return {name: words for name, _, words in (line.partition(" ") for line in lines)}


def reachable(path):
    """Whether everybody may start a program."""
    path = Path(path).resolve()
    return path.exists() and all(parent.stat().st_mode & 0o001 for parent in (path, *path.parents))


def context(target):
    """Copy what `docker build` would send."""
    left_out = [pattern.removeprefix("**/") for pattern in (ROOT / ".dockerignore").read_text().split()]

    def ignored(folder, names):
        deep = {"__pycache__"}
        return [
            n for n in names if n in deep or (Path(folder) == ROOT and any(fnmatch.fnmatch(n, p) for p in left_out))
        ]

    shutil.copytree(ROOT, target, ignore=ignored, symlinks=True)


@pytest.mark.full
def test_the_image_serves_a_book_as_nobody_and_stops_without_loss():
    said, python = steps(), next((p for p in ("/usr/bin/python3", sys.executable) if reachable(p)), None)
    apart = os.geteuid() == 0 and python is not None
    place = Path(tempfile.mkdtemp(prefix="ace-image-"))
    place.chmod(0o755)
    try:
        context(place / "src")
        subprocess.run([python or sys.executable, "-m", "venv", place / "env"], check=True)
        kept = {name: value for name, value in os.environ.items() if name.startswith("PIP_")}
        environment = {**kept, "PATH": f"{place}/env/bin:/usr/bin:/bin", "HOME": str(place)}

        def there(words):
            return words.replace("/src", f"{place}/src").replace("/data", f"{place}/data")

        script = there(said["RUN"]) if apart else there(said["RUN"]).replace("chown nobody", "ls -d")
        subprocess.run(["/bin/bash", "-ec", script], cwd=place / "src", env=environment, check=True)
        assert not list((place / "src").glob("*.py")), "what it was built from is gone"
        data = place / "data"
        (data / "tokens.toml").write_text('[ana]\ntoken = "token-of-ana-0123456789"\n')
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = str(free.getsockname()[1])
        environment |= dict(word.split("=", 1) for word in shlex.split(there(said["ENV"])))
        command = [*json.loads(said["ENTRYPOINT"]), *json.loads(said["CMD"]), "--port", port]
        assert said["USER"] == "nobody"
        who = {"user": NOBODY, "group": NOBODY, "extra_groups": []} if apart else {}
        with subprocess.Popen(
            command, cwd=data, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, **who
        ) as server:
            looks = json.loads(said["HEALTHCHECK"].removeprefix("CMD ").replace("8137", port))
            deadline = time.monotonic() + 60
            while subprocess.run(looks, env=environment, capture_output=True).returncode:
                assert server.poll() is None, server.stdout.read()
                assert time.monotonic() < deadline
                time.sleep(0.2)
            asked = urllib.request.Request(
                f"http://localhost:{port}/lessons", headers={"authorization": "Bearer token-of-ana-0123456789"}
            )
            assert b"0 lessons" in urllib.request.urlopen(asked, timeout=10).read()
            assert (data / "team.db").stat().st_uid == (NOBODY if apart else os.geteuid())
            server.send_signal(signal.Signals[said["STOPSIGNAL"]])
            log = server.communicate(timeout=20)[0].decode()
        assert server.returncode == 0, log
        assert '"path": "/lessons"' in log
        assert "Traceback" not in log
    finally:
        shutil.rmtree(place, ignore_errors=True)


def test_the_image_is_small_and_nobodys():
    said = steps()
    assert said["FROM"].startswith("python:3.")
    assert said["USER"] == "nobody"
    for name in (".git", ".venv", ".venv-matrix", ".hypothesis", "test-artefacts", "dist", "ace-demo"):
        assert any(fnmatch.fnmatch(name, pattern) for pattern in (ROOT / ".dockerignore").read_text().split()), name
