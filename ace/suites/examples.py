"""Any list of `dspy.Example` with a metric, as a suite."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, cast

import dspy
from pydantic import ValidationError

from ace.agent.episode import Episode
from ace.core import SuiteError, value_to_text
from ace.react import ReActPrediction
from ace.suites.protocol import GoldCall, SuiteTask
from ace.tasks import Feedback, TaskInput, TaskOutput
from ace.tools import ToolRegistry

Metric = Callable[..., Any]
"""``metric(example, prediction)``: True or False, a number, `Feedback`, or a prediction with `score` and `feedback`."""


class ExamplesSuite:
    """Examples as tasks, and a metric as scorer.

    An example's `task_id`, `family` (or `group`), `domain`, `split` and `time` are read where it has them and they are no
    inputs; `gold`, a list of ``{"name": ..., "args": {...}}``, is a reference solution for the arm `gold`.

    Args:
        examples: With inputs, as ``dspy.Example(...).with_inputs(...)``.
        metric: ``metric(example, prediction)``: True or False, a number that counts as success from 0.5, `Feedback`, or a
            prediction with `score` and `feedback`.
        tools: Whatever `ReActGenerator` takes as tools; or a function from an example to its tools, for a fresh world each
            time.
        signature: Of the agent.
        name: The name in the results.
        instructions: What every task takes for granted; only where the signature is a string.

    Raises:
        SuiteError: There is no example, one has no inputs, or ids repeat.

    Examples:
        >>> example = dspy.Example(question="What is 6 * 7?", answer="42").with_inputs("question")
        >>> suite = ExamplesSuite([example], lambda example, prediction: prediction.answer == example.answer)
        >>> [task.task.text for task in suite.tasks]
        ['What is 6 * 7?']
    """

    def __init__(
        self,
        examples: Sequence[dspy.Example],
        metric: Metric,
        *,
        tools: Sequence[Any] | Callable[[dspy.Example], Sequence[Any]] = (),
        signature: str | type[dspy.Signature] = "question -> answer",
        name: str = "examples",
        instructions: str = "",
    ) -> None:
        if not examples:
            raise SuiteError("there are no examples; expected at least one")
        self.name = name
        self.signature: Any = cast(Any, dspy).ensure_signature(signature, instructions or None)
        self.instructions = self.signature.instructions
        self._outputs = tuple(self.signature.output_fields)
        self._metric = metric
        self._tools: Any = tools
        self._shared = None if callable(tools) else ToolRegistry(tools)
        self._examples: dict[str, dspy.Example] = {}
        self._tasks = tuple(self._task(example, number) for number, example in enumerate(examples))

    @property
    def tasks(self) -> tuple[SuiteTask, ...]:
        """See `Suite`."""
        return self._tasks

    @property
    def writing_tools(self) -> frozenset[str]:
        """See `Suite`: all that are not marked as read-only."""
        registry = self._registry(next(iter(self._examples.values())))
        return frozenset(name for name in registry.names if not registry.get(name).read_only)

    def episode(self, task: SuiteTask) -> Episode:
        """See `Suite`; the world is fresh where `tools` is a function."""
        example = self._examples[task.id]
        return Episode(task.task, self._registry(example), partial(self._score, example), task.group)

    def _registry(self, example: dspy.Example) -> ToolRegistry:
        return ToolRegistry(self._tools(example)) if self._shared is None else self._shared

    def _score(self, example: dspy.Example, output: TaskOutput) -> Feedback:
        feedback = Feedback.of(self._metric(example, ReActPrediction.of(output, self._outputs, output)))
        return feedback.model_copy(update={"success": feedback.success and output.completed})

    def _task(self, example: dspy.Example, number: int) -> SuiteTask:
        try:
            inputs: dict[str, Any] = dict(cast(Any, example).inputs())
        except ValueError as error:
            raise SuiteError(f"example {number} has no inputs; call with_inputs(...) on it") from error

        def field(*names: str) -> Any:
            known = cast(Any, example)
            return next((known[name] for name in names if name in known and name not in inputs), None)

        text = json.dumps(inputs, sort_keys=True, default=value_to_text)
        name = str(field("task_id", "id") or hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:12])
        if name in self._examples:
            raise SuiteError(f"example {number} has the id {name!r}, or the inputs, of an earlier one")
        self._examples[name] = example
        domain = field("domain")
        return SuiteTask(
            task=TaskInput(task_id=name, inputs=inputs, domain=domain, max_iters=field("max_iters")),
            domain=domain or "all",
            group=str(field("family", "group") or name),
            gold=_gold(field("gold") or (), number),
            answer=value_to_text(field(self._outputs[0]) or "Done."),
            outputs={name: example[name] for name in self._outputs if name in example},
            split=field("split") or "",
            time=field("time"),
        )


def _gold(calls: Any, number: int) -> tuple[GoldCall, ...]:
    try:
        return tuple(GoldCall.model_validate(call) for call in calls)
    except (ValidationError, TypeError) as error:
        raise SuiteError(
            f'example {number}: gold is {str(calls)[:100]!r}; expected a list of {{"name": ..., "args": {{...}}}}'
        ) from error
