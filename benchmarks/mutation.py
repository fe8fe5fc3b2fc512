"""A mutation run over policy, budget and the state machine: small wrong changes, and whether a test notices.

``python benchmarks/mutation.py OUT.json [--sample 240] [--seed 0]``. Each mutant runs in a process forked from one that has
imported DSPy, against ``tests/agent`` and ``tests/core``, then, when it survives, against the laws. A mutant that makes the
tests hang counts as caught. Survivors are listed with file, line and change.
"""

from __future__ import annotations

import argparse
import ast
import importlib
import importlib.abc
import importlib.util
import json
import os
import random
import signal
import sys
import time
import traceback
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
TARGETS = (
    "ace/core/usage.py",
    "ace/agent/policy.py",
    "ace/agent/retry.py",
    "ace/agent/breaker.py",
    "ace/agent/progress.py",
    "ace/agent/states.py",
    "ace/agent/machine.py",
    "ace/agent/record.py",
)
FIRST = ["tests/agent", "tests/core"]
THEN = ["tests/laws", "tests/react"]
SECONDS = 60
REWRITE = "ignore::pytest.PytestAssertRewriteWarning"
COMPARE: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In,
}  # fmt: skip
ARITHMETIC: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Add, ast.Pow: ast.Mult, ast.Div: ast.Mult,
}  # fmt: skip


def places(tree: ast.Module) -> Iterator[tuple[ast.AST, str]]:
    """Nodes that can be changed, and how."""
    annotations = {id(n) for node in ast.walk(tree) for part in _annotations(node) for n in ast.walk(part)}
    for node in ast.walk(tree):
        if id(node) in annotations:
            continue
        if isinstance(node, ast.Compare) and type(node.ops[0]) in COMPARE:
            yield node, "compare"
        elif isinstance(node, ast.BoolOp):
            yield node, "and/or"
        elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            yield node, "drop not"
        elif isinstance(node, ast.Constant) and isinstance(node.value, bool):
            yield node, "flip"
        elif isinstance(node, ast.Constant) and isinstance(node.value, (int, float)):
            yield node, "plus one"
        elif isinstance(node, (ast.BinOp, ast.AugAssign)) and type(node.op) in ARITHMETIC:
            yield node, "arithmetic"
        elif isinstance(node, (ast.If, ast.IfExp)):
            yield node, "negate"
        elif isinstance(node, (ast.FunctionDef, ast.If, ast.For)):
            continue
    for node in ast.walk(tree):
        for name in ("body", "orelse"):
            block = getattr(node, name, None)
            if isinstance(block, list) and not isinstance(node, (ast.Module, ast.ClassDef)):
                for statement in block:
                    call = isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call)
                    if call or isinstance(statement, (ast.AugAssign, ast.Continue)):
                        yield statement, "delete"


def _annotations(node: ast.AST) -> list[ast.expr]:
    found = [getattr(node, "annotation", None), getattr(node, "returns", None)]
    return [part for part in found if part is not None]


def change(node: ast.AST, how: str) -> ast.AST:
    """The node, changed in place; a new one where that is needed."""
    if how == "compare":
        node.ops[0] = COMPARE[type(node.ops[0])]()
    elif how == "and/or":
        node.op = ast.Or() if isinstance(node.op, ast.And) else ast.And()
    elif how == "drop not":
        return node.operand
    elif how == "flip":
        node.value = not node.value
    elif how == "plus one":
        node.value = node.value + 1
    elif how == "arithmetic":
        node.op = ARITHMETIC[type(node.op)]()
    elif how == "negate":
        node.test = ast.UnaryOp(ast.Not(), node.test)
    elif how == "delete":
        return ast.Pass()
    return node


class Swap(ast.NodeTransformer):
    """Puts a changed node where the nth place was."""

    def __init__(self, target: ast.AST, how: str) -> None:
        self.target, self.how = target, how

    def visit(self, node: ast.AST) -> Any:
        """Replace the target, go on elsewhere."""
        return change(node, self.how) if node is self.target else self.generic_visit(node)


