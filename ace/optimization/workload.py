"""What an optimization job works on: an agent that starts fresh at every call, examples, and a score for each run."""
# pyright: basic, reportAttributeAccessIssue=false, reportArgumentType=false, reportCallIssue=false

from __future__ import annotations

import hashlib
import json
import math
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import dspy

from ace.agent import Policy
from ace.agent.episode import Episode
from ace.agent.history import ENDS
from ace.core import AceError, SignatureError, SuiteError, value_to_text
from ace.react import ReActGenerator, ReActPrediction
from ace.suites.examples import Metric
from ace.suites.protocol import Suite, SuiteTask, signature_of
from ace.suites.splits import halves
from ace.tasks import Feedback, TaskInput, TaskOutput, run_of

FEEDBACK = "feedback"
"""The key in a run's metadata for the feedback of its episode."""


class StopSwitch:
    """Once it is set, no run begins: an optimizer would take what follows for the program's failures.

    Attributes:
        reason: Why it was set; None before.
    """

    def __init__(self) -> None:
        self.reason: BaseException | None = None

    def stop(self, reason: BaseException) -> None:
        """Set it; the first reason stays."""
        self.reason = self.reason or reason

    def check(self) -> None:
        """Raise the reason, if it is set."""
        if self.reason is not None:
            raise self.reason

    def __deepcopy__(self, memo: dict[int, Any]) -> StopSwitch:
        return self


class SharedReference:
    """Keeps what must not be copied shared when an optimizer deep-copies the program."""

    def __init__(self, value: Any) -> None:
        self.value = value

    def __deepcopy__(self, memo: dict[int, Any]) -> SharedReference:
        return self


class EpisodeProgram(dspy.Module):
    """An agent whose every call is a fresh attempt at a task."""

    def __init__(self, agent: ReActGenerator, attempt: Callable[[dict[str, Any]], Episode]) -> None:
        super().__init__()
        self.agent = agent
        self._attempt = SharedReference(attempt)
        self._callbacks: SharedReference = SharedReference([])
        self.stop = StopSwitch()

    def forward(self, **inputs: Any) -> ReActPrediction:
        """Solve one task in a world of its own."""
        episode = self.episode(inputs)
        worker = self.agent.bound_to(episode.registry, playbook=self.agent.playbook)
        prediction = worker(episode.task)
        output = judged(prediction.output, episode.score(prediction.output))
        return ReActPrediction.of(output, self.agent.signature.output_fields, self.agent.formatted(output))

    def episode(self, inputs: Mapping[str, Any]) -> Episode:
        """Make a fresh world for some inputs."""
        self.stop.check()
        episode = self._attempt.value(dict(inputs))

        def score(output: TaskOutput) -> Feedback:
            feedback = episode.score(output)
            for callback in self._callbacks.value:
                callback(output, feedback)
            return feedback

        return replace(episode, score=score)

    def watch(self, callback: Callable[[TaskOutput, Feedback], None]) -> None:
        """Call a function after every run, of copies of this program too."""
        self._callbacks.value.append(callback)

    def set_lm(self, lm: Any) -> None:
        """Set the model of both predictors, in place of the agent's own."""
        self.agent.set_lm(lm)

    def for_job(self) -> EpisodeProgram:
        """Copy it without callbacks; the copy uses DSPy's configured model, and its failed runs are outputs, not errors."""
        fresh = self.deepcopy()
        fresh._callbacks, fresh.stop = SharedReference([]), StopSwitch()
        fresh.agent.raise_on_failure = False
        fresh.set_lm(None)
        return fresh


def judged(output: TaskOutput, feedback: Feedback) -> TaskOutput:
    """Return a run with its feedback in its metadata."""
    return output.model_copy(update={"metadata": {**output.metadata, FEEDBACK: feedback.model_dump(mode="json")}})


@dataclass(frozen=True)
class Workload:
    """A program, its examples, and how well a run did: `suite_workload(suite, train=2, val=2, test=2)` makes one."""

    name: str
    program: EpisodeProgram
    trainset: list[dspy.Example]
    valset: list[dspy.Example]
    testset: list[dspy.Example]
    metric: Metric | None = None
    """None when the program's episodes score their runs."""
    label: str = ""
    """What results are labelled with, `simulated` for example."""

    def feedback(self, example: dspy.Example, prediction: Any) -> Feedback:
        """Return the feedback on a run; a run that raised an error has failed.

        Raises:
            AceError: The metric raised an error, or gave something that is no score.
        """
        output = run_of(prediction)
        if not isinstance(output, TaskOutput):
            return Feedback(success=False, text="the run raised an error", details={"score": 0.0})
        if self.metric is None:
            return Feedback.model_validate(output.metadata[FEEDBACK])
        try:
            feedback = Feedback.of(self.metric(example, prediction))
            if not math.isfinite(score_of(feedback)):
                raise ValueError(f"a score of {score_of(feedback)}")
        except Exception as error:
            problem = AceError(
                f"the metric failed on {str(dict(example.inputs()))[:200]}: {type(error).__name__}: {error}; expected True, "
                "False, a number, Feedback, or a prediction with score and feedback"
            )
            self.program.stop.stop(problem)
            raise problem from error
        return feedback

    def score(self, example: dspy.Example, prediction: Any, trace: Any = None) -> float:
        """Score from 0 to 1, for optimizers that want one number."""
        return score_of(self.feedback(example, prediction))


def score_of(feedback: Feedback) -> float:
    """Return a metric's own number; 1 or 0 where it gave none."""
    return float(feedback.details.get("score", feedback.success))


