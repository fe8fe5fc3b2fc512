"""`Reflector`: from the trace of a run to the lessons in it, first without a language model, then with one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from functools import cached_property
from itertools import chain, islice
from typing import Any

from ace.core import truncate
from ace.core.language import name_as_text
from ace.playbook.bullet import Provenance
from ace.playbook.delta import Learned
from ace.playbook.index.minilm import Embedder
from ace.playbook.insight import RECORD, Insight
from ace.playbook.masking import Masker, PatternMasker
from ace.playbook.plan import digest_of
from ace.playbook.sources import Source
from ace.reflector import mining
from ace.reflector.asked import Asked, asked_for
from ace.reflector.hearsay import rests_on
from ace.reflector.knowledge import Knowledge
from ace.reflector.mining import Lesson
from ace.reflector.situations import situation_of, without_values
from ace.reflector.values import said_in
from ace.tasks import Feedback, TaskOutput

MAX_MINED = 3
"""Lessons that the miner takes from one run: what worked or did not, and two details."""
LEARN_SECONDS = 5.0
MAX_WORDS_SHOWN = 200
"""Characters of a sentence that made a lesson wait."""
OUTAGES = frozenset({"model_transport", "interrupted", "internal_invariant"})
"""A run that ended for one of these reasons is no evidence about the task or the bullets it was shown."""


RECORDED = "recorded"
"""In the metadata of a run that was read from another framework's recording, which does not say how it ended."""


