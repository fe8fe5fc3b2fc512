"""The documentation site: each public name has an entry with a docstring, each page a place, and each link a target."""

import importlib.util
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import ROOT
from public_names import exported

SPEC = importlib.util.spec_from_file_location("site_hooks", ROOT / "docs" / "site_hooks.py")
hooks = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(hooks)
NAVIGATION = re.findall(r"[\w./-]+\.md", (ROOT / "mkdocs.yml").read_text(encoding="utf-8").partition("\nnav:")[2])


def without_entry(public):
    """Public names that no page describes, or leads to where they are described."""
    described = set(hooks.entries())
    links = dict(re.findall(r"\[`(\w+)`\]\[([\w.]+)\]", "\n".join(hooks.pages().values())))
    return [
        f"{package}.{name}"
        for package, names in public.items()
        for name in names
        if f"{package}.{name}" not in described and links.get(name) not in described
    ]


def test_every_public_name_has_an_entry():
    assert {name: sorted(names) for name, names in hooks.packages().items()} == {
        name: sorted(names) for name, names in exported().items()
    }
    assert without_entry(exported()) == []
    assert without_entry({"ace.core": ["Event", "nonsense"]}) == ["ace.core.nonsense"]


def test_every_entry_has_a_docstring(tmp_path):
    assert hooks.undescribed() == []
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "reference.md").write_text("## `ace.one`\n\n| `named` | x |\n| `gone` | x |\n")
    (tmp_path / "ace" / "two").mkdir(parents=True)
    (tmp_path / "ace" / "__init__.py").touch()
    (tmp_path / "ace" / "one.py").write_text('"""One."""\nnamed = 1\n"""Said."""\n')
    (tmp_path / "ace" / "two" / "__init__.py").write_text(
        '"""Two."""\nfrom ace.one import x, y\n__all__ = ["x", "y"]\n'
    )
    assert hooks.undescribed(tmp_path) == ["ace.one.gone", "ace.two.x", "ace.two.y"]


def test_what_guides_import_is_public():
    documents = [*(ROOT / "docs").glob("*.md"), ROOT / "README.md", ROOT / "quickstart.md"]
    imported = {
        f"{module}.{name.strip()}"
        for path in documents
        for module, names in re.findall(r"^ *from (ace[\w.]*) import ([\w, ]+)$", path.read_text("utf-8"), re.MULTILINE)
        for name in names.split(",")
    }
    public = {*hooks.entries(), *(f"{package}.{name}" for package, names in exported().items() for name in names)}
    assert sorted(imported - public) == []


def test_every_page_is_in_the_navigation():
    assert len(NAVIGATION) == len(set(NAVIGATION))
    assert {path.name for path in (ROOT / "docs").glob("*.md")} <= set(NAVIGATION)
    assert [name for name in NAVIGATION if not any((ROOT / place / name).exists() for place in ("docs", "."))] == []


def test_every_relative_link_leads_to_a_file():
    pages = [*(ROOT / "docs").glob("*.md"), *ROOT.glob("*.md"), *(ROOT / "contracts").glob("*.md")]
    links = [(path, link) for path in pages for link in hooks.LINK.findall(path.read_text(encoding="utf-8"))]
    assert len(links) > 50
    assert [(path.name, link) for path, link in links if not (path.parent / link).exists()] == []


def test_links_out_of_the_folder_stay_right_on_the_site():
    class Page:
        def __init__(self, source):
            self.file = type("File", (), {"src_uri": source})

    def moved(source, text):
        return hooks.on_page_markdown(text, Page(source), None, None)

    assert moved("trust.md", "[a](../data-model.md#x), [b](learning.md)") == "[a](data-model.md#x), [b](learning.md)"
    assert moved("data-model.md", "[a](docs/trust.md) `f[x](**args)`") == "[a](trust.md) `f[x](**args)`"
    assert moved("contracts/events.md", "[a](../docs/trust.md#y)") == "[a](../trust.md#y)"


