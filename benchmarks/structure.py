"""Figures of the package's structure: ``python -m benchmarks.structure OUT.json``, or without a file to print them.

Lines, copied places, import circles, private imports across packages, files that waive strict types, the longest function,
base classes that one class uses, and files of benchmarks in the wheel. `tests/project/test_structure.py` holds the same
functions to their bounds, and names the exceptions.

Examples:
    python -m benchmarks.structure /tmp/structure.json
"""

from __future__ import annotations

import ast
import io
import json
import re
import subprocess
import sys
import tempfile
import tokenize
import tomllib
import zipfile
from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import combinations
from pathlib import Path
from typing import Any

from benchmarks.command import command

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "ace"
MAX_FUNCTION_LINES, MAX_WAIVERS = 100, 10
COPIED_LINES = 6
IMPORT = re.compile(r"(from \S+ )?import ")
WAIVER = re.compile(r"^# pyright: ", re.MULTILINE)
NOT_IN_WHEEL = ("workbench", "bfcl", "retrieval_bench", "playbook_bench", "recorded")
"""What the name of a file in the wheel must not hold."""
MADE = frozenset({"__pycache__", "minilm"})
"""Folders that hold no source: the embedder's weights are made by the build."""
USER_BASES = {
    "BudgetExceeded": "users catch it: it stands for every limit, that of `UsageLimitExceeded` included",
    "Agent": "users build their own agents on it: five hooks",
    "StudyObserver": "users watch a study with it: every method does nothing until it is overridden",
}
"""Base classes that one class uses today because users derive theirs or catch it."""

Tree = tuple[str, ast.Module]


def files(package: Path = PACKAGE) -> list[Path]:
    """Find every file of a package that is source or data; not what Python or the build made of it."""
    return sorted(
        path
        for path in package.rglob("*")
        if path.is_file() and path.suffix != ".pyc" and not MADE.intersection(path.parts)
    )


def modules(package: Path = PACKAGE) -> Iterator[Tree]:
    """Yield dotted name and syntax tree of each Python file."""
    for path in files(package):
        if path.suffix == ".py":
            parts = path.relative_to(package.parent).with_suffix("").parts
            yield ".".join(parts).removesuffix(".__init__"), ast.parse(path.read_text(encoding="utf-8"))


def lines(package: Path = PACKAGE) -> int:
    """Count the lines of all files, empty ones and comments included; packed data (the list of common words) has none."""
    return sum(p.read_text(encoding="utf-8").count("\n") for p in files(package) if p.suffix != ".gz")


def copied_places(root: Path = ROOT) -> list[str]:
    """Find six or more lines of Python that stand in two places, to the letter; empty lines and imports do not count.

    Of a run that stands in three places, each pair counts. Only files that git tracks are read, unless there is no git.
    """
    listed = subprocess.run(["git", "ls-files", "-z", "*.py"], cwd=root, capture_output=True, text=True)
    names = listed.stdout.split("\0")[:-1] if listed.returncode == 0 else [str(path) for path in root.rglob("*.py")]
    texts: dict[str, list[tuple[int, str]]] = {}
    starts: dict[tuple[str, ...], list[tuple[str, int]]] = defaultdict(list)
    for name in filter(lambda name: (root / name).is_file(), names):
        rows = enumerate((root / name).read_text(encoding="utf-8").splitlines(), 1)
        texts[name] = [(n, row.strip()) for n, row in rows if row.strip() and not IMPORT.match(row.strip())]
        for at in range(len(texts[name]) - COPIED_LINES + 1):
            starts[tuple(row for _, row in texts[name][at : at + COPIED_LINES])].append((name, at))

    def before(name: str, at: int) -> str | None:
        return texts[name][at - 1][1] if at else None

    pairs = [pair for places in starts.values() for pair in combinations(places, 2)]
    return [
        f"{one}:{texts[one][a][0]} ~ {other}:{texts[other][b][0]}"
        for (one, a), (other, b) in pairs
        if before(one, a) is None or before(one, a) != before(other, b)  # a longer run counts where it begins
    ]


def functions(package: Path = PACKAGE) -> list[tuple[int, str]]:
    """Return length and place of each function and method, the longest first."""
    found = [
        (node.end_lineno - node.lineno + 1, f"{name}:{node.lineno} {node.name}")
        for name, tree in modules(package)
        for node in ast.walk(tree)
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and node.end_lineno is not None
    ]
    return sorted(found, reverse=True)