class Mutated(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Imports one module from a changed tree."""

    def __init__(self, module: str, code: Any, path: Path) -> None:
        self.module, self.code, self.path = module, code, path

    def find_spec(self, name: str, path: Any, target: Any = None) -> Any:
        """Only the one module."""
        return importlib.util.spec_from_file_location(name, self.path, loader=self) if name == self.module else None

    def create_module(self, spec: Any) -> None:
        """The default."""

    def exec_module(self, module: Any) -> None:
        """Run the changed code."""
        exec(self.code, module.__dict__)


def survives(file: str, number: int | None, suites: list[str]) -> bool:
    """Whether no test notices the nth change of a file, or none at all; run in a child."""
    pid = os.fork()
    if pid == 0:
        quiet = os.open(os.environ.get("MUTATION_LOG", os.devnull), os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.dup2(quiet, 1)
        os.dup2(quiet, 2)
        os.setpgid(0, 0)
        try:
            tree = ast.parse((ROOT / file).read_text(encoding="utf-8"))
            if number is not None:
                node, how = list(places(tree))[number]
                tree = Swap(node, how).visit(tree)
            code = compile(ast.fix_missing_locations(tree), file, "exec")
            module = file.removesuffix(".py").replace("/", ".")
            sys.meta_path.insert(0, Mutated(module, code, ROOT / file))
            import pytest

            os._exit(
                int(
                    pytest.main(
                        [
                            "-x",
                            "-q",
                            "-p",
                            "no:cacheprovider",
                            "-m",
                            "not full",
                            "--timeout",
                            "30",
                            "-W",
                            REWRITE,
                            *suites,
                        ]
                    )
                )
            )
        except BaseException:
            if os.environ.get("MUTATION_LOG"):
                traceback.print_exc()
            os._exit(1)  # it does not even import
    until = time.monotonic() + SECONDS * len(suites)
    while time.monotonic() < until:
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            return os.WIFEXITED(status) and os.WEXITSTATUS(status) == 0
        time.sleep(0.02)
    os.killpg(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    return False


def main() -> None:
    """Draw mutants, try them, write and print what survived."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("target", type=Path)
    parser.add_argument("--sample", type=int, default=240, help="mutants to try; 0 for all")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    os.chdir(ROOT)
    everything = [
        (file, number)
        for file in TARGETS
        for number, _ in enumerate(places(ast.parse((ROOT / file).read_text(encoding="utf-8"))))
    ]
    chosen = random.Random(given.seed).sample(everything, min(given.sample or len(everything), len(everything)))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for slow in ("dspy", "faiss", "sentence_transformers"):  # imported once, for all forks
            importlib.import_module(slow)

    if not all(survives(TARGETS[0], None, suites) for suites in (FIRST, THEN)):
        raise SystemExit("the tests fail without any change; mend them first")
    survivors = []
    for index, (file, number) in enumerate(chosen):
        if survives(file, number, FIRST) and survives(file, number, THEN):
            node, how = list(places(ast.parse((ROOT / file).read_text(encoding="utf-8"))))[number]
            survivors.append({"file": file, "line": node.lineno, "change": how, "code": ast.unparse(node)[:120]})
            print(f"survives: {survivors[-1]}", file=sys.stderr, flush=True)
        if index % 20 == 19:
            print(f"{index + 1} of {len(chosen)}: {len(survivors)} survive", file=sys.stderr, flush=True)
    report = {
        "mutants": len(chosen),
        "of": len(everything),
        "survivors": survivors,
        "share": len(survivors) / len(chosen),
    }
    given.target.write_text(json.dumps(report, indent=1), encoding="utf-8")
    print(f"{len(survivors)} of {len(chosen)} mutants survive ({report['share']:.1%}); {len(everything)} could be made")
    for row in survivors:
        print(f"  {row['file']}:{row['line']} {row['change']}: {row['code']}")


if __name__ == "__main__":
    main()
