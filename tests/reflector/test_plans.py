"""From a run to a plan and a situation: where arguments come from, and what is kept of a request."""

import json

import pytest
from hypothesis import given, settings, strategies as st
from learner.runs import run_of, step

from ace.playbook.plan import Constant, FromAnswer, FromTask, Written
from ace.reflector.plans import Knowledge, fields, mined, situation_of, without_values


def plan_of(text, *steps, schemas=None, **options):
    return mined(run_of(*steps, text=text).task, steps, Knowledge(schemas or {}, **options))


def schema(**properties):
    return {"description": "", "parameters": {"properties": properties}, "hash": "0", "read_only": False}


def test_the_task_is_searched_before_earlier_answers():
    found = plan_of(
        "Reserve book b-17 for Ana",
        step("find_book", json.dumps({"book_id": "b-17"}), book_id="b-17"),
        step("reserve", changes=True, book_id="b-17", member="Ana"),
    )
    assert (
        found.plan.text == "find_book(book_id from the task), then reserve(book_id from the task, member from the task)"
    )


def test_the_latest_answer_that_holds_the_value_as_a_field_is_its_source():
    found = plan_of(
        "Refund Ana's order",
        step("list_orders", json.dumps([{"id": "o-1"}, {"id": "o-2"}]), customer="Ana"),
        step("get_order", json.dumps({"order": {"id": "o-2", "note": "see o-1"}}), order_id="o-2"),
        step("refund", changes=True, order_id="o-2"),
    )
    assert found.plan.calls[1].args["order_id"] == FromAnswer(call=0, path="[].id")
    assert found.plan.calls[2].args["order_id"] == FromAnswer(call=1, path="order.id")


def test_an_answer_in_words_is_a_source_without_a_path():
    found = plan_of("Call the on-call person", step("who", "It is Ana today."), step("ring", changes=True, who="Ana"))
    assert found.plan.calls[1].args["who"] == FromAnswer(call=0)


def test_a_constant_is_what_the_schema_names():
    schemas = {
        "refund": schema(
            reason={"enum": ["damaged", "late"]},
            mail={"type": "boolean"},
            speed={"default": "slow"},
            note={"type": "string"},
        )
    }
    call = step("refund", changes=True, reason="late", mail=True, speed="slow", note="As agreed")
    args = plan_of("Refund it", call, schemas=schemas).plan.calls[0].args
    assert (args["reason"], args["mail"], args["speed"]) == tuple(Constant(value=v) for v in ("late", True, "slow"))
    assert args["note"] == Constant(value="As agreed", named=False)
    said = plan_of("Refund it, it came late", call, schemas=schemas).plan.calls[0].args["reason"]
    assert said == FromTask(slot="reason", value="late", seen=1)


def test_what_is_personal_is_never_a_constant():
    found = plan_of("Tell the customer", step("send", changes=True, to="ana@example.org"))
    assert found.plan.calls[0].args["to"] == Written()


def test_repeated_calls_are_a_loop():
    visits = json.dumps([{"visit_id": f"v-{n}"} for n in range(3)])
    calls = [step("cancel", changes=True, visit_id=f"v-{n}") for n in range(3)]
    found = plan_of("Cancel all visits of Ana", step("list_visits", visits, patient="Ana"), *calls)
    assert found.plan.text == (
        "list_visits(patient from the task), then for each visit_id from list_visits.visit_id: cancel(visit_id)"
    )


def test_a_plan_that_changes_nothing_says_whether_a_change_was_asked_for():
    schemas = {"cancel_order": schema(), "get_order": schema() | {"read_only": True}}
    read = step("get_order", "shipped", order="17")
    assert plan_of("Please cancel order 17", read, schemas=schemas).plan.declines
    assert not plan_of("Where is order 17?", read, schemas=schemas).plan.declines
    assert not plan_of("Please cancel order 17", read).plan.declines


@pytest.mark.parametrize(
    ("text", "template"),
    [
        ("Refund order 17 of Ana", "Refund order {number} of {name}"),
        ("Mail ana@example.org about 'the party'", "Mail {email} about {quoted}"),
        ("The zxqv machine is broken", "The {text} machine is broken"),
        ("Move it to Monday", "Move it to Monday"),
    ],
)
def test_a_situation_has_slots_for_what_belongs_to_one_task(text, template):
    assert situation_of(text, Knowledge()).template == template


def test_what_equals_an_argument_or_a_field_is_a_slot_although_its_words_are_common():
    found = plan_of(
        "Send the blue folder to the front desk",
        step("find", json.dumps({"place": "front desk"}), thing="blue folder"),
        step("send", changes=True, thing="blue folder"),
    )
    assert found.situation.template == "Send the {thing} to the {text}"
    assert "blue" not in found.situation.model_dump_json()


def test_a_quoted_argument_is_searched_as_the_quotation_that_a_query_has():
    found = plan_of("Mail 'All is well' to Ana", step("send", changes=True, body="All is well", to="Ana"))
    assert found.situation.template == "Mail '{body}' to {to}"
    assert found.situation.searched == "Mail quoted to name"


def test_private_arguments_are_accounts():
    found = plan_of("Pay from my holiday money", step("pay", changes=True, source="holiday money"), private=("source",))
    assert [(slot.name, slot.kind) for slot in found.situation.slots] == [("source", "account")]


def test_advice_keeps_its_words_but_no_values():
    steps = (step("find", json.dumps({"id": "zz-9"}), customer="Kovač"),)
    text = "Ask Kovač before zz-9 is refunded, and write to ana@example.org"
    assert without_values(text, steps, Knowledge()) == "Ask {customer} before {id} is refunded, and write to {email}"


def test_fields_of_answers():
    assert fields("{'a': [{'b': 1}, {'b': 2}]}") == {"1": "a[].b", "2": "a[].b"}
    assert fields("no structure") == fields("[broken") == fields("") == {}


@settings(max_examples=60, deadline=None)
@given(st.text(alphabet=st.characters(categories=("Lu", "Ll")), min_size=3, max_size=12), st.integers(10_000, 10**9))
def test_no_argument_is_in_what_is_kept(name, number):
    """A law: whatever a call was given, neither the plan nor the situation says it."""
    found = plan_of(f"Refund order {number} of xx{name}", step("refund", changes=True, order=number, who=f"xx{name}"))
    kept = found.plan.stored.model_dump_json() + found.situation.model_dump_json()
    assert str(number) not in kept.replace(found.situation.fills[0], "")
    assert f"xx{name}" not in kept
