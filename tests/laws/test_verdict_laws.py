"""A law of verdicts: a book that heard a verdict corrected is the book that heard the right one first."""

from __future__ import annotations

from unittest import mock

import pytest
from hypothesis import strategies as st
from laws.examine import examine, must_break

from ace.learner import Learner, verdicts
from ace.playbook import CallableEmbedder, Playbook
from ace.tasks import Feedback, ReasoningStep, TaskInput, TaskOutput

FULL, SHORT = 1_000, 60
MOST = 3_000  # a mutant is looked for until it is found

NAMES = ["Ana", "Ben", "Cleo", "Dora"]
ACTS = ["refund", "cancel"]
REQUESTS = ["Refund the order of {}", "{} wants a refund for the broken gizmo", "Cancel what {} ordered"]
NOTES = ["as agreed on the phone", "the parcel was lost"]


def step(number, name, answer, *, changes=False, failed=False, **args):
    """A call, in the order in which they were made."""
    return ReasoningStep(
        iteration=number,
        tool_call_id=f"c{number}",
        tool_name=name,
        tool_args=args,
        outcome="failed" if failed else "success",
        observation=answer,
        changes_state=changes,
        executed=True,
        error={"kind": "refused", "message": "no"} if failed else None,
    )


def a_run(number, task, name, request, act, note, *, refused, completed, shown):
    """A run of one of a few tasks; the same task may be tried again."""
    calls = [("find", f'{{"order_id": "o-{name}"}}', {"customer": NAMES[name]}, False)]
    if refused:
        calls.append((ACTS[act], "No such order", {"order_id": NAMES[name]}, True))
    calls.append((ACTS[act], "ok", {"order_id": f"o-{name}", "note": NOTES[note]}, False))
    steps = [
        step(n, tool, answer, changes=tool != "find", failed=failed, **args)
        for n, (tool, answer, args, failed) in enumerate(calls, 1)
    ]
    text = REQUESTS[request].format(NAMES[name])
    return TaskOutput(
        task_id=f"t{task}-{name}-{request}",
        run_id=f"r{number}",
        task=TaskInput(task_id=f"t{task}-{name}-{request}", inputs={"task": text}),
        structured_trace=tuple(steps),
        termination_reason="completed" if completed else "max_iterations",
        injected_bullets=("b-1",) if shown else (),
    )


small = st.integers(0, 1)
runs = st.lists(
    st.tuples(
        *(small, st.integers(0, 3), st.integers(0, 2), small, small),
        *(st.booleans(), st.sampled_from([True, True, False]), st.booleans()),
    ),
    min_size=1,
    max_size=7,
)
verdict = st.sampled_from([True, False])
heard = st.lists(st.tuples(st.integers(0, 6), st.sampled_from([True, False, None])), max_size=5)


def lessons(book):
    """What a book knows, whatever it calls it."""
    found = []
    for bullet in book.bullets:
        said = bullet.model_dump(mode="json", exclude={"id", "created_revision", "updated_revision"})
        evidence = said.pop("provenance")
        found.append((str(said), sorted(evidence["run_ids"]), sorted(evidence["task_ids"])))
    return sorted(found)


def a_book():
    """A book with a lesson that somebody wrote, for runs to be shown: b-1."""
    book = Playbook(embedder=CallableEmbedder("toy", lambda texts: [[len(t), 1.0 + t.count("e")] for t in texts]))
    book.add(section="Strategies", content="Refund it.", tool_sequence=("find", "refund"), changing_tools=("refund",))
    return book


def a_later_verdict_is_as_if_it_had_been_first(made, first, corrections):
    """With each run heard once, then some again, compared with a book that heard the last verdicts at once."""
    outputs = [
        a_run(n, task, name, request, act, note, refused=refused, completed=completed, shown=shown)
        for n, (task, name, request, act, note, refused, completed, shown) in enumerate(made)
    ]
    last = dict(enumerate((first * len(outputs))[: len(outputs)]))
    with a_book() as corrected, a_book() as right:
        learner = Learner(corrected)
        for number, output in enumerate(outputs):
            learner.learn(output, Feedback(success=last[number]))
        for number, success in corrections:
            if number < len(outputs):
                last[number] = success
                if success is not None:
                    learner.learn(outputs[number], Feedback(success=success))
                elif corrected.history.learned([f"r{number}"]):
                    learner.retract(outputs[number])
        at_once = Learner(right)
        for number, output in enumerate(outputs):
            if last[number] is not None:
                at_once.learn(output, Feedback(success=last[number]))
        assert lessons(corrected) == lessons(right)
        assert corrected.history.verify().ok


STRATEGIES = (runs, st.lists(verdict, min_size=1, max_size=7), heard)


@pytest.mark.full
def test_a_later_verdict_is_as_if_it_had_been_first_at_full_count():
    examine(a_later_verdict_is_as_if_it_had_been_first, STRATEGIES, FULL)


def test_a_later_verdict_is_as_if_it_had_been_first():
    examine(a_later_verdict_is_as_if_it_had_been_first, STRATEGIES, SHORT, derandomize=True, database=None)


MUTANTS = {"_turned": lambda tag: tag, "beside": lambda run, other: list(run.insights)}
again = st.lists(st.tuples(st.integers(0, 2), verdict), min_size=1, max_size=3)
SOON = {"_turned": (runs.map(lambda made: made[:3]), STRATEGIES[1], again), "beside": (runs, STRATEGIES[1], again)}
"""By mutant, the examples that show it soon: few runs that are heard again, or many, of which two may be of one task."""


def a_mutant_breaks_the_law(broken, strategies):
    with mock.patch.object(verdicts, broken, MUTANTS[broken]):
        must_break(a_later_verdict_is_as_if_it_had_been_first, strategies, MOST)


@pytest.mark.full
@pytest.mark.parametrize("broken", MUTANTS)
def test_a_mutant_breaks_the_law_among_all_examples(broken):
    a_mutant_breaks_the_law(broken, STRATEGIES)


@pytest.mark.parametrize("broken", MUTANTS)
def test_a_mutant_breaks_the_law(broken):
    a_mutant_breaks_the_law(broken, SOON[broken])
