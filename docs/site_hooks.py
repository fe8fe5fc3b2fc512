"""What `make docs` adds to the pages of this folder: the API reference, and pages that lie elsewhere in the repository.

Read, never imported: the names come from the packages' `__init__` files, their descriptions from the docstrings.
"""

from __future__ import annotations

import ast
import posixpath
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import griffe

ROOT = Path(__file__).resolve().parent.parent
LINK = re.compile(r"(?<=\]\()[\w./-]+\.\w+(?=[)#])")
"""The path in a relative Markdown link."""
NAME = re.compile(r"^\| `([A-Za-z_]\w*|[A-Z]\w*\.\w+)` \|", re.MULTILINE)
"""A name in the first column of a table."""
RECORDS = frozenset({"BaseModel", "NamedTuple", "TypedDict"})
"""Base classes that make a constructor of a class's fields."""

# -- which names are public ------------------------------------------------------------------------------------------


def packages(root: Path = ROOT) -> dict[str, dict[str, str]]:
    """Find each public package with its names, and for each name the place that it is imported from."""
    found: dict[str, dict[str, str]] = {}
    for path in sorted((root / "ace").rglob("__init__.py")):
        name = ".".join(path.parent.relative_to(root).parts)
        if "._" not in name and (names := _exports(path, name)):
            found[name] = names
    return found


