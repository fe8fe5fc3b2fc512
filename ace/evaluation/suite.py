"""What a task suite is: tasks with gold calls, and a fresh world for each attempt."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from pydantic import BaseModel, ConfigDict, Field

from ace.core import SuiteError
from ace.evaluation.wording import SUITE_SPECS
from ace.learner import Episode
from ace.playbook import sequence_key
from ace.tasks import TaskInput

TASK_SIGNATURE = "task -> answer"


class GoldCall(BaseModel):
    """One call of the reference solution."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    args: dict[str, Any] = Field(default_factory=dict)


class SuiteTask(BaseModel):
    """A task with its reference solution."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    task: TaskInput
    domain: str
    """For the table of results; `task.domain` narrows retrieval."""
    group: str
    """The family: tasks of one template."""
    gold: tuple[GoldCall, ...] = ()
    """Empty where nothing is to be called, and where there is no reference solution."""
    answer: str = "Done."
    """What the reference solution says at the end."""
    outputs: dict[str, Any] = Field(default_factory=dict)
    """The same for a signature with other output fields than `answer`."""
    split: str = ""
    """`train` or `test`, where the suite itself says so."""
    time: datetime | None = None
    """When it was asked, where that is known; UTC where it names no zone."""

    @property
    def id(self) -> str:
        """The task's id."""
        return self.task.task_id


class Suite(Protocol):
    """A set of tasks over a world that tools change.

    A suite whose agents have other inputs or outputs than ``task -> answer`` also has a `signature`, as DSPy takes it. One
    that may change without its tasks changing has a `source`, a digest: an evaluation goes on only with the suite it began
    with.
    """

    name: str
    instructions: str
    """What every task takes for granted, for the system prompt."""

    @property
    def tasks(self) -> Sequence[SuiteTask]:
        """All tasks, in a fixed order; ids are unique."""
        ...

    @property
    def writing_tools(self) -> frozenset[str]:
        """Names of the tools that change something."""
        ...

    def episode(self, task: SuiteTask) -> Episode:
        """A fresh attempt at one task: tools bound to a world of its own, and a scorer that looks at it after the run.

        The scorer's `Feedback.details` may hold ``state_sha256``, a digest for each part of the world: reports then say in
        which state a run ended, and `ace.evaluation.lint` where doing nothing is right.
        """
        ...


@runtime_checkable
class GoldenSuite(Suite, Protocol):
    """A suite that can replay recorded calls, to show that its tools are those of the benchmark."""

    def check_case(self, case: Mapping[str, Any]) -> list[str]:
        """Replay one golden case; returns what differs."""
        ...


def signature_of(suite: Suite) -> Any:
    """The signature of the agents that run a suite's tasks."""
    import dspy

    given: Any = getattr(suite, "signature", TASK_SIGNATURE)
    return dspy.Signature(given, suite.instructions) if isinstance(given, str) else given  # pyright: ignore


def changing(suite: Suite, task: SuiteTask) -> tuple[str, ...]:
    """The multiset of changing calls in a task's reference solution."""
    return sequence_key(call.name for call in task.gold if call.name in suite.writing_tools)


def _office(_argument: str, **options: Any) -> Suite:
    from ace.evaluation.office import OfficeSuite

    return OfficeSuite(**{k: v for k, v in options.items() if k == "seed"})


def _workbench(argument: str, **options: Any) -> Suite:
    from ace.evaluation.workbench import WorkBenchSuite

    if not argument:
        raise SuiteError("the suite 'workbench' needs the folder of the benchmark: workbench:PATH")
    return WorkBenchSuite(Path(argument), **{k: v for k, v in options.items() if k == "toolkits"})


def _bfcl(argument: str, **options: Any) -> Suite:
    from ace.evaluation.bfcl import BfclSuite

    return BfclSuite(argument or "base")


def _tau(argument: str, **options: Any) -> Suite:
    from ace.evaluation.files import FileSuite

    if not argument:
        raise SuiteError("the suite 'tau' needs a folder with tasks.jsonl, tools.py and state.json: tau:PATH")
    return FileSuite.from_folder(Path(argument), options.get("judge"))


def _file(spec: str, **options: Any) -> Suite:
    from ace.evaluation.files import STATES, FileSuite

    tasks, _, tools = spec.partition(".jsonl")
    path = Path(f"{tasks}.jsonl")
    beside = next((path.with_name(name) for name in STATES if path.with_name(name).exists()), None)
    code = Path(tools[1:]) if tools else path.with_name("tools.py")
    return FileSuite(path, code, state=beside, judge=options.get("judge"))


def _own(spec: str, **options: Any) -> Suite:
    from ace.evaluation.toolbox import import_file

    path, _, name = spec.rpartition(":")
    found: Any = getattr(import_file(Path(path)), name, None)
    made: Any = found() if callable(found) and not hasattr(found, "episode") else found
    if not all(hasattr(made, part) for part in ("name", "instructions", "tasks", "writing_tools", "episode")):
        raise SuiteError(
            f"{name!r} in {path!r} is no suite; expected an object with name, instructions, tasks, writing_tools and "
            "episode, or a function that makes one"
        )
    return made


SUITES: dict[str, Callable[..., Suite]] = {"office": _office, "workbench": _workbench, "bfcl": _bfcl, "tau": _tau}
"""By name; each takes what stands after the colon."""


def load_suite(spec: str, **options: Any) -> Suite:
    """Load a suite.

    Args:
        spec: ``office``; ``workbench:PATH``; ``bfcl`` or ``bfcl:long_context``; ``tau:FOLDER``; ``tasks.jsonl``, with its
            tools in ``tools.py`` beside it or in ``tasks.jsonl:TOOLS.py``; or ``FILE.py:NAME``, a suite of your own.
        **options: `judge`, the language model that judges; `seed` (office); `toolkits` (workbench).

    Raises:
        SuiteError: There is no such suite, or its files are missing.

    Example:
        >>> len(load_suite("office").tasks)
        200
    """
    name, _, argument = spec.partition(":")
    if name in SUITES:
        return SUITES[name](argument, **options)
    if spec.endswith(".jsonl") or ".jsonl:" in spec:
        return _file(spec, **options)
    if ".py:" in spec:
        return _own(spec, **options)
    raise SuiteError(f"no suite {spec!r}; expected {SUITE_SPECS}")
