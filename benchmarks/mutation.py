"""A mutation run: small wrong changes, and whether a test notices.

``python -m benchmarks.mutation OUT.json [--part run] [--sample 240] [--seed 0] [--workers 1] [--kept]``. Parts: ``run`` is
policy, budget and the state machine; ``memory`` is playbook, learner and statistics. Each mutant runs in a process forked
from one that has imported DSPy, against the tests that reach its line (found once, with coverage.py), nearest first; one
that makes a test hang counts as caught, one that no test reaches survives. What was tried is kept in ``evidence/``, so that
an interrupted run goes on. Survivors are listed with file, line and change; those that change nothing anybody could see
stand one by one, with the reason, in ``mutation_equivalents.toml``. Exit code 1 if fewer than 85 % are noticed.

``--kept`` shows what ``mutation_memory.json`` holds, and fails when it is not of the code as it is, comments and docstrings
aside, or of fewer than 200 mutants.
"""

from __future__ import annotations

import argparse
import ast
import importlib
import importlib.abc
import importlib.util
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import tomllib
import traceback
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple

from rich.console import Console
from rich.progress import track

from benchmarks.structure import numbers_of_code

ROOT = Path(__file__).resolve().parent.parent
KEPT, EQUIVALENTS = ROOT / "benchmarks" / "mutation_memory.json", ROOT / "benchmarks" / "mutation_equivalents.toml"
TRIED = ROOT / "evidence"
SAMPLE = 200
"""Mutants that a kept run has at least: of a few, all are noticed by luck."""
LEAST_KILLED = 85
"""Percent."""


class Mutant(NamedTuple):
    """One wrong change."""

    file: str
    number: int
    """Among the places of the file as it is."""
    line: int
    source: str
    code: str
    change: str
    nth: int = 1
    """Among changes of the same words."""

    @property
    def what(self) -> tuple[str, ...]:
        """What tells it from others, whatever is written above it."""
        return (self.file, self.source, self.code, self.change)

    @property
    def name(self) -> str:
        """`what` as one string, and which of several it is."""
        return " | ".join((*self.what, str(self.nth)))

    def rank(self, seed: int) -> str:
        """Return where a seed puts it: changes elsewhere move it neither into a sample nor out of it."""
        return sha256(f"{seed} {self.name}".encode()).hexdigest()


@dataclass(frozen=True)
class Part:
    """Code that is changed, and the tests that should notice."""

    code: tuple[str, ...]
    """Files, or folders with all their modules."""
    tests: tuple[str, ...]

    @property
    def files(self) -> list[str]:
        """Every module."""
        found: list[str] = []
        for name in self.code:
            path = ROOT / name
            inside = sorted(path.rglob("*.py")) if path.is_dir() else [path]
            found += [str(one.relative_to(ROOT)) for one in inside if "migrations" not in one.parts]
        return found

    @property
    def digest(self) -> str:
        """Of the files as they are."""
        return sha256(b"".join((ROOT / file).read_bytes() for file in self.files)).hexdigest()

    @property
    def code_digest(self) -> str:
        """Of the lines that hold code: no mutant depends on comments and docstrings."""
        texts = [(ROOT / file).read_text(encoding="utf-8") for file in self.files]
        kept = [text.splitlines()[number - 1] for text in texts for number in numbers_of_code(text)]
        return sha256("\n".join(kept).encode()).hexdigest()

    @property
    def tests_digest(self) -> str:
        """Of the code and the tests, short."""
        tests = sorted(path for name in self.tests for path in _inside(ROOT / name))
        text = self.digest + "".join(path.read_text(encoding="utf-8") for path in tests)
        return sha256(text.encode()).hexdigest()[:16]

    def mutants(self) -> list[Mutant]:
        """Make every mutant that could be made, in an order that a seed decides and other code does not change."""
        found: list[Mutant] = []
        for file in self.files:
            text = (ROOT / file).read_text(encoding="utf-8")
            lines, seen = text.splitlines(), Counter[tuple[str, ...]]()
            for number, (node, how) in enumerate(places(ast.parse(text))):
                one = Mutant(file, number, node.lineno, lines[node.lineno - 1].strip(), ast.unparse(node)[:120], how)
                seen[one.what] += 1
                found.append(one._replace(nth=seen[one.what]))
        return found


