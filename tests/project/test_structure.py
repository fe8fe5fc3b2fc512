"""The package's structure: function lengths, types, private parts, exported names, the wheel, base classes, paths.

The functions are those of `benchmarks/structure.py`, which measures the same for the claims; each is tried on a bad example.
"""

import ast
import dataclasses
import importlib
import importlib.util
import inspect
import re

import pytest
from conftest import ROOT
from public_names import docstring, exported

from benchmarks import structure

DSPY = "dspy.Module, Signature and Prediction are untyped, "
WAIVERS = {
    "ace/evaluation/ray.py": "Ray's remote functions and references have no types",
    "ace/optimization/job.py": DSPY + "and so is what an optimizer returns",
    "ace/optimization/optimizers.py": DSPY + "and each optimizer's constructor is found by inspection",
    "ace/optimization/results.py": DSPY + "and programs are compared predictor by predictor",
    "ace/optimization/teleprompter.py": DSPY + "and Teleprompter.compile takes any program",
    "ace/optimization/workload.py": DSPY + "and EpisodeProgram is one",
    "ace/suites/toolbox.py": "loads a user's Python file and copies whatever state it holds",
}
"""Files that relax strict types, and why."""


def package(folder, **texts):
    """A small package `ace` in a folder: dotted module name to source text."""
    for name, text in texts.items():
        path = folder / "ace" / f"{name.replace('__', '/')}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        for parent in (path.parent, *path.parent.parents):
            if parent == folder:
                break
            (parent / "__init__.py").touch()
        path.write_text(text, encoding="utf-8")
    return folder / "ace"


# -- sizes, types, imports, bases ------------------------------------------------------------------------------------


def test_no_function_is_longer_than_a_hundred_lines(tmp_path):
    length, where = structure.functions()[0]
    assert length <= structure.MAX_FUNCTION_LINES, where
    long = package(tmp_path, core__long="class A:\n    async def f(self):\n" + "        x = 1\n" * 100)
    assert structure.functions(long) == [(101, "ace.core.long:2 f")]


def test_strict_types_are_waived_only_where_a_reason_is_given(tmp_path):
    assert structure.waivers() == sorted(WAIVERS)
    assert len(WAIVERS) <= structure.MAX_WAIVERS
    waived = package(tmp_path, core__a="# pyright: basic\n", core__b="x = 1  # pyright: ignore[reportPrivateUsage]\n")
    assert structure.waivers(waived) == ["ace/core/a.py"]


def test_copied_lines_are_found(tmp_path):
    body = "".join(f"x{n} = {n}\n" for n in range(8))
    (tmp_path / "one.py").write_text(f"import os\n\n{body}")
    (tmp_path / "other.py").write_text(f"y = 1\n{body}z = 2\n")
    (tmp_path / "third.py").write_text(body[:20])
    assert [place.count("~") for place in structure.copied_places(tmp_path)] == [1]
    assert len(structure.copied_places()) <= 27


def test_no_package_uses_private_parts_of_another(tmp_path):
    assert structure.private_imports() == []
    bad = package(
        tmp_path,
        core___own="_secret = secret = 1\n",
        core__fine="from ace.core import _own\nfrom ._own import _secret\nfrom ace import __version__\n",
        cli__one="from ace.core._own import secret\n",
        cli__two="from ace.core.fine import _secret\n",
        cli__three="import ace.core._own\n",
        cli__four="def f():\n    from ..core import _own\n",
    )
    assert {found.split(":")[0] for found in structure.private_imports(bad)} == {
        f"ace.cli.{name}" for name in ("one", "two", "three", "four")
    }


def test_no_modules_import_each_other_in_a_circle(tmp_path):
    assert structure.import_circles() == []
    bad = package(
        tmp_path,
        core__a="import ace.core.b\n",
        core__b="def f():\n    from ace.core.c import x\n",
        core__c="import ace.core.a\n",
    )
    assert structure.import_circles(bad) == [["ace.core.a", "ace.core.b", "ace.core.c"]]


def test_no_class_has_a_base_that_only_one_class_uses(tmp_path):
    assert structure.single_use_bases() == {}
    defined = {
        node.name for _, tree in structure.modules() for node in ast.walk(tree) if isinstance(node, ast.ClassDef)
    }
    assert set(structure.USER_BASES) <= defined
    bad = package(
        tmp_path,
        core__a="class Long:\n    pass\n\nclass Kept(Protocol[T]):\n    pass\n\nclass Bad(ValueError):\n    pass\n",
        core__b="class Whole(a.Long, Kept):\n    pass\n\nclass Worse(Bad):\n    pass\n\nclass Mine(Agent):\n    pass\n",
    )
    assert structure.single_use_bases(bad) == {"Bad": "ace.core.b.Worse", "Long": "ace.core.b.Whole"}


# -- exported names --------------------------------------------------------------------------------------------------


def in_code(text):
    """The words inside backticks and code blocks."""
    fence = re.compile(r"^ *```.*?^ *```", re.MULTILINE | re.DOTALL)
    found = fence.findall(text)
    for paragraph in fence.sub("", text).split("\n\n"):  # a lone backtick spoils no more than its own paragraph
        found += re.findall(r"`[^`]+`", paragraph)
    return set(re.findall(r"\w+", " ".join(found)))


