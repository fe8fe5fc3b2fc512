import pytest
from learner.runs import run_of, step

from ace import Feedback
from ace.learner.credit import alignment, credit, level
from ace.playbook import PlaybookBullet
from ace.playbook.bullet import readable
from ace.playbook.plan import Call, Plan

GOOD, BAD = Feedback(success=True), Feedback(success=False)


def bullet(*tools, number=1, section="Strategies"):
    return PlaybookBullet(id=f"b-{number}", section=section, content="x", tool_sequence=tools, changing_tools=tools)


def among(known):
    return lambda ids: {bullet_id: known[bullet_id] for bullet_id in ids if bullet_id in known}


def trace(*tools):
    return tuple(step(name, changes=True) for name in tools)


@pytest.mark.parametrize(
    ("wanted", "done", "expected"),
    [
        ("ab", "ab", 1.0),
        ("ab", "ba", 1.0),
        ("", "", 1.0),
        ("ab", "abc", 0.8),
        ("a", "ab", 2 / 3),
        ("abc", "ac", 0.8),
        ("ab", "cd", 0.0),
        ("", "a", 0.0),
    ],
)
def test_alignment(wanted, done, expected):
    assert alignment(bullet(*wanted), trace(*done)) == pytest.approx(expected)


def test_reads_do_not_count_and_calls_that_were_not_made_neither():
    steps = (step("look"), step("a", changes=True), step("b", changes=True).model_copy(update={"executed": False}))
    assert alignment(bullet("a"), steps) == 1.0


@pytest.mark.parametrize(
    ("done", "used"), [("d", "followed"), ("ddd", "followed"), ("", "injected"), ("dddx", "injected")]
)
def test_a_lesson_that_makes_a_call_for_each_item_is_followed_by_any_number(done, used):
    plan = Plan(calls=(Call(tool="find"), Call(tool="d", changes=True, times="each", over="id")))
    looped = PlaybookBullet(id="b-1", section="Strategies", **readable(plan, ()))
    assert level(looped, run_of(step("find"), *trace(*done), injected_bullets=("b-1",))) == used


def test_levels():
    cited = run_of(*trace("z"), injected_bullets=("b-1",), cited_bullets=("b-1",))
    assert level(bullet("a"), cited) == "cited"
    assert level(bullet("z"), cited) == "followed"
    assert level(bullet("z", number=2), cited) == "followed"
    assert level(bullet("a", number=2), cited) == "injected"
    assert level(bullet("z", number=2, section="Pitfalls"), cited) == "injected", "a warning is never followed"


def test_an_arm_and_a_use_are_one_tag():
    known = {b.id: b for b in (bullet("a"), bullet("b", number=2), bullet("c", number=3))}
    output = run_of(
        *trace("a"),
        injected_bullets=("b-1", "b-2"),
        metadata={"held_back_at_random_bullets": ["b-3"], "randomized_bullets": ["b-1", "b-2"]},
    )
    tags = {tag.bullet_id: tag for tag in credit(output, BAD, among(known))}
    assert (tags["b-1"].harmful, tags["b-1"].arm, tags["b-1"].success) == (1, "treated", False)
    assert (tags["b-2"].harmful, tags["b-2"].arm) == (0, "treated"), "shown by chance, and not used"
    assert (tags["b-3"].harmful, tags["b-3"].arm) == (0, "control")
    assert credit(output, GOOD, among({})) == []


def test_a_bullet_that_was_only_shown_earns_nothing():
    assert credit(run_of(*trace("a"), injected_bullets=("b-2",)), GOOD, among({"b-2": bullet("b", number=2)})) == []


def test_reads_that_are_not_the_bullets_earn_no_credit():
    bullet = PlaybookBullet(
        id="b-1", section="Strategies", content="Call search_docs(q).", tool_sequence=("search_docs",)
    )
    assert alignment(bullet, (step("weather"),)) == 0
    assert alignment(bullet, (step("search_docs"),)) == 1
