"""Tools from a Python file, bound to a fresh state for each task."""
# pyright: basic

from __future__ import annotations

import copy
import hashlib
import importlib.util
import inspect
import json
import sys
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import date, time, timedelta
from decimal import Decimal
from enum import Enum
from functools import partial
from pathlib import Path, PurePath
from types import ModuleType
from typing import Any
from uuid import UUID

from pydantic import BaseModel

from ace.core import SuiteError, describe_error
from ace.core.durable import digest
from ace.tools import Tool, ToolRegistry, from_json_schema

STATE_NAMES = ("state", "data")
"""A tool whose first parameter is called so is given the world; the model never sees that parameter."""
LOADERS = ("load_state", "load_data")


class Toolbox:
    """The tools of a Python file, and the world they work on.

    A tool is a function with annotations and a docstring whose first parameter is `state` (or `data`); a function under
    `ace.tools.tool`; or a class as tau-bench has them, with ``invoke(data, ...)`` and ``get_info()``. `TOOLS` (or
    `ALL_TOOLS`) lists them; without such a list, every public one that is defined in the file counts. Tools that change
    nothing are named in `READ_ONLY`, or marked ``read_only=True``. The world is what `load_state` (or `load_data`) returns.

    Args:
        path: The file, or a folder with an ``__init__.py``. It is run: use files that you trust.

    Raises:
        SuiteError: It cannot be imported, or holds no tool.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        module = import_file(path)
        sources = sorted(path.rglob("*.py")) if path.is_dir() else [path]
        self.digest = digest([file.read_text(encoding="utf-8", errors="replace") for file in sources])
        """Of the source."""
        reads = frozenset(getattr(module, "READ_ONLY", ()))
        self._makers: dict[str, Callable[[Any], Callable[..., Any]]] = {}
        self._templates: list[Tool] = []
        for value in _listed(module):
            self._add(value, reads)
        names = [tool.name for tool in self._templates]
        if not names or reads - set(names):
            wrong = f"READ_ONLY names {sorted(reads - set(names))}" if names else "there is no tool"
            raise SuiteError(
                f"{str(path)!r}: {wrong}; expected functions with a docstring and a first parameter `state`, and READ_ONLY "
                "with the names of those that change nothing"
            )
        self.world: Any = _world(module, path)
        self.writing = frozenset(tool.name for tool in self._templates if not tool.read_only)

    def registry(self, state: Any) -> ToolRegistry:
        """Return all tools, bound to a state."""
        return ToolRegistry(tool.bind(self._makers[tool.name](state)) for tool in self._templates)

    def _add(self, value: Any, reads: frozenset[str]) -> None:
        if isinstance(value, type):  # as tau-bench writes them
            info = value.get_info()["function"]
            name, invoke = info["name"], value.invoke
            text, schema = info.get("description", ""), info["parameters"]
            made = from_json_schema(name, text, schema, partial(invoke, {}), read_only=name in reads)
            # a tool gets a copy: it must not change the arguments of its caller, for example the reference solution
            self._makers[name] = lambda state: lambda **args: invoke(state, **copy.deepcopy(args))
        else:
            marked = value if isinstance(value, Tool) else None
            func: Any = marked.func if marked else value
            made = _of(func, marked, reads)
            self._makers[made.name] = _maker(func)
        self._templates.append(made)


def _world(module: ModuleType, path: Path) -> Any:
    name = next((name for name in LOADERS if hasattr(module, name)), "")
    if not name:
        return {}
    try:
        return getattr(module, name)()
    except Exception as error:  # a border: a user's function may do anything
        raise SuiteError(f"{str(path)!r}: {name}() failed: {describe_error(error)}") from error


def _of(func: Callable[..., Any], marked: Tool | None, reads: frozenset[str]) -> Tool:
    name = marked.name if marked else func.__name__
    body = partial(func, {}) if _takes_state(func) else func
    made = Tool.from_function(
        body, name=name, description=marked.description if marked else func.__doc__, read_only=name in reads
    )
    if marked is None:
        return made
    if marked.isolation == "process":
        raise SuiteError(f"tool {name!r}: what it does to the state in a process of its own would be lost")
    return replace(marked, func=body, arguments=made.arguments)


def _maker(func: Callable[..., Any]) -> Callable[[Any], Callable[..., Any]]:
    return (lambda state: partial(func, state)) if _takes_state(func) else (lambda state: func)


def _takes_state(func: Callable[..., Any]) -> bool:
    return next(iter(inspect.signature(func).parameters), "") in STATE_NAMES


def _listed(module: ModuleType) -> list[Any]:
    for name in ("TOOLS", "ALL_TOOLS"):
        if hasattr(module, name):
            return list(getattr(module, name))
    found: list[Any] = []
    for name, value in vars(module).items():
        if name.startswith("_") or name in LOADERS:
            continue
        own = getattr(value, "__module__", "") == module.__name__
        by_tau = isinstance(value, type) and hasattr(value, "invoke") and hasattr(value, "get_info")
        if isinstance(value, Tool) or (own and (by_tau or (inspect.isfunction(value) and _takes_state(value)))):
            found.append(value)
    return found


def import_file(path: Path) -> ModuleType:
    """Import a Python file by its path; a file that has not changed is imported once.

    Raises:
        SuiteError: There is no such file, or it raises an error.
    """
    file = path / "__init__.py" if path.is_dir() else path
    if not file.is_file():
        raise SuiteError(f"there is no Python file {str(file)!r}")
    content = str(file.resolve()).encode() + b"\0" + file.read_bytes()
    name = f"_ace_file_{hashlib.sha256(content).hexdigest()[:12]}"
    if name in sys.modules:
        return sys.modules[name]
    spec = importlib.util.spec_from_file_location(
        name, file, submodule_search_locations=[str(path)] if path.is_dir() else None
    )
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    sys.path.insert(0, str(file.resolve().parent))
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:  # a border: a user's file may do anything
        del sys.modules[name]
        raise SuiteError(f"cannot import {str(path)!r}: {describe_error(error)}") from error
    finally:
        sys.path.pop(0)
    return module


def read_text(path: Path) -> str:
    """Read a text file in UTF-8.

    Raises:
        SuiteError: It cannot be read.
    """
    try:
        return path.read_text(encoding="utf-8-sig")
    except (OSError, ValueError) as error:
        raise SuiteError(f"cannot read {str(path)!r}: {error}; expected a text in UTF-8") from error


def read_lines(path: Path) -> list[str]:
    """Return the lines of a text, split at line feeds only: JSON may hold other separators.

    Raises:
        SuiteError: It cannot be read.
    """
    return read_text(path).split("\n")


def read_state(path: Path) -> dict[str, Any]:
    """Read a world from a JSON file, or from a folder of them: one entry for each, by its name.

    Raises:
        SuiteError: A file is no JSON object.
    """
    try:
        if path.is_dir():
            return {file.stem: json.loads(file.read_text(encoding="utf-8-sig")) for file in sorted(path.glob("*.json"))}
        value = json.loads(path.read_text(encoding="utf-8-sig"))
    except (OSError, ValueError) as error:
        raise SuiteError(f"cannot read the state {str(path)!r}: {error}; expected JSON") from error
    if not isinstance(value, dict):
        raise SuiteError(f"the state {str(path)!r} is {type(value).__name__}; expected a JSON object")
    return value


def state_digest(world: Any) -> str:
    """Hash a world so that it does not depend on the order in which sets and dictionaries were filled.

    Raises:
        SuiteError: It holds something that cannot be compared.

    Examples:
        >>> state_digest({"b": {1, 2}, "a": 0}) == state_digest({"a": 0, "b": {2, 1}})
        True
    """
    try:
        return digest(_plain(world))
    except RecursionError as error:
        raise SuiteError(
            "the world holds itself, and cannot be compared; expected JSON's types, sets, or objects"
        ) from error


def _plain(value: Any) -> Any:
    if value is None or isinstance(value, (str, int, float, bool)):
        return value
    if isinstance(value, Mapping):
        return sorted(([repr(key), _plain(item)] for key, item in value.items()), key=lambda pair: pair[0])
    if isinstance(value, (list, tuple, deque)):
        return [_plain(item) for item in value]
    if isinstance(value, (set, frozenset)):
        return sorted((_plain(item) for item in value), key=repr)
    if isinstance(value, (bytes, Decimal, Enum, date, time, timedelta, UUID, PurePath)):
        return repr(value)
    if isinstance(value, BaseModel):
        return _plain(value.model_dump())
    if hasattr(value, "__dict__"):
        return [type(value).__name__, _plain(vars(value))]
    raise SuiteError(
        f"the world holds {type(value).__name__}, which cannot be compared; expected JSON's types, sets, or objects of them"
    )


def fresh(world: Any, changes: Mapping[str, Any]) -> Any:
    """Copy a world with some entries replaced."""
    copied = copy.deepcopy(world)
    if changes:
        copied.update(copy.deepcopy(dict(changes)))
    return copied
