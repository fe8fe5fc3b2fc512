"""Suites of your own from files: ``FILE.jsonl`` with a tools module, and folders as tau-bench has them."""

from __future__ import annotations

import copy
import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal, cast

from pydantic import AliasChoices, BaseModel, Field, JsonValue, ValidationError

from ace.agent.episode import Episode
from ace.core import InvalidModelAction, SuiteError
from ace.core.durable import digest
from ace.suites.protocol import GoldCall, SuiteTask
from ace.suites.scoring import Finished, Scorer, all_of, by_answer, by_judge, by_mention, by_state
from ace.suites.toolbox import Toolbox, fresh, read_state, read_text, state_digest
from ace.tasks import Feedback, TaskInput, TaskOutput
from ace.tools import ToolCall, ToolRegistry, call_tool, check_call

INSTRUCTIONS = "Use the tools to do what is asked."
_Text = Annotated[str, Field(coerce_numbers_to_str=True)]
STATES = ("state.json", "state", "data")
"""Where a folder's world may lie."""
ScorerName = Literal["state", "answer", "judge"]


class _Call(BaseModel, extra="ignore"):
    name: str
    args: dict[str, Any] = Field(default_factory=dict, validation_alias=AliasChoices("args", "arguments", "kwargs"))


class TaskRow(BaseModel, extra="forbid"):
    """One task of a file. Names that tau-bench uses for the same are read too."""

    id: str = Field(default="", coerce_numbers_to_str=True)
    """The row's number from 0 by default."""
    task: str = Field(min_length=1, validation_alias=AliasChoices("task", "instruction", "query"))
    gold: list[_Call] | None = Field(default=None, validation_alias=AliasChoices("gold", "actions"))
    """The reference solution; an empty list where nothing is to be called."""
    answer: _Text | list[_Text] = ""
    """What is to be answered; one of these, where there are several."""
    outputs: list[_Text] = Field(default_factory=list)
    """What the answer has to mention, all of it."""
    criteria: str = ""
    """What a judge goes by."""
    score: list[ScorerName] | None = None
    """What makes a run right, all of them; whatever the row has something for by default."""
    family: str = Field(default="", validation_alias=AliasChoices("family", "group"))
    """Tasks of one template; the task alone by default."""
    domain: str = ""
    split: Literal["", "train", "test"] = ""
    time: datetime | None = None
    state: dict[str, JsonValue] = Field(default_factory=dict)
    """Replaces entries of the world, for this task."""
    max_iters: int | None = Field(default=None, ge=0)
    user_id: JsonValue = None
    """tau-bench's; not used."""
    annotator: JsonValue = None
    """tau-bench's; not used."""