def waivers(package: Path = PACKAGE) -> list[str]:
    """Find files whose header relaxes strict types, such as ``ace/react/model.py``."""
    return [
        path.relative_to(package.parent).as_posix()
        for path in files(package)
        if path.suffix == ".py" and WAIVER.search(path.read_text(encoding="utf-8"))
    ]


def import_circles(package: Path = PACKAGE) -> list[list[str]]:
    """Find modules that import each other in a circle; imports inside functions and for types count as well."""
    code = (
        "import grimp, json, sys; graph = grimp.build_graph(sys.argv[1], cache_dir=None); "
        "print(json.dumps({m: sorted(graph.find_modules_directly_imported_by(m)) for m in graph.modules}))"
    )
    # in a process of its own: grimp finds a package where Python does, and a test asks about another folder
    done = subprocess.run(
        [sys.executable, "-c", code, package.name], cwd=package.parent, capture_output=True, text=True, check=True
    )
    return circles(json.loads(done.stdout))


def circles(imports: dict[str, list[str]]) -> list[list[str]]:
    """Find strongly connected components of more than one module."""
    below = {name: _reached(imports, name) for name in imports}
    found = {tuple(sorted({name} | {o for o in below[name] if name in below[o]})) for name in imports}
    return sorted(list(group) for group in found if len(group) > 1)


def _reached(imports: dict[str, list[str]], start: str) -> set[str]:
    seen, left = set[str](), [start]
    while left:
        fresh = set(imports[left.pop()]) - seen
        seen |= fresh
        left.extend(fresh)
    return seen


def private_imports(package: Path = PACKAGE) -> list[str]:
    """Find imports of a private module or name of another first-level package."""
    found: list[str] = []
    for name, tree in modules(package):
        own = name.split(".")[:2]
        for node in ast.walk(tree):
            if isinstance(node, ast.Import):
                wanted = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom):
                source = _absolute(name, node, package)
                wanted = [f"{source}.{alias.name}" for alias in node.names]
            else:
                continue
            for target in wanted:
                parts = target.split(".")
                private = any(part.startswith("_") and not part.startswith("__") for part in parts)
                if parts[0] == package.name and private and parts[:2] != own:
                    found.append(f"{name}:{node.lineno} {target}")
    return found


def _absolute(name: str, node: ast.ImportFrom, package: Path) -> str:
    """Resolve where a ``from`` import leads."""
    if not node.level:
        return node.module or ""
    is_package = package.parent.joinpath(*name.split("."), "__init__.py").is_file()
    parts = name.split(".")
    parts = parts[: len(parts) - node.level + is_package]
    return ".".join([*parts, node.module] if node.module else parts)


def single_use_bases(package: Path = PACKAGE) -> dict[str, str]:
    """Find classes of the package that exactly one class of it derives from, each with that class.

    Protocols and `USER_BASES` stay out.
    """
    classes: dict[str, dict[str, set[str]]] = {}  # name to module to names of bases
    for name, tree in modules(package):
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                own = (base for base in node.bases if not ast.unparse(base).startswith("dspy."))
                classes.setdefault(node.name, {})[name] = {_last_name(base) for base in own}
    derived: dict[tuple[str, str], list[str]] = {}
    for name, places in classes.items():
        for module, bases in places.items():
            for base in bases & classes.keys():
                home = module if module in classes[base] else min(classes[base])
                derived.setdefault((home, base), []).append(f"{module}.{name}")
    return {
        base: users[0]
        for (home, base), users in sorted(derived.items())
        if len(users) == 1 and base not in USER_BASES and "Protocol" not in classes[base][home]
    }


def _last_name(base: ast.expr) -> str:
    """Return the last name: `Name`, `module.Name` and `Name[T]` are all called Name."""
    if isinstance(base, ast.Subscript):
        return _last_name(base.value)
    return base.attr if isinstance(base, ast.Attribute) else getattr(base, "id", "")


def build_wheel(root: Path, target: Path) -> list[str]:
    """Build the wheel of a project with its own build backend; the names of the files in it."""
    code = "import sys; from hatchling.build import build_wheel; build_wheel(sys.argv[1])"
    subprocess.run([sys.executable, "-c", code, str(target)], cwd=root, check=True, capture_output=True)
    (wheel,) = target.glob("*.whl")
    return zipfile.ZipFile(wheel).namelist()


def of_benchmarks(names: list[str]) -> list[str]:
    """Find those of a wheel's files that belong to a benchmark."""
    return [name for name in names if any(word in name.lower() for word in NOT_IN_WHEEL)]