@dataclass(eq=False, repr=False)
class Reflector:
    """Mines runs for lessons.

    A success becomes a Strategy: the calls that mattered, in order, with their constants abstracted. A failure becomes a
    Pitfall: what was tried, and where it broke. From both come Pitfalls about single tools: arguments that were refused and
    what was accepted in their place, tools that were out of order.

    Args:
        source: The model that made the runs, for the bullets' provenance.
        masker: Finds what is personal in a request. A `Learner` sets the playbook's; patterns by default.
        private: Names of fields and arguments whose values are never shown to others.
        embedder: Compares what a task asks for with the calls. A `Learner` sets the playbook's; words alone by default.
        seconds: Of CPU time, for one run; what takes longer is kept for somebody with more.
        lm: A DSPy language model that reads the run too and adds at most three lessons of its own; None for the miner alone.

    Attributes:
        refused: Why lessons of the language model were not taken, and how often.

    Examples:
        >>> from ace.core import RunUsage
        >>> from ace.tasks import ReasoningStep, TaskInput
        >>> step = ReasoningStep(iteration=1, tool_call_id="c", tool_name="refund", tool_args={"order": "17"},
        ...                      outcome="success", observation="ok", changes_state=True, executed=True)
        >>> output = TaskOutput(task_id="t", run_id="r", task=TaskInput(inputs={"task": "Refund order 17"}),
        ...                     structured_trace=(step,), termination_reason="completed")
        >>> Reflector().reflect(output, Feedback(success=True))[0].content
        'refund(order from the task), then submit(...)'
    """

    source: str = ""
    _: KW_ONLY
    lm: Any = None
    masker: Masker | None = None
    private: Collection[str] = ()
    embedder: Embedder | None = None
    seconds: float = LEARN_SECONDS
    refused: Counter[str] = field(default_factory=Counter[str], init=False)

    def reflect(self, output: TaskOutput, feedback: Feedback, **options: Any) -> list[Insight]:
        """Find the lessons of one run; none when there is nothing to learn from.

        A run that did not end by itself teaches no Strategy, whatever the verdict.

        Args:
            output: The run.
            feedback: Whether it did what it should, from outside the model.
            **options: As for `read`.
        """
        return list(self.read(output, feedback, **options).insights)

    def read(
        self,
        output: TaskOutput,
        feedback: Feedback,
        *,
        group: str = "",
        known: Sequence[str] = (),
        schemas: Mapping[str, Any] | None = None,
    ) -> Learned:
        """Read a run as `reflect` does, with what a run of the same task that ends the other way is compared by.

        Args:
            output: The run.
            feedback: Whether it did what it should, from outside the model.
            group: The task's family, for leave-one-family-out evaluation.
            known: Bullets of the playbook about such tasks; the language model is asked for other lessons.
            schemas: Of the tools, ``registry.schemas``: what they name is no value of one task.
        """
        run = Learned(run_id=output.run_id, task_id=output.task_id, tenant=output.task.tenant, success=feedback.success)
        # where no reply was ever legal, that teaches nothing about the task
        if output.termination_reason in OUTAGES or not (output.structured_trace or output.completed):
            return run
        masker = self.masker or PatternMasker()
        knowledge = Knowledge(schemas or {}, masker, self.private, self.embedder, output.run_id, self.seconds)
        reading = _Reading(output, feedback, knowledge, group, self.source)
        doubt = reading.doubt()
        said = feedback.text if not doubt else ""
        main: list[Lesson] = []
        if not feedback.success:
            main += filter(None, [mining.pitfall(output, said, knowledge)])
        elif output.completed or output.metadata.get(RECORDED):
            main.append(mining.strategy(output, knowledge))
        # where the run failed, what replaced a tool that was out of order did not work either
        out_of_order = mining.outages(output, knowledge) if feedback.success else ()
        details = chain(out_of_order, mining.recoveries(output))
        insights = [reading.insight(lesson) for lesson in (*main, *islice(details, MAX_MINED - 1))]
        if doubt and not feedback.success and (waits := mining.pitfall(output, feedback.text, knowledge)) is not None:
            insights.append(reading.insight(waits).model_copy(update={"held": doubt, "after": ()}))
        if self.lm is not None:
            insights += self._reflected(reading, [*known, *(insight.content for insight in insights)])
        return run.model_copy(
            update={
                "insights": tuple(insights),
                "changed": mining.changes(output, knowledge) if insights else (),
                "asked": {call.tool: reading.asked_by(call) for call in reversed(reading.asked)},
            }
        )

    def _reflected(self, reading: _Reading, known: Sequence[str]) -> list[Insight]:
        from ace.reflector.reflection import reflect_on

        output, feedback, knowledge = reading.output, reading.feedback, reading.knowledge
        lessons, refused = reflect_on(output, feedback, known, self.lm)
        self.refused.update(refused)
        read = [output.task.text, feedback.text, *(step.result for step in output.structured_trace)]
        strangers = [feedback.text] if feedback.text and not feedback.trusted else []
        insights: list[Insight] = []
        for lesson in lessons:
            insight = reading.insight(lesson)
            text = f"{lesson.trigger} {lesson.content}"
            repeated = rests_on(text, output, knowledge, strangers)
            why = f"repeats what one answer said: {repeated}" if repeated else reading.not_done(text, lesson)
            changes = {
                "situation": None,
                "trigger": situation_of(lesson.trigger, knowledge).shown,
                "content": without_values(lesson.content, output.structured_trace, knowledge, read),
                "words_from": ("model",),
                "after": (),  # its words are a reason of their own
                "held": insight.held or without_values(why, output.structured_trace, knowledge, read),
            }
            insights.append(insight.model_copy(update=changes))
        return insights


