"""Plans and situations: how they read, when two are the same, and what a lesson keeps of them."""

import pytest
from pydantic import TypeAdapter, ValidationError

from ace.playbook.bullet import readable
from ace.playbook.plan import (
    MAX_SITUATIONS,
    NEW_FOR,
    Binding,
    Call,
    Constant,
    FromAnswer,
    FromTask,
    Plan,
    Situation,
    Slot,
    Written,
    added,
    digest_of,
    joined,
    plan_with,
)

FIND = Call(tool="find_order", args={"number": FromTask(slot="number")})


def refund(**args):
    return Call(tool="refund", args={"order_id": FromAnswer(call=0, path="order_id"), **args}, changes=True)


def situation(template, **kinds):
    return Situation(template=template, slots=tuple(Slot(name=n, kind=k) for n, k in kinds.items()))


@pytest.mark.parametrize(
    ("plan", "text"),
    [
        (
            Plan(calls=(FIND, refund(reason=Constant(value="damaged")))),
            "find_order(number from the task), then refund(order_id from find_order.order_id, reason='damaged'), then submit(...)",
        ),
        (
            Plan(
                calls=(
                    Call(tool="list_visits", args={"patient": FromTask(slot="patient")}),
                    Call(
                        tool="cancel_visit",
                        args={"visit_id": FromAnswer(call=0, path="[].visit_id"), "inform": Constant(value=True)},
                        changes=True,
                        times="each",
                        over="visit_id",
                    ),
                )
            ),
            "list_visits(patient from the task), then for each visit_id from list_visits.visit_id: "
            "cancel_visit(visit_id, inform=true), then submit(...)",
        ),
        (
            Plan(calls=(FIND,)),
            "find_order(number from the task), then answer from find_order; nothing is to be changed, then submit(...)",
        ),
        (
            Plan(calls=(FIND,), declines=True),
            "find_order(number from the task), then decline and tell the user why, or answer from find_order; "
            "nothing is to be changed, then submit(...)",
        ),
        (Plan(), "answer at once, without a call, then submit(...)"),
        (Plan(calls=(Call(tool="ring", changes=True, times=3),)), "ring() 3 times, then submit(...)"),
        (
            Plan(
                calls=(
                    Call(tool="f", args={"s": FromTask(slot="s", value="open", seen=1), "w": Written()}, changes=True),
                )
            ),
            "f(s from the task (e.g. 'open'), w), then submit(...)",
        ),
    ],
)
def test_a_plan_reads_as_a_sentence(plan, text):
    assert plan.text == text
    assert Plan.model_validate_json(plan.model_dump_json()) == plan


def test_a_binding_is_told_by_its_kind():
    adapter = TypeAdapter(Binding)
    assert adapter.validate_python({"kind": "answer", "call": 1, "path": "a.b"}) == FromAnswer(call=1, path="a.b")
    for wrong in ({"kind": "guess"}, {"call": 1}, {"kind": "answer", "call": -1}):
        with pytest.raises(ValidationError):
            adapter.validate_python(wrong)


def test_plans_are_the_same_when_the_changing_calls_are_bound_alike():
    one, other = Plan(calls=(FIND, refund())), Plan(calls=(FIND, FIND, refund()))
    assert one.shape == other.shape
    assert one.shape != Plan(calls=(FIND, refund(reason=Constant(value="late")))).shape
    assert one.shape != Plan(calls=(FIND,)).shape
    assert Plan(calls=(FIND,)).shape != Plan(calls=(FIND,), declines=True).shape


def test_a_lesson_keeps_a_hash_of_what_only_one_run_wrote():
    plan = Plan(calls=(FIND, refund(note=Constant(value="Ana is cross", named=False)))).stored
    assert "Ana" not in plan.model_dump_json()
    assert plan.calls[1].args["note"] == Written(digest=digest_of('"Ana is cross"'), seen=1)


def test_what_three_different_tasks_wrote_alike_becomes_a_constant():
    fresh = Plan(calls=(FIND, refund(note=Constant(value="As agreed", named=False))))
    known = fresh.stored
    known = plan_with(known, fresh, differs=True)
    assert "As agreed" not in known.model_dump_json()
    assert "note='As agreed'" in plan_with(known, fresh, differs=True).text
    assert "note='As agreed'" not in plan_with(known, fresh, differs=False).text
    other = Plan(calls=(FIND, refund(note=Constant(value="Sorry", named=False))))
    assert plan_with(known, other, differs=True).calls[1].args["note"] == Written()


