"""DSPy's own tests of `dspy.ReActV2` with the class replaced: ``python -m benchmarks.dropin.dspy_tests DATA OUT.json``.

``DATA/dspy_tests/test_react_v2.py`` is read, changed by exactly the rows of a table in docs/migrating.md, and run by pytest
in a folder of its own. The same file runs unchanged beside it: only tests that DSPy's own class passes here count.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import Any

from benchmarks.command import command

PARTS = ("react", "tools")
WORDS = {"submit": "completed", "Unknown tool": "There is no tool"}
"""What ends a run, and what the model is told of a tool that there is not, by their names here."""
CONFTEST = """
import pytest

@pytest.fixture
def anyio_backend():
    return "asyncio"
"""


class Replaced(ast.NodeTransformer):
    """The allowed differences, and nothing else."""

    def __init__(self) -> None:
        self._native = False

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        """Give a tool, a function inside a test, a docstring."""
        self.generic_visit(node)
        for inner in node.body:
            if isinstance(inner, ast.FunctionDef) and ast.get_docstring(inner) is None:
                inner.body.insert(0, ast.Expr(ast.Constant(f"The tool {inner.name}.")))
        return node

    def visit_With(self, node: ast.With) -> ast.AST:
        """Ask for native calling at the agent, not at the adapter."""
        before, self._native = self._native, "use_native_function_calling=True" in ast.unparse(node.items[0])
        self.generic_visit(node)
        self._native = before
        return node

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        """Replace ``react.tools`` by ``react.agent.tools``, and ``dspy.ReActV2`` by ours."""
        self.generic_visit(node)
        owner = node.value
        if isinstance(owner, ast.Name) and owner.id == "dspy" and node.attr == "ReActV2":
            return ast.Name("ReActGenerator", ast.Load())
        if isinstance(owner, ast.Name) and owner.id == "react" and node.attr in PARTS:
            node.value = ast.Attribute(owner, "agent", ast.Load())
        return node

    def visit_Call(self, node: ast.Call) -> ast.AST:
        """Set DSPy's default of iterations, and native calling where the test has it."""
        self.generic_visit(node)
        if isinstance(node.func, ast.Name) and node.func.id == "ReActGenerator":
            node.keywords.append(ast.keyword("max_iters", ast.Constant(20)))
            if self._native:
                node.keywords.append(ast.keyword("tool_calling", ast.Constant("native")))
        return node

    def visit_Compare(self, node: ast.Compare) -> ast.AST:
        """Replace a few words by others."""
        self.generic_visit(node)
        sides = [node.left, *node.comparators]
        if any("termination_reason" in ast.unparse(side) or side.__class__ is ast.Constant for side in sides):
            for side in sides:
                if isinstance(side, ast.Constant) and side.value in WORDS:
                    side.value = WORDS[side.value]
        return node


def replaced(source: str) -> str:
    """Rewrite DSPy's tests for `ReActGenerator`."""
    tree = ast.fix_missing_locations(Replaced().visit(ast.parse(source)))
    return "from ace import ReActGenerator\n" + ast.unparse(tree)


def outcomes(source: str) -> dict[str, str]:
    """Test name to ``passed``, ``failed`` or ``skipped``."""
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        (home / "conftest.py").write_text(CONFTEST, encoding="utf-8")
        # DSPy's own plug-in for async tests is not installed; anyio's does the same
        source = re.sub(r"pytest\.mark\.asyncio", "pytest.mark.anyio", source)
        (home / "test_react_v2.py").write_text(source, encoding="utf-8")
        (home / "pytest.ini").write_text("[pytest]\nmarkers =\n    extra: needs more packages\n", encoding="utf-8")
        command = [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "-p",
            "no:cacheprovider",
            "--junitxml=out.xml",
            "test_react_v2.py",
        ]
        subprocess.run(command, cwd=home, capture_output=True, check=False)
        found: dict[str, str] = {}
        for case in ElementTree.parse(home / "out.xml").getroot().iter("testcase"):
            kinds = {child.tag for child in case}
            failed = kinds & {"failure", "error"}
            found[str(case.get("name"))] = "failed" if failed else "skipped" if "skipped" in kinds else "passed"
        return found


def main(data: Path) -> dict[str, Any]:
    """Run both, count, and return the report."""
    source = (data / "dspy_tests" / "test_react_v2.py").read_text(encoding="utf-8")
    theirs, ours = outcomes(source), outcomes(replaced(source))
    counted = [name for name, outcome in theirs.items() if outcome == "passed"]
    return {
        "counted": len(counted),
        "passed": sum(ours.get(name) == "passed" for name in counted),
        "not_passed": [name for name in counted if ours.get(name) != "passed"],
        "not_counted": [name for name in theirs if name not in counted],
    }


if __name__ == "__main__":
    command(main)
