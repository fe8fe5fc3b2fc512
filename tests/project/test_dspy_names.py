"""What of DSPy the package uses: public names alone, and nothing that DSPy 3.5 takes away."""

from __future__ import annotations

import ast
from pathlib import Path

import ace

ROOT = Path(ace.__file__).parent
WITH_ITS_JOBS = {"optimization/journal.py: dspy._vendor.lm15.serde"}
"""The journal of a job stores requests; DSPy shows no public way to write one as JSON."""


def imported(tree: ast.AST) -> set[str]:
    """The modules that a file imports, with the names from them."""
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            found |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return found


def uses(source: str) -> set[str]:
    """The imports that will not last."""
    names = imported(ast.parse(source))
    private = {n for n in names if n.split(".")[0] == "dspy" and any(p.startswith("_") for p in n.split(".")[1:])}
    gone = {n for n in names if n.startswith("dspy.predict.react") or n.split(".")[0] in ("litellm", "openai")}
    return private | gone


def test_finds_what_will_not_last():
    assert uses("import litellm\nfrom dspy.predict.react import ReAct\nfrom dspy.x import _y\nimport dspy\n") == {
        "litellm",
        "dspy.predict.react",
        "dspy.predict.react.ReAct",
        "dspy.x._y",
    }


def test_uses_public_names_of_dspy_alone():
    found = {
        f"{path.relative_to(ROOT)}: {name}"
        for path in ROOT.rglob("*.py")
        for name in uses(path.read_text(encoding="utf-8"))
    }
    assert {name for name in found if not name.startswith(tuple(WITH_ITS_JOBS))} == set()
