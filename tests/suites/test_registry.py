"""A suite that another package registers is a suite like ours: listed, checked, evaluated."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import ROOT

from ace.core import SuiteError
from ace.suites import load_suite


def installed(folder):
    """The suite of docs/suites.md as an installed package."""
    text = (ROOT / "docs" / "suites.md").read_text(encoding="utf-8")
    (module,) = [block for block in re.findall(r"^```python\n(.*?)^```$", text, re.M | re.S) if "class Lamps" in block]
    assert len([line for line in module.splitlines() if line.strip()]) < 30, "a complete suite takes less than 30 lines"
    (toml,) = re.findall(r"^```toml\n(.*?)^```$", text, re.M | re.S)
    (folder / "lamps.py").write_text(module, encoding="utf-8")
    info = folder / "lamps-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: lamps\nVersion: 1.0\n")
    names = re.findall(r'^(\w+) = "(.*)"$', toml, re.M)
    (info / "entry_points.txt").write_text("[ace.suites]\n" + "".join(f"{a} = {b}\n" for a, b in names))


def ace(folder, *words):
    done = subprocess.run(
        [Path(sys.executable).with_name("ace"), *words],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(folder), "COLUMNS": "200"},
        capture_output=True,
        text=True,
        timeout=300,
    )
    return done.returncode, done.stdout + done.stderr


def test_a_package_registers_a_suite(tmp_path):
    installed(tmp_path)
    assert "lamps[:ARGUMENT]: Lamps of a building: lamps:ROOM,ROOM." in ace(tmp_path, "suite", "list")[1]
    code, text = ace(tmp_path, "suite", "check", "lamps:kitchen,hall,attic")
    assert code == 0, text
    assert "3 tasks: 3 gold plans run" in text
    code, text = ace(
        tmp_path, "evaluate", "lamps", "--lm", "simulated:oracle", "--arms", "none,gold", "--json", "o.json"
    )
    assert code == 0, text
    assert "simulated" in text


@pytest.mark.parametrize("name", ["Lamps", "lamps"])
def test_a_suite_of_a_file_is_a_class_or_a_loader(tmp_path, name):
    installed(tmp_path)
    assert "2 tasks: 2 gold plans run" in ace(tmp_path, "suite", "check", f"lamps.py:{name}")[1]


def test_a_loader_that_fails_is_named(tmp_path):
    (tmp_path / "own.py").write_text("def mine():\n    return 1 / 0\n", encoding="utf-8")
    code, text = ace(tmp_path, "suite", "check", "own.py:mine")
    assert code == 1
    assert "'mine' in 'own.py' fails: ZeroDivisionError" in " ".join(text.split())


def test_a_broken_package_is_named(tmp_path):
    installed(tmp_path)
    (tmp_path / "lamps.py").write_text("import nothing_of_this_name\n")
    code, text = ace(tmp_path, "suite", "check", "lamps")
    assert code == 1
    assert "'lamps' is registered as 'lamps:lamps', which fails" in text


def test_an_unknown_suite_says_what_there_is():
    with pytest.raises(SuiteError, match=r"no suite 'nowhere'; expected office, tau:FOLDER"):
        load_suite("nowhere")
