"""What an agent outside this process may ask of a playbook: lessons for a task, and to learn from its messages."""

from __future__ import annotations

import secrets
import threading
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import Any, Literal, cast

from pydantic import BaseModel

from ace.core import PlaybookError, visible
from ace.learner import Learner, LearningReport
from ace.learner.trace_formats import events_of, field_of, in_words, media_of
from ace.learner.traces import read_requests
from ace.playbook import Filters, Playbook, PlaybookBullet, Tag
from ace.playbook.bullet import SHOWN_STAGES
from ace.playbook.filters import ANY_VERSION
from ace.playbook.plan import ENDS
from ace.playbook.render import render_bullets
from ace.serve.guard import Allowance
from ace.tasks import Feedback

MAX_MESSAGES = 2_000
"""Messages of one conversation."""
MAX_CHARS = 1_000_000
"""Characters of one request, all of its texts together."""
MAX_TASK = 20_000
"""Characters of a task that lessons are looked up for."""
MAX_LISTED = 200
MOST_A_DAY = 50
"""Verdicts on one lesson by one author."""
MOST_RECALLED = 10_000
"""Runs that a memory remembers to have recalled lessons for."""


class Lesson(BaseModel, frozen=True):
    """A lesson as others see it, without its evidence: `memory.lesson("b-1").content`."""

    id: str
    section: str
    trigger: str
    """The kind of task that it is for."""
    content: str
    tools: tuple[str, ...]
    """The calls it teaches, in order."""
    calls: tuple[dict[str, Any], ...] = ()
    """The same with where each argument comes from, for an agent that makes them by itself; of a mined lesson only."""
    domain: str | None = None
    stage: str = "active"

    @classmethod
    def of(cls, bullet: PlaybookBullet) -> Lesson:
        """Return a bullet as a lesson: `Lesson.of(book.get("b-1")).content`."""
        return cls(
            id=bullet.id,
            section=bullet.section,
            trigger=visible(bullet.trigger),
            content=visible(bullet.content.removesuffix(ENDS)),
            tools=bullet.tool_sequence,
            calls=tuple(bullet.plan.as_data()) if bullet.plan is not None else (),
            domain=bullet.domain,
            stage=bullet.stage,
        )


class Recall(BaseModel, frozen=True):
    """Lessons for a task, from `memory.recall("Refund order 17")`."""

    lessons: tuple[Lesson, ...]
    prompt: str
    """The same as text for a prompt; empty when there is nothing to show."""
    run: str
    """Names the run that these lessons are for: `feedback` counts for it."""


class Remembered(BaseModel, frozen=True):
    """What became of a trace, from `memory.remember(messages, success=True)`; it is on disk when this arrives."""

    revision: int
    """Of the playbook, afterwards."""
    runs: int
    """Requests of the conversation that were learned from."""
    added: int
    merged: int
    known: int
    """Requests that had been learned from before: the same trace counts once."""
    waiting: tuple[str, ...]
    """Ids of new lessons that wait for a person."""
    corrected: int = 0
    """Requests whose verdict took the place of an earlier one."""
    retracted: int = 0
    """Requests that teach nothing any more."""
    run_ids: tuple[str, ...] = ()
    """Of the requests: `feedback` counts for them."""
    postponed: int = 0
    """Requests that took too long to learn from: they are kept for a learner that takes more time."""


class Noted(BaseModel, frozen=True):
    """That feedback was counted, from `memory.feedback("b-1", True, memory.recall("Refund order 17").run)`."""

    lesson: str
    revision: int


class LessonReason(BaseModel, frozen=True):
    """Why a lesson comes for a task, or does not, from `memory.explain("Refund order 17")`."""

    lesson: Lesson
    shown: bool
    why: str