@dataclass(frozen=True)
class _Reading:
    """One run with its verdict, and what is known when it is read."""

    output: TaskOutput
    feedback: Feedback
    knowledge: Knowledge
    group: str
    source: str

    @cached_property
    def asked(self) -> list[Asked]:
        """The calls that an untrusted answer asked for."""
        return asked_for(self.output, self.knowledge)

    def insight(self, lesson: Lesson) -> Insight:
        """Make an insight of a lesson, with its situation, its evidence and the reason to hold it."""
        output, feedback = self.output, self.feedback
        executed = [step for step in output.structured_trace if step.executed]
        ended = [step.outcome == "success" for step in executed if step.error or step.outcome != "interrupted"]
        request = lesson.plan or mining.mined(output.task, executed, self.knowledge)
        situation = request.situation
        unasked = sorted(self._unasked(lesson), key=lambda call: bool(call.after))  # what was asked for comes first
        by_words = any(not call.after for call in unasked)
        return Insight(
            section=lesson.section,
            trigger="" if lesson.general else situation.shown,
            content=lesson.content,
            plan=lesson.plan.plan if lesson.plan else None,
            situation=None if lesson.general else situation,
            values=lesson.plan.values if lesson.plan else {},
            domain=output.task.domain,
            tenant=output.task.tenant,
            tool_sequence=tuple(step.tool_name for step in lesson.sequence),
            changing_tools=tuple(step.tool_name for step in lesson.sequence if step.changes_state),
            tools=lesson.tools,
            words_from=() if lesson.plan else ("schema", *_speaker(lesson, feedback)),
            held=self.asked_by(unasked[0]) if unasked else "",
            after=() if by_words else tuple(sorted({one for call in unasked for one in call.after})),
            tool_success_rate=sum(ended) / len(ended) if ended else None,
            iterations=output.usage.iterations,
            steps=lesson.steps,
            confidence=feedback.confidence,
            provenance=Provenance(
                task_ids=(output.task_id,),
                groups=(self.group,) if self.group else (),
                run_ids=(output.run_id,),
                users=(digest_of(output.task.user),) if output.task.user else (),
                source=self.source,
            ),
        )

    def doubt(self) -> str:
        """Say why the words of feedback only propose; empty when a lesson may have them."""
        if not self.feedback.text or self.feedback.trusted:
            return ""
        if self.feedback.confidence is None:
            return "somebody's words, which only propose"
        repeated = rests_on(self.feedback.text, self.output, self.knowledge)
        why = f"the judge repeats what one answer said: {repeated}" if repeated else ""
        return without_values(why, self.output.structured_trace, self.knowledge)

    def not_done(self, text: str, lesson: Lesson) -> str:
        """Say what a written lesson speaks of that the run has not done; empty when it rests on the run."""
        steps = self.output.structured_trace
        made = {step.tool_name for step in steps if step.executed}
        said = name_as_text(text)
        named = (t for t in self.knowledge.changing if t not in made and any(said_in(said, name_as_text(t))))
        if (tool := next(named, None)) is not None:
            return f"names {tool}, which changes something and was not called"
        rests = any(steps[number - 1].executed for number in lesson.steps)
        return "" if rests else "rests on nothing that the run did"

    def asked_by(self, call: Asked) -> str:
        """Say who asked for a call, or what it came after."""
        words = truncate(without_values(call.words, self.output.structured_trace, self.knowledge), MAX_WORDS_SHOWN)
        if call.after:
            return f"the task did not ask for {call.tool}, which came after an answer of {call.by}: {words!r}"
        return f"an answer of {call.by} asked for {call.tool}: {words!r}"

    def _unasked(self, lesson: Lesson) -> list[Asked]:
        """Find the calls of a lesson that an answer asked for, or that came unasked for after one and are part of its
        plan."""
        if lesson.plan is not None:
            return [call for call in self.asked if not call.after or call.step in lesson.steps]
        if lesson.content.startswith(RECORD):
            return []  # a record of what did not work recommends nothing
        named = [*(step.tool_name for step in lesson.sequence), *lesson.tools]
        return [call for call in self.asked if call.tool in named]


def _speaker(lesson: Lesson, feedback: Feedback) -> tuple[Source, ...]:
    """Say whose words a lesson has, beside those of the tools."""
    if not lesson.said:
        return ()
    return ("judge",) if feedback.confidence is not None else ("feedback",)


def beside(run: Learned, other: Learned | None) -> list[Insight]:
    """Return the lessons of a run, with what made the difference to an earlier run of the task that ended the other way.

    Args:
        run: As `Reflector.read` gave it.
        other: The earlier run; None where there is none.
    """
    if other is None or not run.insights or run.insights[0].situation is None:
        return list(run.insights)
    failed, succeeded = (other, run) if run.success else (run, other)
    found = mining.contrast(failed.changed, succeeded.changed)
    if found is None:
        return list(run.insights)
    main, *details = run.insights
    held = next((why for tool, why in run.asked.items() if tool in found.tools), "")
    plain: dict[str, Any] = {"plan": None, "values": {}, "filled": ""}
    empty = dict.fromkeys(("tool_sequence", "changing_tools", "steps", "after"), ())
    said = {"section": found.section, "content": found.content, "tools": found.tools, "held": held}
    difference = main.model_copy(update={**plain, **empty, **said, "words_from": ("schema",)})
    # what made the difference says more than the record of a failure
    return [*run.insights, difference] if run.success else [difference, *details]