def suite_workload(
    suite: Suite, *, train: int, val: int, test: int, seed: int = 0, policy: Policy | None = None, label: str = ""
) -> Workload:
    """Make the workload of a suite: tasks to learn and to choose by are of one half of each family, test tasks of the other.

    Args:
        suite: The suite; all of its tasks must offer the same tools.
        train: How many tasks optimizers learn from.
        val: How many they choose by.
        test: How many the result is measured on, none of which they see.
        seed: Of the random choice.
        policy: `Policy.forgiving()` by default.
        label: What results are labelled with.

    Raises:
        SuiteError: There are fewer tasks, or they differ in their tools.
    """
    first, second = halves(suite.tasks)
    if train < 1 or val < 1 or test < 1 or train + val > len(first) or test > len(second):
        raise SuiteError(
            f"{suite.name!r} has {len(first)} tasks to learn from and {len(second)} to test on; expected train >= 1, "
            f"val >= 1, test >= 1 within them, got {train} + {val} and {test}"
        )
    chosen = random.Random(f"{seed}|learn").sample(first, train + val)
    tested = random.Random(f"{seed}|test").sample(second, test)
    tasks = {task.id: task for task in suite.tasks}
    registry = suite.episode(chosen[0]).registry
    for task in (*chosen, *tested):
        if suite.episode(task).registry.schema_hashes != registry.schema_hashes:
            raise SuiteError(f"the tasks of {suite.name!r} differ in their tools; one program needs one set of tools")

    def attempt(inputs: dict[str, Any]) -> Episode:
        return suite.episode(tasks[inputs["task_id"]])

    agent = ReActGenerator(
        signature_of(suite), tools=registry, policy=policy or Policy.forgiving(), memory_timeout=None
    )
    program = EpisodeProgram(agent, attempt)
    sets = [[_example(task) for task in some] for some in (chosen[:train], chosen[train:], tested)]
    return Workload(suite.name, program, *sets, label=label)


def _example(task: SuiteTask) -> dspy.Example:
    return dspy.Example(task=task.task.text, task_id=task.id, domain=task.domain, group=task.group).with_inputs(
        "task", "task_id"
    )


def as_generator(program: dspy.Module) -> ReActGenerator:
    """Make a `ReActGenerator` that does what a program does, `as_generator(program)`, with its own copy of the predictors.

    Args:
        program: A `ReActGenerator`, or a plain ReAct of DSPy, the old or the new one, with its instructions and demos.

    Raises:
        SignatureError: The program is neither.
    """
    if isinstance(program, EpisodeProgram):
        program = program.agent
    if isinstance(program, ReActGenerator):
        return program.deepcopy()
    react: Any = program  # the old ReAct or the new one: told by what both have
    if not (isinstance(getattr(react, "tools", None), dict) and hasattr(react, "signature")):
        raise SignatureError(
            f"expected a ReActGenerator or a dspy.ReAct, got {type(program).__name__}; pass the ReAct inside your program"
        )
    tools = [tool for name, tool in react.tools.items() if name not in ENDS]
    agent = ReActGenerator(
        react.signature, tools=tools, max_iters=react.max_iters, policy=Policy.forgiving(), memory_timeout=None
    )
    agent.load_state(react.dump_state())
    return agent


def program_workload(
    agent: dspy.Module,
    metric: Metric,
    *,
    trainset: Sequence[dspy.Example],
    valset: Sequence[dspy.Example],
    testset: Sequence[dspy.Example],
    name: str = "program",
) -> Workload:
    """Make the workload of your own agent, `program_workload(agent, metric, **examples)`; its tools are really called.

    Args:
        agent: A `ReActGenerator` or a plain `dspy.ReAct`; a copy of it is optimized.
        metric: Scores a run, see `Metric`.
        trainset: What optimizers learn from.
        valset: What they choose by.
        testset: What the result is measured on.
        name: The name in the results.

    Raises:
        ValueError: A set is empty, or an example lacks an input.
        SignatureError: The agent is neither.
    """
    student = as_generator(agent)
    names = tuple(student.signature.input_fields)
    for title, examples in (("trainset", trainset), ("valset", valset), ("testset", testset)):
        if not examples:
            raise ValueError(f"{title} is empty; expected at least one example")
        for number, example in enumerate(examples):
            task_of(example, names, number)

    def attempt(inputs: dict[str, Any]) -> Episode:
        return Episode(task_of(dspy.Example(inputs), names), student.registry, _unjudged)

    sets = [[example.with_inputs(*names) for example in some] for some in (trainset, valset, testset)]
    return Workload(name, EpisodeProgram(student, attempt), *sets, metric=metric)


def _unjudged(output: TaskOutput) -> Feedback:
    """Leave the score of a run of your own agent to the metric alone, which also gets the example."""
    return Feedback(success=output.completed)


def task_of(example: dspy.Example, names: Sequence[str], number: int = 0) -> TaskInput:
    """Convert an example to a task; `task_id`, `domain` and `tenant` are read when it has them.

    Args:
        example: The example.
        names: The signature's input fields.
        number: Names the example in an error.

    Raises:
        ValueError: It lacks an input of the signature.
    """
    missing = [name for name in names if name not in example]
    if missing:
        raise ValueError(
            f"example {number} lacks {', '.join(map(repr, missing))}; the signature's inputs are {list(names)}"
        )
    inputs = {name: example[name] for name in names}
    text = json.dumps(inputs, sort_keys=True, default=value_to_text)
    task_id = str(example.get("task_id", "") or "") or hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:16]
    scope = {name: example[name] for name in ("domain", "tenant") if name in example and name not in names}
    return TaskInput(task_id=task_id, inputs=inputs, **scope)