class SharedMemory:
    """A playbook that agents of any framework share. Safe to call from many threads; other processes may hold the book, too.

    A trace that arrives is judged like an own run: its verdict counts, what its tools answered is untrusted, and what free
    text asked for waits for a person. Nothing that this class returns holds another tenant's lessons.

    Args:
        playbook: The book.
        author: The name in the journal of what is written through this memory.
        tenant: Whose lessons are read and written, beside those that are everybody's.
        read_only: Whether nothing may be written.

    Examples:
        >>> from ace.playbook import CallableEmbedder
        >>> book = Playbook(embedder=CallableEmbedder("toy", lambda texts: [[len(t), 1.0] for t in texts]))
        >>> memory = SharedMemory(book, author="ana")
        >>> call = {"id": "c1", "function": {"name": "refund", "arguments": '{"order": "o-17"}'}}
        >>> memory.remember([{"role": "user", "content": "Refund order o-17"},
        ...                  {"role": "assistant", "tool_calls": [call]},
        ...                  {"role": "tool", "tool_call_id": "c1", "content": "done"},
        ...                  {"role": "assistant", "content": "Refunded."}], success=True).added
        1
        >>> memory.recall("Refund order o-18").lessons[0].tools
        ('refund',)
    """

    def __init__(
        self, playbook: Playbook, *, author: str = "agent", tenant: str | None = None, read_only: bool = False
    ) -> None:
        self.playbook = playbook
        self.author = author
        self.tenant = tenant
        self.read_only = read_only
        self._learner = Learner(playbook, author=author)
        self._lock = threading.Lock()
        self._recalled: OrderedDict[str, frozenset[str]] = OrderedDict()
        """Runs, with the lessons that they were shown."""
        self._counts = Allowance(MOST_A_DAY, 86_400.0)

    def recall(self, task: str, domain: str | None = None, tools: Sequence[str] | None = None, k: int = 3) -> Recall:
        """Find the lessons that fit a task.

        Args:
            task: In its own words.
            domain: Only lessons of this domain, or of none.
            tools: Names of the agent's tools: lessons that need others do not come. None knows none, and all may come.
            k: How many at most.

        Raises:
            PlaybookError: The task is empty or too long, or k is no number from 1 to 20.
        """
        self._check_task(task)
        if not 1 <= k <= 20:
            raise PlaybookError(f"k is {k}, expected 1 to 20")
        found = self.playbook.retrieve(task, domain, self._filters(tools), k, tenant=self.tenant)
        run = f"recall-{secrets.token_hex(8)}"
        self._recalled[run] = frozenset(bullet.id for bullet in found)
        while len(self._recalled) > MOST_RECALLED:
            self._recalled.popitem(last=False)
        return Recall(lessons=tuple(map(Lesson.of, found)), prompt=render_bullets(found).replace(ENDS, ""), run=run)

    def remember(
        self,
        messages: Sequence[Mapping[str, Any]],
        success: bool | None = None,
        *,
        domain: str | None = None,
        read_only_tools: Sequence[str] = (),
        note: str = "",
        retract: bool = False,
    ) -> Remembered:
        """Learn from a conversation with its tool calls.

        The same conversation counts once; with another verdict, that one takes the place of the earlier.

        Args:
            messages: In the form of OpenAI's chat API, or items of its Responses API. A call without an answer counts as
                made when the task was done. Images and sounds are left out.
            success: Whether the task was done as it should be; a failed run teaches what did not work.
            domain: Of the task.
            read_only_tools: Tools that change nothing.
            note: What went wrong, in words.
            retract: Take back what the conversation has taught; `success` says nothing then.

        Raises:
            PlaybookError: The book is read-only, the messages are none, or there is no verdict.
        """
        self._writable()
        if success is None and not retract:
            raise PlaybookError("success is missing: say whether the task was done as it should be, true or false")
        if not 0 < len(messages) <= MAX_MESSAGES:
            raise PlaybookError(f"there are {len(messages)} messages, expected 1 to {MAX_MESSAGES:,}")
        try:
            size = sum(map(_size, messages))
            asked = [
                event for event in in_words(events_of(list(messages))) if event.kind == "user" and event.text.strip()
            ]
        except ValueError as error:
            raise PlaybookError(f"nothing was learned: {error}") from error
        except RecursionError:
            raise PlaybookError("nothing was learned: the messages are nested too deeply") from None
        if size > MAX_CHARS:
            raise PlaybookError(f"the messages have {size:,} characters, expected at most {MAX_CHARS:,}")
        if not asked:
            raise PlaybookError("nothing was learned: no message of the role user says in words what the task was")
        about: dict[str, Any] = {"read_only": read_only_tools, "domain": domain, "tenant": self.tenant}
        with self._lock:
            self.playbook.refresh()
            waited, retracted = self._waiting(), 0
            try:
                if retract:
                    retracted, report = self._retract(list(messages), about), LearningReport()
                else:
                    verdict = Feedback(success=bool(success), text=note[:2_000])
                    report = self._learner.learn_from_traces([list(messages)], [verdict], **about)
            except ValueError as error:
                raise PlaybookError(f"nothing was learned: {error}") from error
            waiting = sorted(self._waiting() - waited, key=lambda name: int(name.removeprefix("b-")))
            revision = self.playbook.revision
        return Remembered(
            revision=revision,
            runs=report.runs,
            added=report.added,
            merged=report.merged,
            known=report.skipped,
            waiting=tuple(waiting),
            corrected=report.corrected,
            retracted=retracted,
            run_ids=tuple(run.run_id for run in read_requests(list(messages), **about)),
            postponed=report.postponed,
        )

    def _retract(self, messages: list[Any], about: Mapping[str, Any]) -> int:
        """Take back what a conversation has taught; from how many of its requests something was learned."""
        runs = [run.run_id for run in read_requests(messages, **about)]
        known = self.playbook.history.learned(runs)
        for run_id in known:
            self._learner.retract(run_id)
        return len(known)

    def feedback(self, lesson: str, helped: bool, run: str) -> Noted:
        """Count that a lesson of this tenant helped a run, or harmed it.

        A run counts once for each lesson, and `MOST_A_DAY` of them a day: nobody judges a lesson by names that were made up.

        Args:
            lesson: Its id.
            helped: Whether it did.
            run: The run, by the name that `recall` gave it when the lesson was among those it returned, or by one of the
                `run_ids` that `remember` returned.

        Raises:
            PlaybookError: There is no such lesson, it is everybody's and not this tenant's, or nothing is known of the run.
        """
        self._writable()
        if self._get(lesson).tenant != self.tenant:
            raise PlaybookError(f"the lesson {lesson!r} is everybody's: who speaks for {self.tenant} cannot judge it")
        if lesson not in self._recalled.get(run, ()) and run not in self.playbook.history.learned([run]):
            raise PlaybookError(
                f"nothing is known of a run {run!r:.80} with the lesson {lesson!r}: name the run as `recall` did when it "
                "returned the lesson, or as `remember` did afterwards"
            )
        if not self._counts.take(lesson):
            raise PlaybookError(f"{lesson!r} was judged {MOST_A_DAY} times by {self.author} today; go on tomorrow")
        tag = Tag(bullet_id=lesson, helpful=int(helped), harmful=int(not helped), run_id=f"{self.author}:{run}")
        return Noted(lesson=lesson, revision=self.playbook.commit([tag], author=self.author))

    def lessons(
        self, domain: str | None = None, stage: Literal["shown", "all"] = "shown", first: int = 0, limit: int = 50
    ) -> list[Lesson]:
        """Return the lessons in the order of their ids.

        Args:
            domain: Only of this one.
            stage: Those that a prompt may show, or all.
            first: How many are passed over.
            limit: How many at most, up to 200.

        Raises:
            PlaybookError: `first` is negative, or `limit` is no number from 1 to 200.
        """
        if first < 0 or not 1 <= limit <= MAX_LISTED:
            raise PlaybookError(f"first is {first} and limit {limit}, expected 0 or more, and 1 to {MAX_LISTED}")
        self.playbook.refresh()
        found = [
            bullet
            for bullet in self.playbook.bullets
            if self._visible(bullet)
            and (stage == "all" or bullet.stage in SHOWN_STAGES)
            and domain in (None, bullet.domain)
        ]
        return [Lesson.of(bullet) for bullet in found[first : first + limit]]

    def lesson(self, lesson: str) -> Lesson:
        """Return one lesson that may be shown.

        Raises:
            PlaybookError: There is none of that id, for this tenant.
        """
        bullet = self._get(lesson)
        if bullet.stage not in SHOWN_STAGES:
            raise PlaybookError(f"the lesson {lesson!r} is {bullet.stage}, and not shown")
        return Lesson.of(bullet)

    def explain(self, task: str, domain: str | None = None, tools: Sequence[str] | None = None) -> list[LessonReason]:
        """Say what `recall` returns for a task and why, then what else is near; without the words of what waits for a
        person."""
        self._check_task(task)
        found = self.playbook.explain(task, domain, self._filters(tools), tenant=self.tenant)
        return [
            LessonReason(lesson=Lesson.of(reason.bullet), shown=reason.chosen, why=visible(reason.why))
            for reason in found.reasons
            if self._visible(reason.bullet) and reason.bullet.stage in SHOWN_STAGES
        ]

    def _check_task(self, task: str) -> None:
        if not task.strip() or len(task) > MAX_TASK:
            raise PlaybookError(f"the task has {len(task):,} characters, expected 1 to {MAX_TASK:,}")

    def _waiting(self) -> set[str]:
        """Return the ids of the lessons of this tenant that wait for a person."""
        mine = (bullet for bullet in self.playbook.bullets if bullet.tenant == self.tenant)
        return {bullet.id for bullet in mine if bullet.stage == "quarantined"}

    def _filters(self, tools: Sequence[str] | None) -> Filters:
        return Filters(tools=None if tools is None else dict.fromkeys(tools, ANY_VERSION))

    def _visible(self, bullet: PlaybookBullet) -> bool:
        return bullet.tenant in (None, self.tenant)

    def _get(self, lesson: str) -> PlaybookBullet:
        self.playbook.refresh()
        bullet = self.playbook.find([lesson]).get(lesson)
        if bullet is None or not self._visible(bullet):
            raise PlaybookError(f"there is no lesson {lesson!r}")
        return bullet

    def _writable(self) -> None:
        if self.read_only:
            raise PlaybookError("this memory is read-only: nothing was written")


def _size(message: Any) -> int:
    """Count the characters of a message; an image or a sound is not read, so that it does not count."""
    if isinstance(parts := field_of(message, "parts"), (list, tuple)):  # Pydantic AI's
        return sum(map(_size, cast("Sequence[Any]", parts)))
    content = field_of(message, "content")
    if not isinstance(message, Mapping) or not isinstance(content, (list, tuple)):
        return len(str(cast("Any", message)))
    said = [part for part in cast("Sequence[Any]", content) if media_of(part) is None]
    return len(str({**cast("Mapping[Any, Any]", message), "content": said}))
