"""Without the extra `graph`, one line says what to install, and nothing else in `ace` changes."""

from __future__ import annotations

import subprocess
import sys

HIDDEN = """
import sys, importlib.abc

class Hidden(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("langgraph", "langchain_core", "langsmith"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Hidden())
"""


def python(code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", HIDDEN + code], capture_output=True, text=True, timeout=600)


def test_one_line_says_what_to_install():
    done = python("import ace.graph")
    assert done.returncode == 1
    assert (
        done.stderr.splitlines()[-1] == "ModuleNotFoundError: ace.graph needs LangGraph: pip install 'dspy-ace[graph]'"
    )
    assert "During handling" not in done.stderr


def test_everything_else_works():
    code = """
import pkgutil, importlib, ace
from ace.testing import ScriptedLM, decision
agent = ace.ReActGenerator(tools=[], lm=ScriptedLM([decision("finish", answer="42")]))
assert agent.forward("6 times 7?").answer == "42"
for found in pkgutil.walk_packages(ace.__path__, "ace.", onerror=lambda name: None):
    needs_it = found.name.startswith("ace.graph") or found.name == "ace.testing.graph_grammar"
    if not needs_it and "migrations" not in found.name and found.name != "ace.__main__":
        importlib.import_module(found.name)
print("fine")
"""
    done = python(code)
    assert done.stdout.splitlines()[-1:] == ["fine"], done.stderr[-2000:]


def test_the_library_does_not_load_langgraph_by_itself():
    code = "import sys, ace, ace.cli, ace.react.generator, ace.learner; assert not any(m.startswith('langgraph') for m in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr[-2000:]