def _exports(path: Path, package: str) -> dict[str, str]:
    """Return what `__init__.pyi` imports, or what `__all__` lists."""
    stub = path.with_suffix(".pyi")
    tree = ast.parse((stub if stub.exists() else path).read_text(encoding="utf-8"))
    imported = {
        alias.asname or alias.name: f"{package}.{node.module}" if node.level else node.module or ""
        for node in tree.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    if stub.exists():
        return imported
    for node in tree.body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            return {name: imported[name] for name in ast.literal_eval(node.value)}
    return {}


def modules(root: Path = ROOT) -> dict[str, list[str]]:
    """Find each module that has a heading in docs/reference.md, with the names below it."""
    found: dict[str, list[str]] = {}
    for name, line in _lines((root / "docs" / "reference.md").read_text(encoding="utf-8")):
        if (root / f"{name.replace('.', '/')}.py").exists():
            found.setdefault(name, []).extend(re.findall(NAME, line))
    return found


def _lines(reference: str) -> Iterator[tuple[str, str]]:
    """Yield each line of docs/reference.md after the package or module whose heading it stands under."""
    name = ""
    for line in reference.splitlines():
        if heading := re.match(r"#+ `(ace[\w.]*)`", line):
            name = heading[1]
        yield name, line


# -- their pages -----------------------------------------------------------------------------------------------------


def pages(root: Path = ROOT) -> dict[str, str]:
    """Write the API reference: a page for each package of `ace`, with its own packages and modules."""
    exported = packages(root)
    found: dict[str, str] = {}
    listed = exported | {module: dict.fromkeys(names, module) for module, names in modules(root).items()}
    for name, names in sorted(listed.items()):
        top, parent = ".".join(name.split(".")[:2]), name.rpartition(".")[0]
        if name == "ace":
            elsewhere = {each: f"{place}.{each}" for each, place in names.items()}
        else:
            elsewhere = {
                each: f"{parent}.{each}" for each in names if parent != "ace" and each in exported.get(parent, {})
            }
        level = 1 if name == top else 2
        text = [
            f"{'#' * level} `{name}`",
            _entry(name, members="false", show_root_heading="false", show_root_toc_entry="false"),
        ]
        if elsewhere:
            links = ", ".join(f"[`{each}`][{place}]" for each, place in elsewhere.items())
            text.append(f"Described where they come from: {links}.")
        text += [
            _entry(f"{name}.{each}", heading_level=str(level + 1)) for each in sorted(names) if each not in elsewhere
        ]
        found[f"api/{top}.md"] = found.get(f"api/{top}.md", "") + "\n\n".join(text) + "\n\n"
    return found


def _entry(name: str, **options: str) -> str:
    """Write what mkdocstrings replaces by the description of a name."""
    return f"::: {name}\n    options: {{{', '.join(f'{key}: {value}' for key, value in options.items())}}}"


def entries(root: Path = ROOT) -> list[str]:
    """Return the names that the API reference describes."""
    return re.findall(r"^::: (\S+)$", "\n".join(pages(root).values()), re.MULTILINE)


def undescribed(root: Path = ROOT) -> list[str]:
    """Find names of the API reference that are not there, or have no docstring."""
    loader = griffe.GriffeLoader(search_paths=[root], allow_inspection=False)
    loader.load("ace", try_relative_path=False)
    loader.resolve_aliases(implicit=True, external=False)
    missing: list[str] = []
    for name in entries(root):
        try:
            found = loader.modules_collection[name]
            described = bool((found.final_target if found.is_alias else found).docstring)
        except (KeyError, griffe.AliasResolutionError):
            described = False
        missing += [] if described else [name]
    return missing


def linked(reference: str) -> str:
    """Write docs/reference.md with each name in the first column of a table leading to its description."""
    lines = (re.sub(NAME, rf"| [`\1`][{name}.\1] |", line) if name else line for name, line in _lines(reference))
    return "\n".join(lines)


# -- hooks of MkDocs and griffe --------------------------------------------------------------------------------------


def shown_first(root: Path = ROOT) -> str:
    """Return the picture and the run before and after of the README, which the site's home begins with, too."""
    readme = (root / "README.md").read_text(encoding="utf-8")
    picture = re.search(r"^!\[[^\]]*\]\(docs/[^)]*\)$", readme, re.MULTILINE)
    before_and_after = re.search(r"^## Before and after$.*?(?=^## )", readme, re.MULTILINE | re.DOTALL)
    if picture is None or before_and_after is None:
        raise ValueError("README.md has no picture from docs/, or no section 'Before and after'")
    return f"{picture[0].replace('docs/', '')}\n\n{before_and_after[0]}"


def on_files(files: Any, config: Any) -> None:
    """Add what the navigation names and this folder does not hold."""
    from mkdocs.structure.files import File

    for page, text in pages().items():
        files.append(File.generated(config, page, content=text))
    for path in re.findall(r"[\w./-]+\.md", str(config.nav)):
        if not files.get_file_from_path(path) and (ROOT / path).exists():
            files.append(File.generated(config, path, abs_src_path=str(ROOT / path)))


def on_config(config: Any) -> None:
    """Put the pages of the API under "Reference"; a public name without a docstring ends the build."""
    from mkdocs.exceptions import Abort

    if missing := undescribed():
        raise Abort(f"public names that are missing or have no docstring: {', '.join(missing)}")
    reference = next(entry["Reference"] for entry in config.nav if "Reference" in entry)
    reference += [{Path(page).stem: page} for page in pages()]


def on_page_markdown(markdown: str, page: Any, config: Any, files: Any) -> str:
    """Lead links, which are right in the repository, to the pages of the site."""
    site = page.file.src_uri
    if site == "reference.md":
        markdown = linked(markdown)
    if site == "index.md":
        markdown = markdown.replace("## Install", f"{shown_first()}## Install", 1)
    source = f"docs/{site}" if (ROOT / "docs" / site).exists() else site

    def moved(match: re.Match[str]) -> str:
        target = posixpath.normpath(posixpath.join(posixpath.dirname(source), match[0]))
        return posixpath.relpath(target.removeprefix("docs/"), posixpath.dirname(site) or ".")

    return markdown if site.startswith("api/") else LINK.sub(moved, markdown)


class Signatures(griffe.Extension):
    """Gives pydantic models, named tuples and typed dictionaries the signature that they have at run time."""

    def on_package(self, *, pkg: griffe.Module, **kwargs: Any) -> None:
        """Complete the signatures when everything was read."""
        for cls in _classes(pkg):
            family = [cls, *cls.mro()]
            if "__init__" in cls.members:
                continue
            if bases := RECORDS.intersection(_name_of(base) for each in family for base in each.bases):
                fields = {
                    name: field
                    for each in reversed(family)
                    for name, field in each.attributes.items()
                    if _is_field(field)
                }
                parameters = [griffe.Parameter("self", kind=griffe.ParameterKind.positional_or_keyword)]
                parameters += [_parameter(field, named="NamedTuple" not in bases) for field in fields.values()]
                cls.set_member("__init__", griffe.Function("__init__", parameters=griffe.Parameters(*parameters)))


def _classes(module: griffe.Module) -> Iterator[griffe.Class]:
    for member in module.members.values():
        if isinstance(member, griffe.Class):
            yield member
        elif isinstance(member, griffe.Module):
            yield from _classes(member)


def _name_of(base: Any) -> str:
    return str(base).partition("[")[0].rpartition(".")[2]


def _is_field(attribute: griffe.Attribute) -> bool:
    if attribute.annotation is None or attribute.is_private or "property" in attribute.labels:
        return False
    return _name_of(attribute.annotation) != "ClassVar"


def _parameter(field: griffe.Attribute, named: bool) -> griffe.Parameter:
    """Show a field as a parameter, with the default that stands in its `Field(...)`."""
    default = field.value
    if isinstance(default, griffe.ExprCall) and _name_of(default.function) == "Field":
        options = {each.name: each.value for each in default.arguments if isinstance(each, griffe.ExprKeyword)}
        factory = options.get("default_factory")
        default = f"{factory}()" if factory else options.get("default")
    kind = griffe.ParameterKind.keyword_only if named else griffe.ParameterKind.positional_or_keyword
    return griffe.Parameter(field.name, annotation=field.annotation, kind=kind, default=default)