PARTS = {
    "run": Part(
        (
            "ace/core/usage.py",
            "ace/agent/policy.py",
            "ace/agent/retry.py",
            "ace/agent/breaker.py",
            "ace/agent/progress.py",
            "ace/agent/states.py",
            "ace/agent/machine.py",
            "ace/agent/record.py",
        ),
        ("tests/agent", "tests/core", "tests/laws/test_run_laws.py", "tests/react"),
    ),
    "memory": Part(
        ("ace/playbook", "ace/learner", "ace/evaluation/stats"),
        (
            "tests/playbook",
            "tests/learner",
            "tests/curator",
            "tests/reflector",
            "tests/evaluation",
            "tests/react",
            "tests/graph",
            "tests/cli",
            "tests/dropin/test_memory.py",
            "tests/laws/test_playbook_laws.py",
        ),
    ),
}
_KEY = ("file", "source", "code", "change")
SECONDS = 900
"""For all tests of a mutant; each test has 30 of its own."""
REWRITE = "ignore::pytest.PytestAssertRewriteWarning"
COMPARE: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In,
}  # fmt: skip
ARITHMETIC: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Add, ast.Pow: ast.Mult, ast.Div: ast.Mult,
}  # fmt: skip


def places(tree: ast.Module) -> Iterator[tuple[ast.AST, str]]:
    """Yield nodes that can be changed, and how."""
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
    """Change the node in place; return a new one where that is needed."""
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
        """Find only the one module."""
        return importlib.util.spec_from_file_location(name, self.path, loader=self) if name == self.module else None

    def create_module(self, spec: Any) -> None:
        """Leave it to the default."""

    def exec_module(self, module: Any) -> None:
        """Run the changed code."""
        exec(self.code, module.__dict__)


# -- which tests reach a line ----------------------------------------------------------------------------------------------


def reached(part: Part) -> dict[str, dict[int, list[str]]]:
    """Find by file and line the tests that run it; line 0 holds all tests of the file. Measured once for a state of the
    code."""
    known = TRIED / f"reached-{part.tests_digest}.json"
    if not known.exists():
        known.parent.mkdir(exist_ok=True)
        with tempfile.TemporaryDirectory() as folder:
            data = Path(folder) / "data"
            command = [
                sys.executable,
                "-m",
                "coverage",
                "run",
                f"--data-file={data}",
            ]
            plugin = [
                "-m",
                "pytest",
                "-q",
                "-p",
                "benchmarks.coverage_contexts",
                "-p",
                "no:cacheprovider",
                "-m",
                "not full",
            ]
            done = subprocess.run([*command, *plugin, *part.tests], cwd=ROOT, stdout=sys.stderr)
            if done.returncode:
                raise SystemExit("the tests fail without any change; mend them first")
            known.write_text(json.dumps(_by_line(data, part.files)), encoding="utf-8")
    found = json.loads(known.read_text(encoding="utf-8"))
    return {file: {int(line): names for line, names in lines.items()} for file, lines in found.items()}


def _inside(path: Path) -> Iterable[Path]:
    return path.rglob("*.py") if path.is_dir() else [path]


def _by_line(data: Path, files: Iterable[str]) -> dict[str, dict[int, list[str]]]:
    from coverage import CoverageData

    measured = CoverageData(basename=str(data))
    measured.read()
    found: dict[str, dict[int, list[str]]] = {}
    for file in measured.measured_files() & {str(ROOT / file) for file in files}:
        lines = {line: sorted(filter(None, names)) for line, names in measured.contexts_by_lineno(file).items()}
        everything = sorted({name for names in lines.values() for name in names})
        found[str(Path(file).relative_to(ROOT))] = {0: everything, **lines}
    return found


def tests_of(file: str, node: ast.AST, lines: dict[int, list[str]]) -> list[str]:
    """Choose the tests that reach a node, those of its own module first; of what runs at import, all of the file's tests."""
    first = getattr(node, "lineno", 0)
    reach = [name for line in range(first, getattr(node, "end_lineno", first) + 1) for name in lines.get(line, ())]
    names = dict.fromkeys(reach or (lines.get(0, ()) if first in lines else ()))
    own = f"test_{Path(file).name}"
    return sorted(names, key=lambda name: (own not in name, name))


# -- trying ------------------------------------------------------------------------------------------------------------


