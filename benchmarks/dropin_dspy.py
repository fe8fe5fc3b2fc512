"""DSPy's own tests of `dspy.ReAct` with the class replaced: ``python benchmarks/dropin_dspy.py DATA OUT.json``.

``DATA/dspy_tests/test_react.py`` is read, changed by exactly the rows of a table in docs/migrating.md, and run by pytest
in a folder of its own: ``dspy.ReAct`` becomes `ReActGenerator`, tools get a docstring and annotations where they lack them,
the parts of the wrapped ReAct are found at ``.agent``, and ``max_iters`` is DSPy's 20. The same file runs unchanged beside
it: only tests that plain `dspy.ReAct` passes here count.
"""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ElementTree
from pathlib import Path

PARTS = ("react", "extract", "truncate_trajectory", "_call_with_potential_trajectory_truncation")
CONFTEST = """
import pytest

@pytest.fixture
def anyio_backend():
    return "asyncio"
"""


class Replaced(ast.NodeTransformer):
    """The allowed differences, and nothing else."""

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        """A tool: a function inside a test that stands for no part of ReAct."""
        self.generic_visit(node)
        for inner in node.body:
            if isinstance(inner, (ast.FunctionDef, ast.AsyncFunctionDef)) and not inner.args.kwarg:
                self._as_tool(inner)
        return node

    visit_AsyncFunctionDef = visit_FunctionDef  # type: ignore[assignment]

    def _as_tool(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        if ast.get_docstring(node) is None:
            node.body.insert(0, ast.Expr(ast.Constant(f"The tool {node.name}.")))
        for argument in node.args.args:
            argument.annotation = argument.annotation or ast.Name("int", ast.Load())

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        """``react.extract`` is ``react.agent.extract``; ``dspy.ReAct`` is ours."""
        self.generic_visit(node)
        owner = node.value
        if isinstance(owner, ast.Name) and owner.id == "dspy" and node.attr == "ReAct":
            return ast.Name("ReActGenerator", node.ctx if isinstance(node.ctx, ast.Load) else ast.Load())
        if isinstance(owner, ast.Name) and owner.id == "react" and node.attr in PARTS:
            node.value = ast.Attribute(owner, "agent", ast.Load())
        return node

    def visit_Call(self, node: ast.Call) -> ast.AST:
        """DSPy's default of iterations."""
        self.generic_visit(node)
        named = isinstance(node.func, ast.Name) and node.func.id == "ReActGenerator"
        if named and not any(keyword.arg == "max_iters" for keyword in node.keywords):
            node.keywords.append(ast.keyword("max_iters", ast.Constant(20)))
        return node


def replaced(source: str) -> str:
    """DSPy's tests over `ReActGenerator`."""
    tree = ast.fix_missing_locations(Replaced().visit(ast.parse(source)))
    return "from ace import ReActGenerator\n" + ast.unparse(tree)


def outcomes(source: str) -> dict[str, str]:
    """Test name to ``passed``, ``failed`` or ``skipped``."""
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        (home / "conftest.py").write_text(CONFTEST, encoding="utf-8")
        # DSPy's own plug-in for async tests is not installed; anyio's does the same
        source = re.sub(r"pytest\.mark\.asyncio", "pytest.mark.anyio", source)
        (home / "test_react.py").write_text(source, encoding="utf-8")
        (home / "pytest.ini").write_text("[pytest]\nmarkers =\n    extra: needs more packages\n", encoding="utf-8")
        command = [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "-p",
            "no:cacheprovider",
            "--junitxml=out.xml",
            "test_react.py",
        ]
        subprocess.run(command, cwd=home, capture_output=True, check=False)
        found: dict[str, str] = {}
        for case in ElementTree.parse(home / "out.xml").getroot().iter("testcase"):
            kinds = {child.tag for child in case}
            failed = kinds & {"failure", "error"}
            found[str(case.get("name"))] = "failed" if failed else "skipped" if "skipped" in kinds else "passed"
        return found


def main() -> None:
    """Run both, count, write."""
    source = (Path(sys.argv[1]) / "dspy_tests" / "test_react.py").read_text(encoding="utf-8")
    theirs, ours = outcomes(source), outcomes(replaced(source))
    counted = [name for name, outcome in theirs.items() if outcome == "passed"]
    report = {
        "counted": len(counted),
        "passed": sum(ours.get(name) == "passed" for name in counted),
        "not_passed": [name for name in counted if ours.get(name) != "passed"],
        "not_counted": [name for name in theirs if name not in counted],
    }
    print(json.dumps(report, indent=2))
    Path(sys.argv[2]).write_text(json.dumps(report), encoding="utf-8")


if __name__ == "__main__":
    main()
