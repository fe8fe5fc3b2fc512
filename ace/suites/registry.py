"""Loading a suite by what a command line says: our own ones, files, and those that other packages register.

A package registers a suite by an entry point in the group ``ace.suites``, whose value is a function from what stands after
the colon to a `Suite`::

    [project.entry-points."ace.suites"]
    helpdesk = "my_package:helpdesk"
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from ace.core import SuiteError, describe_error

if TYPE_CHECKING:
    from ace.suites.protocol import Suite

GROUP = "ace.suites"
SUITE_SPECS = "office, tau:FOLDER, FILE.jsonl[:TOOLS.py], FILE.py:NAME, or NAME[:ARGUMENT] of an installed suite"
"""How a suite is named."""
Loader = Callable[..., "Suite"]
"""From what stands after the colon, and options, to a suite."""


def load_suite(spec: str, **options: Any) -> Suite:
    """Load a suite.

    Args:
        spec: ``office``; ``tau:FOLDER``; ``tasks.jsonl``, with its tools in ``tools.py`` beside it or in
            ``tasks.jsonl:TOOLS.py``; ``FILE.py:NAME``, a suite of your own; or ``NAME:ARGUMENT``, of an installed package.
        **options: `judge`, the language model that judges; `seed` (office); and what an installed suite takes. Options
            that a suite does not take are left out.

    Raises:
        SuiteError: There is no such suite, it cannot be loaded, or its files are missing.

    Examples:
        >>> len(load_suite("office").tasks)
        200
    """
    name, _, argument = spec.partition(":")
    if name in _OWN:
        return _called(_OWN[name], argument, options)
    if spec.endswith(".jsonl") or ".jsonl:" in spec:
        return _called(_file, spec, options)
    if ".py:" in spec:
        return _suite_of_python_file(spec, options)
    installed = {point.name: point for point in installed_suites()}
    if name not in installed:
        known = f"; installed are {', '.join(sorted(installed))}" if installed else ""
        raise SuiteError(f"no suite {spec!r}; expected {SUITE_SPECS}{known}")
    return _called(loaded(installed[name]), argument, options)


def installed_suites() -> tuple[EntryPoint, ...]:
    """Find the suites that installed packages register, by name."""
    return tuple(sorted(entry_points(group=GROUP), key=lambda point: point.name))


def loaded(point: EntryPoint) -> Any:
    """Load what an entry point names.

    Raises:
        SuiteError: Its package cannot be imported.
    """
    try:
        return point.load()
    except Exception as error:  # a border: somebody else's package
        raise SuiteError(
            f"{point.name!r} is registered as {point.value!r}, which fails: {describe_error(error)}"
        ) from error


def described_suites() -> Iterator[tuple[str, str]]:
    """Yield how each suite is named, and what it is."""
    yield "office", "200 tasks over 5 domains, generated from a seed; needs nothing"
    yield "tau:FOLDER", "a folder as tau-bench has them: tasks.jsonl, tools.py, state.json"
    yield "FILE.jsonl[:TOOLS.py]", "tasks of your own, with tools from a Python file"
    yield "FILE.py:NAME", "a suite of your own making"
    for point in installed_suites():
        try:
            about = (inspect.getdoc(loaded(point)) or point.value).splitlines()[0]
        except SuiteError as error:
            about = str(error)
        yield f"{point.name}[:ARGUMENT]", about


def _called(loader: Loader, argument: str, options: dict[str, Any]) -> Suite:
    taken = inspect.signature(loader).parameters
    open_ended = any(parameter.kind is parameter.VAR_KEYWORD for parameter in taken.values())
    return loader(argument, **{name: value for name, value in options.items() if open_ended or name in taken})


def _office(_argument: str, seed: int = 0) -> Suite:
    from ace.suites.office import OfficeSuite

    return OfficeSuite(seed)


def _tau(argument: str, judge: Any = None) -> Suite:
    from ace.suites.files import FileSuite

    if not argument:
        raise SuiteError("the suite 'tau' needs a folder with tasks.jsonl, tools.py and state.json: tau:PATH")
    return FileSuite.from_folder(Path(argument), judge)


def _file(spec: str, judge: Any = None) -> Suite:
    from ace.suites.files import STATES, FileSuite

    tasks, _, tools = spec.partition(".jsonl")
    path = Path(f"{tasks}.jsonl")
    beside = next((path.with_name(name) for name in STATES if path.with_name(name).exists()), None)
    code = Path(tools[1:]) if tools else path.with_name("tools.py")
    return FileSuite(path, code, state=beside, judge=judge)


def _suite_of_python_file(spec: str, options: dict[str, Any]) -> Suite:
    from ace.suites.toolbox import import_file

    path, _, name = spec.rpartition(":")
    found: Any = getattr(import_file(Path(path)), name, None)
    made: Any = found
    if isinstance(found, type) or (callable(found) and not hasattr(found, "episode")):
        try:  # an entry point's loader wants what stands after the colon, where nothing stands here
            parameters = inspect.signature(cast(Loader, found)).parameters.values()
            needs = any(p.default is p.empty and p.kind < p.VAR_POSITIONAL for p in parameters)
            made = _called(cast(Loader, found), "", options) if needs else found()
        except Exception as error:  # a border: the user's own code
            raise SuiteError(f"{name!r} in {path!r} fails: {describe_error(error)}") from error
    if not all(hasattr(made, part) for part in ("name", "instructions", "tasks", "writing_tools", "episode")):
        raise SuiteError(
            f"{name!r} in {path!r} is no suite; expected an object with name, instructions, tasks, writing_tools and "
            "episode, or a function that makes one"
        )
    return made


_OWN: dict[str, Loader] = {"office": _office, "tau": _tau}