def survives(file: str, number: int, tests: list[str]) -> bool:
    """Check whether none of some tests notices the nth change of a file; run in a child."""
    if not tests:
        return True
    pid = os.fork()
    if pid == 0:
        quiet = os.open(os.environ.get("MUTATION_LOG", os.devnull), os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.dup2(quiet, 1)
        os.dup2(quiet, 2)
        os.setpgid(0, 0)
        try:
            tree = ast.parse((ROOT / file).read_text(encoding="utf-8"))
            node, how = list(places(tree))[number]
            tree = Swap(node, how).visit(tree)
            code = compile(ast.fix_missing_locations(tree), file, "exec")
            module = file.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
            sys.meta_path.insert(0, Mutated(module, code, ROOT / file))
            import pytest

            words = ["-x", "-q", "-p", "no:cacheprovider", "-m", "not full", "--timeout", "30", "-W", REWRITE]
            os._exit(int(pytest.main([*words, *tests])))
        except BaseException:
            if os.environ.get("MUTATION_LOG"):
                traceback.print_exc()
            os._exit(1)  # it does not even import
    until = time.monotonic() + SECONDS
    while time.monotonic() < until:
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            return os.WIFEXITED(status) and os.WEXITSTATUS(status) == 0
        time.sleep(0.02)
    os.killpg(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    return False


@dataclass(frozen=True)
class Tried:
    """Mutants that were tried, on disk as they come: what was noticed stays so, survivors are tried again by other tests."""

    path: Path
    tests: str
    """Digest of the tests."""

    def known(self) -> dict[str, bool]:
        """Read by mutant whether it survived."""
        if not self.path.exists():
            return {}
        rows = [json.loads(line) for line in self.path.read_text(encoding="utf-8").splitlines() if line.endswith("}")]
        return {row["mutant"]: row["survives"] for row in rows if not row["survives"] or row["tests"] == self.tests}

    def add(self, mutant: str, survived: bool) -> None:
        """Add one more."""
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps({"mutant": mutant, "survives": survived, "tests": self.tests}) + "\n")


def equivalents() -> set[tuple[str, ...]]:
    """Read file, line of code, what is changed in it and how, of mutants that were shown to change nothing."""
    rows = tomllib.loads(EQUIVALENTS.read_text(encoding="utf-8")).get("mutant", [])
    return {tuple(row[name] for name in _KEY) for row in rows if row["why"]}


def tried(part: Part, chosen: list[Mutant], workers: int, log: Path) -> dict[str, bool]:
    """Try what was not tried yet."""
    lines, kept = reached(part), Tried(log, part.tests_digest)
    known = kept.known()
    left = [mutant for mutant in chosen if mutant.name not in known]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for slow in ("dspy", "faiss", "onnxruntime", "sqlalchemy", "pytest", "hypothesis"):  # once, for all forks
            importlib.import_module(slow)
    trees = {
        file: list(places(ast.parse((ROOT / file).read_text(encoding="utf-8")))) for file in {m.file for m in chosen}
    }

    def one(mutant: Mutant) -> None:
        tests = tests_of(mutant.file, trees[mutant.file][mutant.number][0], lines.get(mutant.file, {}))
        known[mutant.name] = survives(mutant.file, mutant.number, tests)
        kept.add(mutant.name, known[mutant.name])

    with ThreadPoolExecutor(workers) as pool:
        list(track(pool.map(one, left), "mutants", total=len(left), console=Console(stderr=True)))
    return known


def report_of(part: Part, sample: int, seed: int, workers: int, name: str) -> dict[str, Any]:
    """Draw mutants, try them, and count."""
    everything = part.mutants()
    chosen = sorted(everything, key=lambda mutant: mutant.rank(seed))[: sample or None]
    found = tried(part, chosen, workers, TRIED / f"mutants-{name}-{part.digest[:16]}.jsonl")
    same = equivalents()
    survivors = [
        {**{key: getattr(one, key) for key in (*_KEY, "line")}, "equivalent": one.what in same}
        for one in chosen
        if found[one.name]
    ]
    left = sum(not row["equivalent"] for row in survivors)
    counted = len(chosen) - len(survivors) + left
    return {
        "code": part.code_digest,
        "mutants": len(chosen),
        "of": len(everything),
        "counted": counted,
        "killed_percent": 100 * (1 - left / counted),
        "survivors": survivors,
        "share": left / counted,
    }


def main() -> int:
    """Try, write, and print what survived."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("target", type=Path)
    parser.add_argument("--part", choices=PARTS, default="run")
    parser.add_argument("--sample", type=int, default=240, help="mutants to try; 0 for all")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--workers", type=int, default=1, help="mutants at once")
    parser.add_argument("--kept", action="store_true", help="only show what is kept, if it is of this code")
    given = parser.parse_args()
    os.chdir(ROOT)
    part = PARTS[given.part]
    if given.kept:
        report = json.loads(KEPT.read_text(encoding="utf-8"))
        if report["code"] != part.code_digest:
            print(f"{KEPT.name} is older than the code that it is about; run: make mutation", file=sys.stderr)
            return 1
        if report["mutants"] < SAMPLE:
            print(
                f"{KEPT.name} holds {report['mutants']} mutants, fewer than {SAMPLE}; run: make mutation",
                file=sys.stderr,
            )
            return 1
    else:
        report = report_of(part, given.sample, given.seed, given.workers, given.part)
    given.target.write_text(json.dumps(report, indent=1), encoding="utf-8")
    left = [row for row in report["survivors"] if not row["equivalent"]]
    print(
        f"{report['killed_percent']:.1f} % of {report['counted']} mutants are noticed; {len(left)} survive, and "
        f"{report['mutants'] - report['counted']} more change nothing; {report['of']} could be made"
    )
    for row in left:
        print(f"  {row['file']}:{row['line']} {row['change']}: {row['code']}")
    # of a kept run its claim judges the figure
    if not given.kept and report["killed_percent"] < LEAST_KILLED:
        print(f"{report['killed_percent']:.1f} % are noticed, fewer than {LEAST_KILLED} %", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