def without_docstring(module, names):
    """Exported classes and functions that say nothing of their own."""
    missing = []
    for name in names:
        value = getattr(module, name)
        if not (inspect.isclass(value) or inspect.isfunction(value)):
            continue
        text = docstring(value)
        made = dataclasses.is_dataclass(value) and text.startswith(f"{name}(")  # what `dataclass` writes
        if made or not text.strip():
            missing.append(name)
    return missing


def test_every_public_name_can_be_had():
    found = exported()
    assert {"ace", "ace.evaluation", "ace.suites", "ace.testing", "ace.playbook"} <= set(found)
    for name, names in found.items():
        module = importlib.import_module(name)
        assert len(set(names)) == len(names), name
        for each in names:
            assert getattr(module, each) is not None, f"{name}.{each}"
        with pytest.raises(AttributeError, match="nonsense"):
            module.nonsense  # noqa: B018


def test_every_public_name_stands_in_a_document():
    documents = [ROOT / name for name in ("README.md", "quickstart.md", "data-model.md")]
    words = set().union(*(in_code(p.read_text(encoding="utf-8")) for p in [*documents, *(ROOT / "docs").glob("*.md")]))
    missing = {name: sorted(set(names) - words) for name, names in exported().items()}
    assert {name: names for name, names in missing.items() if names} == {}


def test_a_name_counts_only_in_code():
    assert in_code("Plain words, `Name(x)`\n\n```python\nblock\n```\n") == {"Name", "x", "python", "block"}


def test_every_public_class_and_function_has_a_docstring(tmp_path):
    missing = {n: without_docstring(importlib.import_module(n), names) for n, names in exported().items()}
    assert {name: names for name, names in missing.items() if names} == {}

    class Said:
        """It does."""

    class Silent(Said):
        pass

    @dataclasses.dataclass
    class Plain:
        x: int

    module = type("module", (), {"Said": Said, "Silent": Silent, "Plain": Plain, "CONSTANT": 1})
    assert without_docstring(module, ["Said", "Silent", "Plain", "CONSTANT"]) == ["Silent", "Plain"]


# -- what is shipped, and where things are ---------------------------------------------------------------------------


def test_the_wheel_holds_the_package_and_no_benchmark(tmp_path):
    names = structure.build_wheel(ROOT, tmp_path)
    assert {name.split("/")[0].split("-")[0] for name in names} == {"ace", "dspy_ace"}
    assert {"ace/testing/rates.toml", "ace/py.typed", "ace/__init__.pyi", "ace/evaluation/__init__.pyi"} <= set(names)
    assert structure.of_benchmarks(names) == []
    carried = {name for name in names if name.endswith((".gz", ".onnx", ".min.js"))}
    licences = (ROOT / "LICENSE").read_text(encoding="utf-8")
    assert [
        name for name in carried if not any(part in licences for part in (name, name.rpartition("/")[0] + ","))
    ] == []
    assert {name.rpartition("licenses/")[2] for name in names if "licenses/" in name} == {
        "LICENSE",
        "LICENSES/Apache-2.0.txt",
    }
    assert structure.of_benchmarks(["ace/evaluation/BFCL.py", "ace/tasks.py"]) == ["ace/evaluation/BFCL.py"]


def missing_paths(text, root):
    """Paths of the package that a document names in backticks and that are not there."""
    named = re.findall(r"`(ace/[^`\s:]*)[^`]*`", text)
    return [path for path in named if not any(root.glob(path.rstrip("/")))]


def test_the_paths_in_contributing_exist():
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    assert missing_paths(text, ROOT) == []
    assert missing_paths("`ace/core/`, `ace/nonsense.py`, `ace/agent/machine.py::AgentRun`", ROOT) == [
        "ace/nonsense.py"
    ]


CUTS_ACROSS = {"benchmarks", "chaos", "crash", "docs", "dropin", "laws", "project", "typing"}
"""Folders of tests that belong to no single module."""


def strays(root):
    """Files of tests that mirror no module of `ace`; that of a package itself has the package's name."""
    found = []
    for path in sorted((root / "tests").rglob("test_*.py")):
        place, name = path.parent.relative_to(root / "tests"), path.stem.removeprefix("test_")
        packages = root / "ace" / place
        modules = {file.stem.removeprefix("_") for file in packages.glob("*.py")} | {place.name}
        if place.parts[0] not in CUTS_ACROSS and name not in modules and not (packages / name).is_dir():
            found.append(path.relative_to(root).as_posix())
    return found


def test_tests_mirror_the_modules(tmp_path):
    assert strays(ROOT) == []
    package(tmp_path, core___own="", core__text="")
    for name in ("core/test_own", "core/test_core", "core/test_misc", "laws/test_any", "nowhere/test_text"):
        path = tmp_path / "tests" / f"{name}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    assert strays(tmp_path) == ["tests/core/test_misc.py", "tests/nowhere/test_text.py"]
