"""The learning workflow: generate, reflect, curate, ask a person where that is needed, commit."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from typing import Any, Literal

from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.graph import END, START, StateGraph
from langgraph.types import Command, interrupt

from ace.core import PlaybookError
from ace.curator import Curator
from ace.graph.compiling import compile
from ace.graph.events import AnyObserver
from ace.graph.nodes import ReActAgentNode
from ace.graph.proposal import Proposal, ProposedChange, Review, Risk, as_text, read_review, why_risky
from ace.graph.state import AgentFields, needed
from ace.graph.workflow import Workflow
from ace.learner.credit import credit
from ace.playbook import Add, Playbook, PlaybookBullet
from ace.playbook.insight import Insight
from ace.react import ReActGenerator
from ace.reflector import Reflector
from ace.tasks import Feedback, TaskOutput

MAX_STEPS = 50
"""Each round of review takes two steps."""


class LearningState(AgentFields, total=False):
    """The state of the learning workflow: `LearningState(user_input="x")`, or the ``run`` of an agent that ran elsewhere.

    Without ``feedback`` and without `score`, the workflow asks.
    """

    insights: list[Insight]
    proposal: Proposal
    changes: list[ProposedChange]
    """The proposal as a reviewer reads it."""
    seen: int
    """The playbook's revision when the lessons were curated."""
    problem: str
    """Why the last commit was refused."""
    playbook_revision: int
    committed: int
    """Deltas that were written; quarantines that the playbook added are not among them."""


def learning_workflow(
    agent: Any,
    playbook: Playbook,
    *,
    score: Callable[[TaskOutput], Feedback | bool | float] | None = None,
    reflector: Reflector | None = None,
    curator: Curator | None = None,
    risky: Risk = why_risky,
    group: str = "",
    author: str = "workflow",
    checkpointer: BaseCheckpointSaver[Any] | None = None,
    max_steps: int = MAX_STEPS,
    observers: Iterable[AnyObserver] = (),
) -> Workflow:
    """Build a graph that learns from a task, `learning_workflow(agent, book)`, and asks a person before a risky change.

    It stops before a risky delta; its question holds the changes as a diff. Resume, in this process or another one, with
    ``"approve"``, ``"reject"``, or ``{"decision": "edit", "deltas": [...]}``; `reviewer` and `note` go into the journal.
    What is not risky is committed either way. A commit is made once, even if the process dies; when the playbook has changed
    since the review, the lessons are curated again, and only changes that the reviewer has not seen are shown.

    Args:
        agent: A `ReActGenerator`.
        playbook: Receives the lessons; the agent may read from it.
        score: Decides whether a run succeeded.
        reflector: Finds lessons.
        curator: Turns them into deltas.
        risky: Which deltas a person has to see, see `why_risky`.
        group: The tasks' family.
        author: The author in the journal when there was no reviewer.
        checkpointer: Needed to stop and go on; any saver.
        max_steps: See `compile`.
        observers: See `compile`.
    """
    steps = _Steps(agent, playbook, score, reflector or Reflector(), curator or Curator(playbook), risky, group, author)
    builder: Any = StateGraph(LearningState)
    generate = ReActAgentNode(agent, raise_on_failure=False)
    builder.add_sequence([("generate", generate), steps.judge, steps.reflect, steps.curate])
    builder.add_node("review", steps.review)
    builder.add_node("commit", steps.commit, destinations=("curate", END))
    builder.add_conditional_edges(START, _begin)
    builder.add_conditional_edges("curate", steps.after_curate)
    builder.add_edge("review", "commit")
    return compile(builder, max_steps=max_steps, observers=observers, checkpointer=checkpointer)


def _begin(state: LearningState) -> Literal["generate", "judge"]:
    return "judge" if state.get("run") is not None and not state.get("user_input") else "generate"


