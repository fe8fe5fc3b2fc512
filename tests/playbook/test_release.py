import pytest

from ace.playbook import PlaybookBullet
from ace.playbook.bullet import PlanRuns, readable
from ace.playbook.plan import Call, Constant, FromAnswer, FromTask, Plan
from ace.playbook.release import is_released, release_of, why_changed, why_no_call, why_stopped

FIND = Call(tool="find", args={"name": FromTask(slot="name")})
PAY = Call(tool="pay", args={"order": FromAnswer(call=0, path="id"), "why": Constant(value="due")}, changes=True)


def lesson(*calls, **fields):
    hashes = dict.fromkeys(("find", "pay", "send"), "1")
    said = {"section": "Strategies", "tool_schema_hashes": hashes, **readable(Plan(calls=calls), ()), **fields}
    return PlaybookBullet(id="b-1", **said)


def with_args(call, **args):
    return call.model_copy(update={"args": {**call.args, **args}})


@pytest.mark.parametrize(
    ("bullet", "why"),
    [
        (lesson(FIND, PAY), ""),
        (lesson(PAY.model_copy(update={"args": {}})), "no plan with two calls"),
        (lesson(FIND, PAY, section="Pitfalls"), "no plan"),
        (lesson(FIND, PAY, plan=Plan(calls=(FIND, FIND), declines=True)), "declines"),
        (lesson(FIND, PAY, stage="quarantined"), "quarantined"),
        (lesson(FIND, PAY, stage="shadow"), "shadow"),
        (lesson(FIND, PAY, trust="tainted"), "not trusted"),
        (lesson(FIND, PAY, words_from=("import",)), "another book"),
        (lesson(FIND, with_args(PAY, order=FromAnswer(call=0))), "not trusted"),
        (lesson(FIND.model_copy(update={"trusted": True}), with_args(PAY, order=FromAnswer(call=0))), "not settled"),
        (lesson(FIND, with_args(PAY, order=FromAnswer(call=0, path="x.id", unnamed=("x",)))), "not settled"),
        (lesson(FIND, PAY.model_copy(update={"times": 3})), "not settled"),
        (lesson(FIND, PAY.model_copy(update={"also": {"order": (FromTask(slot="order"),)}})), "not settled"),
        (lesson(FIND, PAY.model_copy(update={"also": {"order": (FromAnswer(call=0),)}})), "not settled"),
        (lesson(FIND, PAY.model_copy(update={"times": "each", "over": "why", "loop": 1})), "not settled"),
        (lesson(FIND, PAY.model_copy(update={"times": "each", "over": "", "loop": 1})), "not settled"),
        (lesson(FIND, PAY.model_copy(update={"times": "each", "over": "order"})), "not settled"),
        (lesson(FIND, with_args(PAY, **{"items[].sku": FromTask(slot="sku")})), "not settled"),
        (lesson(FIND, PAY, tool_schema_hashes={"find": "1"}), "of pay b-1 was learned is not known"),
    ],
)
def test_which_plans_may_be_one_call(bullet, why):
    assert why in why_no_call(bullet)
    assert bool(why) is bool(why_no_call(bullet))


def test_a_release_is_of_these_calls_and_of_this_book():
    bullet = lesson(FIND, PAY, released=release_of(Plan(calls=(FIND, PAY)), "book"))
    assert is_released(bullet, "book")
    assert not is_released(bullet, "other")
    assert not is_released(bullet.model_copy(update={"released": ""}), "book")
    for call in (
        PAY.model_copy(update={"tool": "send"}),
        with_args(PAY, why=Constant(value="other")),
        with_args(PAY, order=FromAnswer(call=0, path="other")),
        with_args(PAY, order=FromTask(slot="order")),
        PAY.model_copy(update={"times": "each", "over": "order", "loop": 1}),
    ):
        assert not is_released(bullet.model_copy(update={"plan": Plan(calls=(FIND, call))}), "book")
    counted = FIND.model_copy(update={"args": {"name": FromTask(slot="name", seen=4)}})
    assert is_released(bullet.model_copy(update={"plan": Plan(calls=(counted, PAY))}), "book"), "evidence is no change"
    also = PAY.model_copy(update={"also": {"order": (FromAnswer(call=0, path="other"),)}})
    assert not is_released(bullet.model_copy(update={"plan": Plan(calls=(FIND, also))}), "book"), (
        "it decides which value"
    )
    loud = with_args(PAY, why=Constant(value="DUE"))
    assert not is_released(bullet.model_copy(update={"plan": Plan(calls=(FIND, loud))}), "book")


def test_another_schema_of_any_of_its_tools_counts():
    bullet = lesson(FIND, PAY, tool_schema_hashes={"find": "1", "pay": "2"})
    assert why_changed(bullet, {"find": "1", "pay": "2", "more": "3"}) == ""
    assert "pay" in why_changed(bullet, {"find": "1", "pay": "3"})
    assert "pay" in why_changed(bullet, {"find": "1"})
    assert "find" in why_changed(lesson(FIND, PAY, tool_schema_hashes={}), {"find": "1"}), (
        "without one nothing is known"
    )


def test_a_plan_is_offered_no_longer_when_it_stopped_at_one_call_in_three_runs():
    assert "stopped 3 times at call 2" in why_stopped(lesson(FIND, PAY, plan_runs=PlanRuns(stops={1: 3})))
    assert why_stopped(lesson(FIND, PAY, plan_runs=PlanRuns(stops={0: 2, 1: 2}))) == ""