def test_a_value_that_a_schema_names_is_the_tasks_choice_until_tasks_agree():
    def run(value):
        return Plan(calls=(Call(tool="find", args={"status": FromTask(slot="status", value=value, seen=1)}),))

    assert plan_with(run("open"), run("paid"), differs=True).text.startswith("find(status from the task)")
    twice = plan_with(run("open"), run("open"), differs=True)
    assert plan_with(twice, run("open"), differs=True).text.startswith("find(status='open')")
    unsaid = Plan(calls=(Call(tool="find", args={"status": Constant(value="open")}),))
    assert plan_with(run("open"), unsaid, differs=True).text.startswith("find(status='open')")


def test_requests_that_differ_in_their_slots_are_one_situation():
    old = situation("Refund {name}'s order {number}", name="name", number="number")
    both = joined(old, old, {"name": "Ben", "number": "18"}, counted=True)
    assert both is not None
    assert (both.template, both.support) == (old.template, 2)
    wider = joined(
        situation(
            "Refund order 17 today",
        ),
        situation("Refund order {number} today", number="number"),
        {},
        True,
    )
    assert wider is not None
    assert wider.template == "Refund order {number} today"
    assert joined(old, situation("Cancel the meeting of {name}", name="name"), {"name": "Ben"}, True) is None


def test_a_rare_word_becomes_a_word_when_five_different_tasks_have_used_it():
    def seen(number):
        slots = (
            Slot(name="text", kind="text", digest=digest_of("quarterly"), seen=1),
            Slot(name="number", kind="number"),
        )
        fills = {"text": "quarterly", "number": str(number)}
        return Situation(template="Send the {text} report {number}", slots=slots, fills=(str(number),)), fills

    known, _ = seen(0)
    for number in range(1, 5):
        fresh, values = seen(number)
        assert "quarterly" not in known.model_dump_json()
        known = joined(known, fresh, values, counted=True)
        assert known is not None
    assert known.template == "Send the quarterly report {number}"


def test_a_name_never_becomes_a_word_however_many_tasks_share_it():
    slot = Slot(name="name", kind="name", digest=digest_of("Ana"), seen=1)
    known = Situation(template="Mail {name}", slots=(slot,))
    for number in range(20):
        known = joined(known, known.model_copy(update={"fills": (str(number),)}), {"name": "Ana"}, counted=True)
        assert known is not None
    assert known.template == "Mail {name}"


def test_what_is_searched_says_kinds_and_no_rare_words():
    template = "Mail '{body}' to {name} about the {text} {text_2} matter"
    found = situation(template, body="quoted", name="name", text="text", text_2="text")
    assert found.searched == "Mail quoted to name about the matter"
    assert found.shown == "Mail '{body}' to {name} about the {text} matter"


def test_over_the_budget_the_least_supported_old_situation_leaves():
    kept = ()
    for number in range(MAX_SITUATIONS):
        kept = added(kept, Situation(template=f"Wording {number}", support=number + 2), "", runs=0)
    fresh = Situation(template="A new one", since=NEW_FOR)
    kept = added(kept, fresh, "", runs=NEW_FOR)
    assert fresh in kept
    assert "Wording 0" not in {s.template for s in kept}
    assert len(kept) == MAX_SITUATIONS == 12
    kept = added(kept, Situation(template="Another", support=9, since=2 * NEW_FOR), "", runs=2 * NEW_FOR)
    assert fresh not in kept
    replaced = added(kept, Situation(template="Wider"), "Another", runs=0)
    assert {"Wider"} == {s.template for s in replaced} - {s.template for s in kept}


def test_the_readable_fields_are_made_of_the_data():
    plan = Plan(calls=(FIND, refund(), Call(tool="ring", changes=True, times=2)))
    fields = readable(plan, [situation("Refund order {number}", number="number")])
    assert fields["tool_sequence"] == ("find_order", "refund", "ring", "ring")
    assert fields["changing_tools"] == ("refund", "ring", "ring")
    assert (fields["trigger"], fields["content"]) == ("Refund order {number}", plan.text)


def test_calls_of_one_tool_are_told_apart_by_their_order():
    def run():
        flags = (Constant(value=value, named=False) for value in ("paid", "shipped"))
        return Plan(calls=tuple(Call(tool="set_flag", args={"flag": flag}, changes=True) for flag in flags))

    known = run().stored
    for _ in range(2):
        known = plan_with(known, run(), differs=True)
    assert known.text == "set_flag(flag='paid'), then set_flag(flag='shipped'), then submit(...)"


