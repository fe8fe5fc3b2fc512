"""A job's folder: who works in it, and which job it belongs to."""
# pyright: basic, reportAttributeAccessIssue=false, reportArgumentType=false

from __future__ import annotations

import hashlib
import inspect
import json
import os
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import dspy
from dspy.clients.backend_selection import CLIENT_KEYS
from filelock import FileLock, Timeout
from pydantic import ValidationError

from ace.core import AceError, value_to_text
from ace.evaluation.reports import OptimizeReport
from ace.generator import ReActGenerator
from ace.optimization.optimizers import JobConfig
from ace.optimization.results import CONFIG, SCORES
from ace.optimization.workload import Workload
from ace.playbook import Playbook
from ace.tools.changes import describe_tools


@contextmanager
def claimed(folder: Path) -> Generator[None]:
    """Hold a folder; one job at a time works in it.

    Raises:
        AceError: It is taken, or cannot be written to.
    """
    lock = FileLock(folder / ".lock", timeout=0)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock.acquire()
    except Timeout as error:
        raise AceError(f"{str(folder)!r} is in use by another job; wait for it, or name another folder") from error
    except OSError as error:
        raise AceError(f"cannot write to {str(folder)!r}: {error.strerror}; name another folder") from error
    try:
        yield
    finally:
        lock.release()


def same_job(folder: Path, config: JobConfig, parts: dict[str, str]) -> None:
    """A folder belongs to one job: of another one, its journal would answer other questions.

    Raises:
        AceError: It says what is different, or that the file cannot be read.
    """
    path = folder / CONFIG
    now = {**config.model_dump(mode="json"), "digests": parts}
    if not path.exists():
        write(path, json.dumps(now, indent=1))
        return
    try:
        then = dict(json.loads(path.read_text(encoding="utf-8")))
        digests = dict(then.get("digests", {}))
    except (ValueError, TypeError) as error:
        raise AceError(f"{str(path)!r} is damaged ({error}); restore it, or name another folder") from error
    other = [f"{k} was {then.get(k)!r} and is {v!r}" for k, v in now.items() if k != "digests" and then.get(k) != v]
    other += [f"the {name} is another one" for name, digest in parts.items() if digests.get(name) != digest]
    if other:
        raise AceError(f"{str(folder)!r} holds another job: {'; '.join(other)}; name another folder")


def finished(folder: Path) -> OptimizeReport | None:
    """What a job found that has ended.

    Raises:
        AceError: The file is damaged.
    """
    path = folder / SCORES
    if not path.exists():
        return None
    try:
        return OptimizeReport.model_validate_json(path.read_text(encoding="utf-8"))
    except (ValidationError, UnicodeDecodeError) as error:
        raise AceError(
            f"{str(path)!r} is damaged; delete it and run the job again: its requests are in the journal"
        ) from error


def own_lm(agent: ReActGenerator) -> Any:
    """The model that an agent or its predictors were given."""
    return agent.lm or agent.agent.react.lm


def parts_of(workload: Workload, lm: dspy.LM, reflection_lm: dspy.LM | None) -> dict[str, str]:
    """Digests of everything that decides what a job asks and how it is scored."""
    agent = workload.program.agent
    book = agent.playbook
    examples = [
        [value_to_text(dict(e)) for e in some] for some in (workload.trainset, workload.valset, workload.testset)
    ]
    return {
        "program": _digest([agent.dump_state(), agent.signature.dump_state(), agent.max_iters, agent.tool_calling]),
        "policy": _digest([getattr(agent.policy, "name", ""), type(agent.policy).__name__, agent.limits.model_dump()]),
        "tools": _digest(describe_tools(agent.registry)),
        "code of the tools": _digest([_source(tool.func) for tool in agent.registry] if workload.metric else ""),
        "metric": _digest(_source(workload.metric) if workload.metric else ""),
        "playbook": _digest([b.model_dump(mode="json") for b in book.bullets] if isinstance(book, Playbook) else ""),
        "examples": _digest(examples),
        "language model": _digest(_settings([lm])),
        "reflection model": _digest(_settings([reflection_lm] if reflection_lm else [])),
    }


def _settings(models: Sequence[Any]) -> list[Any]:
    """Names and options, without what concerns the connection."""
    return [[lm.model, {k: str(v) for k, v in lm.kwargs.items() if k not in CLIENT_KEYS}] for lm in models]


def _source(func: Callable[..., Any]) -> str:
    try:
        return inspect.getsource(func)
    except (OSError, TypeError):  # a partial, a built-in, something made while running: its name has to do
        return str(getattr(func, "__qualname__", type(func).__qualname__))


def _digest(value: Any) -> str:
    text = json.dumps(value, sort_keys=True, default=value_to_text)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def write(path: Path, text: str) -> None:
    """Replace a file: whoever reads it sees the old one or the new one."""
    part = path.with_name(f"part-{path.name}")
    part.write_text(text, encoding="utf-8")
    os.replace(part, path)