LOOP_ROOMS = ("core", "tasks.py", "tools", "agent", "react", "testing", "__init__.py", "__main__.py")
"""The rooms of the loop, the top level included."""
MEMORY_ROOMS = ("playbook", "reflector", "curator", "learner")
"""The rooms of the memory."""


TRUST_MODULES = (
    *(f"reflector/{name}.py" for name in ("asked", "hearsay", "imperatives")),
    *(f"playbook/{name}.py" for name in ("insight", "stage_rules", "sources")),
)
"""What decides which lessons wait."""


def of_the_loop(path: str) -> bool:
    """Check whether a file, named from the project's folder, belongs to the loop's rooms."""
    return path.split("/")[1] in LOOP_ROOMS


def lines_of(rooms: Sequence[str]) -> int:
    """Count code lines of some rooms: no blank line, comment or docstring."""
    return sum(code_lines(path.read_text(encoding="utf-8")) for room in rooms for path in _python(PACKAGE / room))


def base_dependencies() -> int:
    """Count how many packages a plain installation asks for."""
    return len(tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["dependencies"])


def _python(place: Path) -> list[Path]:
    return [place] if place.is_file() else sorted(place.rglob("*.py"))


def code_lines(source: str) -> int:
    """Count the lines of a source that hold code: `code_lines("x = 1  # one")` is 1."""
    return len(numbers_of_code(source))


def numbers_of_code(source: str) -> list[int]:
    """Return the numbers of the lines that hold code, from 1: `numbers_of_code("# one\\nx = 1")` is `[2]`."""
    docstrings: set[int] = set()
    for node in ast.walk(ast.parse(source)):
        body = getattr(node, "body", None)
        for part in body if isinstance(body, list) else ():
            if (
                isinstance(part, ast.Expr)
                and isinstance(part.value, ast.Constant)
                and isinstance(part.value.value, str)
            ):
                docstrings.update(range(part.lineno, (part.end_lineno or part.lineno) + 1))
    silent = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER}
    code: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type not in silent:
            code.update(range(token.start[0], token.end[0] + 1))
    return sorted(code - docstrings)


def passing_names() -> list[str]:
    """Find imports that will not last: private names of DSPy, and the client libraries that it leaves behind."""
    found: list[str] = []
    for name, tree in modules():
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and node.module and not node.level:
                names = [f"{node.module}.{alias.name}" for alias in node.names]
            else:
                names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            found += [f"{name}: {one}" for one in names if _passing(one)]
    return found


def _passing(name: str) -> bool:
    first, *rest = name.split(".")
    private = first == "dspy" and any(part.startswith("_") for part in rest)
    return private or name.startswith("dspy.predict.react") or first in ("litellm", "openai")


def figures() -> dict[str, Any]:
    """Return everything, and by name what was found."""
    with tempfile.TemporaryDirectory() as folder:
        in_wheel = of_benchmarks(build_wheel(ROOT, Path(folder)))
    longest, where = functions()[0]
    found = {
        "copied": copied_places(),
        "circles": import_circles(),
        "private": private_imports(),
        "waivers": waivers(),
        "longest": where,
        "bases": single_use_bases(),
        "wheel": in_wheel,
    }
    return {
        "lines": lines(),
        "files": len(files()),
        "copied_places": len(found["copied"]),
        "import_circles": len(found["circles"]),
        "private_imports": len(found["private"]),
        "waivers": len(found["waivers"]),
        "ace_lines": lines_of([""]),
        "loop_lines": lines_of(LOOP_ROOMS),
        "memory_lines": lines_of(MEMORY_ROOMS),
        "trust_lines": lines_of(TRUST_MODULES),
        "graph_lines": lines_of(["graph"]),
        "face_lines": lines_of(["cli", "serve"]),
        "evaluation_lines": lines_of(["evaluation", "suites", "optimization"]),
        "benchmark_lines": sum(code_lines(path.read_text(encoding="utf-8")) for path in _python(ROOT / "benchmarks")),
        "readme_lines": len((ROOT / "README.md").read_text(encoding="utf-8").splitlines()),
        "graph_waivers": sum(path.split("/")[1] == "graph" for path in found["waivers"]),
        "memory_waivers": sum(path.split("/")[1] in MEMORY_ROOMS for path in found["waivers"]),
        "dependencies": base_dependencies(),
        "loop_waivers": sum(map(of_the_loop, found["waivers"])),
        "dspy_private": len(passing_names()),
        "longest_function": longest,
        "single_use_bases": len(found["bases"]),
        "files_named_benchmark_in_wheel": len(in_wheel),
        "found": found,
    }


if __name__ == "__main__":
    command(figures)