def test_a_shorter_plan_brings_no_words_that_only_one_run_wrote():
    long = Plan(calls=(Call(tool="list_all"), Call(tool="get"), Call(tool="refund", changes=True))).stored
    search = Call(tool="find", args={"q": Constant(value="the divorce", named=False)})
    known = plan_with(long, Plan(calls=(search, Call(tool="refund", changes=True))), differs=True)
    assert known.text == "find(q), then refund(), then submit(...)"
    assert "divorce" not in known.model_dump_json()


def test_the_choice_of_all_tasks_does_not_change_the_shape():
    def run():
        level = FromTask(slot="level", value="high", seen=1)
        return Plan(calls=(Call(tool="set_level", args={"level": level}, changes=True),))

    known = run().stored
    for _ in range(12):
        known = plan_with(known, run(), differs=True)
        assert known.shape == run().shape
    assert known.text == "set_level(level='high'), then submit(...)"


def test_a_plan_refers_to_earlier_calls_only():
    with pytest.raises(ValidationError, match="not earlier"):
        Plan(calls=(refund(),))


def test_a_shorter_plan_keeps_its_own_indexes():
    read = Call(tool="read", args={"id": FromAnswer(call=0, path="id")})
    long = Plan(
        calls=(FIND, read, Call(tool="refund", args={"order_id": FromAnswer(call=1, path="order_id")}, changes=True))
    )
    short = Plan(calls=(FIND, refund()))
    assert plan_with(long, short, differs=True) == short
    assert plan_with(short, long, differs=True) == short


def test_plans_write_alike_when_what_the_model_wrote_has_the_same_digest():
    def told(*texts):
        calls = (Call(tool="mail", args={"text": Written(digest=digest_of(text))}, changes=True) for text in texts)
        return Plan(calls=tuple(calls))

    assert told("a", "b").writes_alike(told("a", "b"))
    assert not told("a", "b").writes_alike(told("a", "c"))
    assert not told("a").writes_alike(told("b"))


def test_what_is_not_counted_again_says_nothing_new_of_a_slot():
    old = situation("Refund {name}", name="name")
    once = joined(old, old, {"name": "Ben"}, counted=True)
    assert once is not None
    again = joined(once, old, {"name": "Ana"}, counted=False)
    assert again is not None
    assert (again.support, again.fills) == (once.support, once.fills)
    assert joined(once, old, {"name": "Ben"}, counted=True).fills == once.fills, "the same fill is one"


def test_a_request_with_one_slot_more_is_the_wider_situation():
    """Two slots of one were filled alike by chance: what tells them apart later is the more general wording."""
    one = situation("Move {day} to {day}", day="date")
    two = situation("Move {day} to {day_2}", day="date", day_2="date")
    for first, second in ((one, two), (two, one)):
        both = joined(first, second, {"day": "Monday", "day_2": "Friday"}, counted=True)
        assert both is not None
        assert len(both.slots) == 2, both


def test_plans_with_more_calls_are_no_plans_of_the_same_shape():
    one, two = (Plan(calls=(Call(tool="ring", changes=True),) * n) for n in (1, 2))
    for compared in (one.fits, one.contradicts, one.writes_alike):
        with pytest.raises(ValueError, match="longer"):
            compared(two)


@pytest.mark.parametrize(("template", "one"), [("Refund lamps", True), ("Refund blue lamps", False)])
def test_wordings_that_share_half_of_their_words_are_one_situation(template, one):
    both = joined(situation("Refund {text}", text="text"), Situation(template=template), {}, counted=True)
    assert (both is not None) is one


def test_an_argument_comes_from_the_place_that_it_may_come_from_in_all_runs():
    def run(*calls):
        first, *others = (FromAnswer(call=call, path="id") for call in calls)
        change = Call(tool="refund", args={"id": first}, also={"id": tuple(others)} if others else {}, changes=True)
        return Plan(calls=(Call(tool="find"), Call(tool="list"), change))

    for known, fresh in ((run(0, 1), run(1)), (run(1), run(0, 1))):
        assert (
            plan_with(known, fresh, differs=True).text
            == "find(), then list(), then refund(id from list.id), then submit(...)"
        )