def test_examples_in_docstrings_are_named_as_griffe_reads_them():
    files = [*(ROOT / "ace").rglob("*.py"), *(ROOT / "benchmarks").rglob("*.py")]
    assert [path.name for path in files if re.search(r"^ *Example:$", path.read_text("utf-8"), re.MULTILINE)] == []


# -- the build itself ------------------------------------------------------------------------------------------------


def built(root):
    """Build the site of a copy of the project: exit code, and what was said."""
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict"], cwd=root, capture_output=True, text=True, timeout=600
    )
    return done.returncode, done.stdout + done.stderr


@pytest.fixture(scope="module")
def copy(tmp_path_factory):
    """What the site is made of."""
    if importlib.util.find_spec("mkdocs") is None:
        pytest.skip("MkDocs is not installed; `make docs` installs it")
    root = tmp_path_factory.mktemp("site")
    for name in ("ace", "docs", "contracts"):
        shutil.copytree(ROOT / name, root / name, ignore=shutil.ignore_patterns("*.pyc", "minilm"))
    for path in [ROOT / "mkdocs.yml", *ROOT.glob("*.md")]:
        shutil.copy(path, root / path.name)
    return root


def loads(page):
    """Hosts that a page or a style asks for something."""
    text = page.read_text(encoding="utf-8")
    tags = re.findall(r"<(?:script|img|iframe|link|source)\b[^>]*", text)
    return re.findall(r"(?:src|href)=[\"']?((?:https?:)?//[^\"' >]+)", " ".join(tags)) + re.findall(
        r"(?:url\(|@import )[\"']?((?:https?:)?//[^\"')]+)", text
    )


@pytest.mark.full
def test_the_site_is_built_and_asks_no_other_host(copy):
    code, said = built(copy)
    assert code == 0, said[-3000:]
    files = [*(copy / "site").rglob("*.html"), *(copy / "site").rglob("*.css")]
    assert len(files) > 40
    assert {str(path): found for path in files if (found := loads(path))} == {}
    home = (copy / "site" / "index.html").read_text(encoding="utf-8")
    assert 'src="inspector.png"' in home, "the picture"
    assert "find_mail(sender" in home, "the run before and after"
    texts = [
        entry["text"].lower() for entry in json.loads((copy / "site/search/search_index.json").read_text())["docs"]
    ]
    assert [
        word for word in ("backup", "/healthz", "--cache", "local model") if not any(word in t for t in texts)
    ] == []


BREAKS = {
    "link": ("docs/trust.md", "\n[x](nowhere.md)\n", "nowhere.md"),
    "link out of the folder": ("docs/trust.md", "\n[x](../nowhere.md)\n", "nowhere.md"),
    "anchor": ("docs/trust.md", "\n[x](learning.md#nowhere)\n", "#nowhere"),
    "reference": ("docs/trust.md", "\n[x][ace.core.Nowhere]\n", "ace.core.Nowhere"),
    "name": ("ace/core/__init__.pyi", "from .events import Nowhere as Nowhere\n", "ace.core.Nowhere"),
    "row of the reference": ("docs/reference.md", "\n## `ace.core`\n\n| `Nowhere` | x |\n", "ace.core.Nowhere"),
    "docstring": (
        "docs/reference.md",
        "\n## `ace.playbook.statistics`\n\n| `DAY` | x |\n",
        "ace.playbook.statistics.DAY",
    ),
    "page": ("docs/nowhere.md", "# No place in the navigation\n", "nowhere.md"),
}


@pytest.mark.full
@pytest.mark.parametrize("what", BREAKS)
def test_what_is_broken_fails_the_build(what, copy):
    name, text, said = BREAKS[what]
    path: Path = copy / name
    before = path.read_text(encoding="utf-8") if path.exists() else None
    path.write_text((before or "") + text, encoding="utf-8")
    try:
        code, output = built(copy)
    finally:
        path.write_text(before, encoding="utf-8") if before is not None else path.unlink()
    assert code != 0
    assert said in output