@dataclass
class _Steps:
    """The functions of the nodes."""

    agent: ReActGenerator
    playbook: Playbook
    score: Callable[[TaskOutput], Feedback | bool | float] | None
    reflector: Reflector
    curator: Curator
    risky: Risk
    group: str
    author: str

    @property
    def _tools(self) -> dict[str, str]:
        return dict(self.agent.registry.schema_hashes)

    def judge(self, state: LearningState) -> dict[str, Any]:
        """Decide whether the run succeeded: from `score`, from the input, or from a person."""
        run = _run(state)
        if self.score is not None:
            return {"feedback": Feedback.of(self.score(run))}
        if (given := state.get("feedback")) is not None:
            return {"feedback": Feedback.of(given)}
        problem = ""
        while True:
            text = "Did this run do what it should? Answer true or false."
            question = {"kind": "feedback", "question": text, "trace": run.reasoning_trace, "problem": problem}
            answer = interrupt(question, response_schema={"type": ["boolean", "number"]})
            if isinstance(answer, (bool, int, float, Feedback)):
                return {"feedback": Feedback.of(answer)}
            problem = f"the answer is {answer!r:.100}, expected true, false or a number from 0 to 1"

    def reflect(self, state: LearningState) -> dict[str, Any]:
        """Find the lessons."""
        run, feedback = _run(state), needed(state, "feedback", "reflect")
        known: list[str] = []
        if self.reflector.lm is not None:
            found = self.playbook.retrieve(run.task.text, run.task.domain, tenant=run.task.tenant)
            known = [bullet.content for bullet in found]
        insights = self.reflector.reflect(
            run, feedback, group=self.group, known=known, schemas=self.agent.registry.schemas
        )
        return {"insights": insights, "proposal": Proposal(), "problem": ""}

    def curate(self, state: LearningState) -> dict[str, Any]:
        """Make the deltas for the book as it is now, with credit for the bullets that the run used."""
        run, feedback = _run(state), needed(state, "feedback", "curate")
        self.playbook.refresh()
        tags = credit(run, feedback, self.playbook.find)
        seen = self.playbook.revision
        deltas = [*tags, *self.curator.curate(state.get("insights", []), self._tools)]
        proposal = state.get("proposal", Proposal()).with_deltas(deltas)
        # the changes are kept as shown: the answer is about them, even if the playbook changes meanwhile
        changes = proposal.changes(self.playbook, self.risky, self._tools)
        return {"proposal": proposal, "changes": changes, "seen": seen}

    def after_curate(self, state: LearningState) -> Literal["review", "commit"]:
        """Decide whether a person has to review."""
        return "review" if any(change.risk for change in state.get("changes", [])) else "commit"

    def review(self, state: LearningState) -> dict[str, Any]:
        """Ask; rejected deltas leave the proposal, edited ones replace those that wait."""
        proposal = state.get("proposal", Proposal())
        changes = state.get("changes", [])
        question = {
            "kind": "review",
            "question": "Commit the changes that wait? Answer approve, reject, or edit with the deltas in their place.",
            "choices": ["approve", "edit", "reject"],
            "changes": [change.model_dump(mode="json") for change in changes],
            "diff": as_text(changes),
            "problem": state.get("problem", ""),
        }
        schema = {"anyOf": [{"enum": question["choices"]}, Review.model_json_schema()]}
        review, edited, problem = read_review(interrupt(question, response_schema=schema))
        while review is None:
            review, edited, problem = read_review(interrupt({**question, "problem": problem}, response_schema=schema))
        waiting = [change.index for change in changes if change.risk]
        return {"proposal": proposal.reviewed(review, waiting, edited), "problem": ""}

    def commit(self, state: LearningState) -> Command[Any]:
        """Commit once: a commit names its run, and one that is in the journal already is not made again."""
        proposal, run = state.get("proposal", Proposal()), _run(state)
        author = f"{proposal.reviewer or self.author} (run {run.run_id})"
        self.playbook.refresh()
        written = self._written(author)
        deltas = proposal.read()
        if not written and deltas:
            try:
                self.playbook.commit(deltas, author=author, tools=self._tools, at=state.get("seen"))
            except PlaybookError:
                if self.playbook.revision == state.get("seen"):
                    raise
                # the review holds for the lessons, not for a playbook that the reviewer has not seen
                return Command(update={"problem": "the book has changed since; this is what is left"}, goto="curate")
            written = self._written(author)
        self._let_out(proposal, written, author)
        done = {"playbook_revision": self.playbook.revision, "committed": len(deltas), "problem": ""}
        # the next task on this thread brings its own
        return Command(update={**done, "user_input": "", "feedback": None}, goto=END)

    def _written(self, author: str) -> list[dict[str, Any]]:
        return [entry for entry in self.playbook.history.entries() if entry["author"] == author]

    def _let_out(self, proposal: Proposal, written: Collection[dict[str, Any]], author: str) -> None:
        """Release the bullets that the playbook quarantined and the reviewer has approved."""
        added = [Add(bullet=PlaybookBullet.model_validate(e["bullet"])) for e in written if e["kind"] == "add"]
        for delta in added:
            stored = self.playbook.find([delta.bullet.id])
            if proposal.is_approved(delta) and any(bullet.stage == "quarantined" for bullet in stored.values()):
                self.playbook.review.approve(delta.bullet.id, author=author, note=proposal.note)


def _run(state: LearningState) -> TaskOutput:
    run = state.get("run")
    if run is None:
        raise ValueError("the learning workflow needs `user_input`, or the `run` of an agent")
    return run