class FileSuite:
    """Tasks from a file over the tools of a Python file: `FileSuite(Path("tasks.jsonl"), Path("tools.py"))`.

    Args:
        tasks: JSON lines, or a JSON list; see `TaskRow`.
        tools: See `Toolbox`.
        state: The world before each task, a JSON file or a folder of them; the toolbox's own by default.
        name: The file's name by default.
        instructions: What every task takes for granted.
        judge: The language model that judges, where tasks have criteria.

    Raises:
        SuiteError: A file is missing or malformed; it says which line.
    """

    def __init__(
        self,
        tasks: Path,
        tools: Path,
        *,
        state: Path | None = None,
        name: str = "",
        instructions: str = INSTRUCTIONS,
        judge: Any = None,
    ) -> None:
        self.name = name or tasks.stem
        self.instructions = instructions
        self.judge = judge
        rows = _read(tasks)
        self.toolbox = Toolbox(tools)
        self.world = read_state(state) if state is not None else self.toolbox.world
        self._rows: dict[str, TaskRow] = {}
        self._goals: dict[str, str] = {}
        self._tasks = tuple(self._task(row, number, tasks) for number, row in enumerate(rows))
        if not self._tasks:
            raise SuiteError(f"{str(tasks)!r} holds no task")

    @classmethod
    def from_folder(cls, folder: Path, judge: Any = None) -> FileSuite:
        """Read a folder as tau-bench has them.

        ``tasks.jsonl`` or ``tasks.json``; ``tools.py`` or ``tools/__init__.py``; the world in ``state.json``, or as one file
        for each table in ``state/`` or ``data/``; what every task takes for granted in ``instructions.md`` or ``wiki.md``.

        Raises:
            SuiteError: One of them is missing or malformed.
        """
        if not folder.is_dir():
            raise SuiteError(f"there is no folder {str(folder)!r}")
        tasks = _one(folder, "tasks.jsonl", "tasks.json")
        tools = _one(folder, "tools.py", "tools/__init__.py")
        if tasks is None or tools is None:
            missing = "tasks.jsonl" if tasks is None else "tools.py"
            raise SuiteError(
                f"{str(folder)!r} has no {missing}; expected tasks.jsonl, tools.py and state.json, as in docs/suites.md"
            )
        text = _one(folder, "instructions.md", "wiki.md")
        return cls(
            tasks,
            tools.parent if tools.name == "__init__.py" else tools,
            state=_one(folder, *STATES),
            name=folder.resolve().name,
            instructions=read_text(text) if text else INSTRUCTIONS,
            judge=judge,
        )

    @property
    def source(self) -> str:
        """A digest of the tools' source, the world, and what makes runs right."""
        return digest(
            [
                self.toolbox.digest,
                state_digest(self.world),
                [row.model_dump(mode="json") for row in self._rows.values()],
            ]
        )

    @property
    def tasks(self) -> tuple[SuiteTask, ...]:
        """See `Suite`."""
        return self._tasks

    @property
    def writing_tools(self) -> frozenset[str]:
        """See `Suite`: all that are not marked as read-only."""
        return self.toolbox.writing

    def episode(self, task: SuiteTask) -> Episode:
        """See `Suite`; every task is offered all tools.

        Raises:
            SuiteError: The task is to be judged, and there is no judge.
        """
        row = self._rows[task.id]
        state = fresh(self.world, row.state)
        scorer = all_of(self._scorers(task, row))
        return Episode(task.task, self.toolbox.registry(state), partial(self._score, task, state, scorer), task.group)

    def _score(self, task: SuiteTask, state: Any, scorer: Scorer, output: TaskOutput) -> Feedback:
        now = state_digest(state)
        feedback = scorer(Finished(task, output, now, self._goal(task)))
        return feedback.model_copy(update={"details": {**feedback.details, "state_sha256": {"state": now}}})

    def _goal(self, task: SuiteTask) -> str:
        if task.id not in self._goals:
            state = fresh(self.world, self._rows[task.id].state)
            self._play(task, self.toolbox.registry(state))
            self._goals[task.id] = state_digest(state)
        return self._goals[task.id]

    def _play(self, task: SuiteTask, registry: ToolRegistry) -> None:
        """Make the reference solution's calls: a goal that one of them did not reach is none."""
        for number, call in enumerate(task.gold):
            try:
                checked: ToolCall = check_call(registry, call.name, copy.deepcopy(call.args), f"c{number}")
            except InvalidModelAction as error:
                raise SuiteError(f"the reference solution of task {task.id!r} cannot be played: {error}") from error
            result = call_tool(registry.get(call.name), checked)
            if result.outcome != "success":
                raise SuiteError(
                    f"the reference solution of task {task.id!r} fails at {call.name}: {result.text}; see: ace suite check"
                )

    def _scorers(self, task: SuiteTask, row: TaskRow) -> list[Scorer]:
        accepted = [row.answer] if isinstance(row.answer, str) else row.answer
        found: list[Scorer] = []
        for name in _scored_by(row):
            if name == "state":
                found.append(by_state)
            elif name == "answer":
                # beside criteria an answer is the judge's reference, unless `score` says otherwise
                exact = any(accepted) and (not row.criteria or row.score is not None)
                found += [by_answer(*accepted)] * exact + [by_mention(*row.outputs)] * bool(row.outputs)
            elif self.judge is None:
                raise SuiteError(
                    f"task {task.id!r} is to be judged; name a judge (--judge-lm NAME), another model than the agent's"
                )
            else:
                found.append(by_judge(self.judge, row.criteria, task.answer if any(accepted) else ""))
        return found

    def _task(self, row: TaskRow, number: int, path: Path) -> SuiteTask:
        name = row.id or str(number)
        if name in self._rows:
            raise SuiteError(f"{str(path)!r} holds the id {name!r} twice")
        wanted = _scored_by(row)
        has = _has(row)
        lacks = [what for what in wanted if not has[what]]
        if not wanted or lacks:
            raise SuiteError(
                f"task {name!r} of {str(path)!r} does not say what makes a run right{' by ' + lacks[0] if lacks else ''}; "
                "expected gold, answer, outputs or criteria"
            )
        self._rows[name] = row
        answer = row.answer if isinstance(row.answer, str) else next(iter(row.answer), "")
        return SuiteTask(
            task=TaskInput(task_id=name, inputs={"task": row.task}, domain=row.domain or None, max_iters=row.max_iters),
            domain=row.domain or "all",
            group=row.family or name,
            gold=tuple(GoldCall(name=call.name, args=call.args) for call in row.gold or ()),
            answer=answer or ", ".join(row.outputs) or "Done.",
            split=row.split,
            time=row.time,
        )


def _has(row: TaskRow) -> Mapping[ScorerName, Any]:
    """Return what a row has something for; a judge costs: it comes last."""
    return {"state": row.gold is not None, "answer": row.answer or row.outputs, "judge": row.criteria}


def _scored_by(row: TaskRow) -> Sequence[ScorerName]:
    has = _has(row)
    if row.score is not None:
        return sorted(row.score, key=list(has).index)
    judged = bool(row.criteria) and not row.outputs  # then an answer is the judge's reference
    return [name for name, there in has.items() if there and not (name == "answer" and judged)]


def _one(folder: Path, *names: str) -> Path | None:
    return next((folder / name for name in names if (folder / name).exists()), None)


def _read(path: Path) -> list[TaskRow]:
    text = read_text(path)
    try:
        lines = json.loads(text) if path.suffix == ".json" else [line for line in text.split("\n") if line.strip()]
    except ValueError as error:
        raise SuiteError(f"cannot read {str(path)!r}: {error}; expected JSON") from error
    if not isinstance(lines, list):
        raise SuiteError(f"{str(path)!r} holds {type(lines).__name__}; expected a list of tasks")
    rows: list[TaskRow] = []
    for number, line in enumerate(cast("list[Any]", lines), 1):
        try:
            rows.append(TaskRow.model_validate(line if path.suffix == ".json" else json.loads(line)))
        except (ValidationError, ValueError) as error:
            what = str(error)
            if isinstance(error, ValidationError):
                first = error.errors(include_url=False, include_context=False)[0]
                what = f"{'.'.join(map(str, first['loc']))}: {first['msg']}"
            raise SuiteError(
                f"{str(path)!r}, task {number}: {what}; expected for example "
                '{"id": "t1", "task": "Refund order 17", "gold": [{"name": "refund", "args": {"order": 17}}]}'
            ) from error
    return rows
