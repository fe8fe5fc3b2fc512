"""From a run to a plan and a situation: where arguments come from, and what is kept of a request."""

import json

import pytest
from hypothesis import given, settings, strategies as st
from learner.runs import run_of, step

from ace.playbook.plan import Constant, FromAnswer, FromTask, Written, joined, plan_with
from ace.reflector.knowledge import Knowledge
from ace.reflector.plans import mined
from ace.reflector.situations import situation_of, without_values
from ace.reflector.values import fields


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
        found.plan.text
        == "find_book(book_id from the task), then reserve(book_id from the task, member from the task), then submit(...)"
    )


def test_the_latest_answer_that_holds_the_value_as_a_field_is_its_source():
    found = plan_of(
        "Refund Ana's order",
        step("list_orders", json.dumps([{"id": "o-1"}, {"id": "o-2"}]), customer="Ana"),
        step("get_order", json.dumps({"order": {"id": "o-2", "note": "see o-1"}}), order_id="o-2"),
        step("refund", changes=True, order_id="o-2"),
    )
    assert found.plan.calls[1].args["order_id"] == FromAnswer(call=0, path="[].id", unnamed=("id",))
    assert found.plan.calls[2].args["order_id"] == FromAnswer(call=1, path="order.id", unnamed=("order", "id"))


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
        "list_visits(patient from the task), then for each visit_id from list_visits.visit_id: cancel(visit_id), then submit(...)"
    )


def test_a_loop_whose_words_the_model_writes_anew_is_one():
    calls = [
        step("close", changes=True, ticket=f"t-{i}", note=word) for i, word in enumerate(("done", "thanks", "bye"))
    ]
    assert (
        plan_of("Close t-0, t-1 and t-2", *calls).plan.text
        == "for each ticket from the task: close(ticket, note), then submit(...)"
    )


def test_loops_that_follow_each_other_are_told_apart():
    lists = [step("list", json.dumps([f"{kind}-1", f"{kind}-2"]), kind=kind) for kind in ("note", "file")]
    calls = [step(f"archive_{kind}", changes=True, id=f"{kind}-{i}") for kind in ("note", "file") for i in (1, 2)]
    assert plan_of("Archive each note and file", *lists, *calls).plan.text == (
        "for each kind from the task: list(kind), then for each id from list: archive_note(id), "
        "then for each id from list: archive_file(id), then submit(...)"
    )


def test_what_a_schema_names_may_differ_in_a_loop():
    schemas = {"add": schema(sku={}, quantity={"default": 1}), "label": schema(id={}, label={"enum": ["bug", "idea"]})}
    cart = step("get", json.dumps([{"sku": f"s-{i}", "quantity": i} for i in (1, 3, 4)]))
    adds = [step("add", changes=True, sku=f"s-{i}", quantity=i) for i in (1, 3, 4)]
    assert plan_of("Order it again", cart, *adds, schemas=schemas).plan.text == (
        "get(), then for each sku from get.sku: add(sku, quantity from get.quantity), then submit(...)"
    )
    labels = [step("label", changes=True, id=f"t-{i}", label=("bug", "idea")[i % 2]) for i in range(3)]
    assert plan_of("Label t-0, t-1, t-2", *labels, schemas=schemas).plan.text == (
        "for each id from the task: label(id, label), then submit(...)"
    )


def test_a_list_may_come_from_answers_of_one_tool():
    finds = [step("find", json.dumps({"email": f"{who}@x.org"}), person=who) for who in ("Ana", "Ben")]
    invite = step("invite", changes=True, guests=["Ana@x.org", "Ben@x.org"])
    assert plan_of("Invite Ana and Ben", *finds, invite).plan.text == (
        "for each person from the task: find(person), then invite(guests from find), then submit(...)"
    )


def test_names_of_fields_with_a_number_or_a_hyphen_are_names():
    answer = json.dumps({"line1": "a b", "order-id": "o-1", "Email Address": "a@x.org", "room-12": "o-2", "o-3": "o-4"})
    assert list(fields(answer).values()) == ["line1", "order-id", "Email Address", "[]", "[]"]


def test_an_argument_of_several_lines_and_what_an_object_holds_are_slots():
    text = "she lost her baby\nand  wants no calls"
    found = plan_of(f"Save for Ana:\n{text}", step("save", changes=True, who="Ana", text=text))
    assert found.situation.template == "Save for {who}: {text}"
    found = plan_of("Send it where the sick live", step("send", changes=True, to={"a 17": "where the sick live"}))
    assert found.situation.template == "Send it {to}"


def test_parts_of_an_object_are_bound_each_and_named_by_the_schema():
    schemas = {
        "order": {
            "description": "",
            "parameters": {
                "properties": {
                    "to": {"$ref": "#/$defs/Place"},
                    "items": {"type": "array", "items": {"properties": {"size": {"enum": ["small", "large"]}}}},
                },
                "$defs": {"Place": {"properties": {"city": {}, "how": {"enum": ["air", "sea"]}}}},
            },
        }
    }
    found = plan_of(
        "Order SKU-17 and SKU-22 for Ana, to Rome",
        step("find", json.dumps({"Ana": {"zip": "00100"}}), person="Ana"),
        step(
            "order",
            changes=True,
            to={"city": "Rome", "zip": "00100", "how": "air"},
            items=[{"sku": "SKU-17"}, {"sku": "SKU-22"}],
        ),
        schemas=schemas,
    )
    assert found.plan.calls[1].args == {
        "to.city": FromTask(slot="city"),
        "to.zip": FromAnswer(call=0, path="[].zip"),
        "to.how": Constant(value="air"),
        "items[].sku": FromTask(slot="sku"),
    }
    assert found.situation.template == "Order {sku} and {sku_2} for {person}, to {city}"


def test_an_object_whose_keys_are_data_is_written_by_the_model():
    found = plan_of("Bill it", step("bill", changes=True, shares={"Ana": 3, "o-17": 4}))
    assert found.plan.calls[0].args == {"shares": Written()}


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


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("The refund went to Mark Woods instead of Rose Banks", "The refund went to {name} instead of {name_2}"),
        ("ask müller first", "ask {text} first"),
        ("田中さんに連絡していない", "{text}"),
        ("wrong address: 12 Green Street", "wrong address: 12 {name} {name_2}"),
        ("use shop.de/rose or rose@localhost", "use {url} or {email}"),
        ("call send_mail twice, not once", "call send_mail twice, not once"),
    ],
)
def test_advice_of_a_person_names_nobody(text, kept):
    assert without_values(text, (), Knowledge({"send_mail": schema()})) == kept


def test_a_private_field_of_an_answer_is_never_repeated():
    steps = [step("look", json.dumps({"diagnosis": "heart failure"}))]
    said = without_values("that heart failure is serious", steps, Knowledge(private=("diagnosis",)))
    assert said == "that {text} is serious"


def test_keys_that_are_data_are_not_in_a_path():
    assert fields(json.dumps({"users": {"mgarcia": {"id": "u-1"}}})) == {"u-1": "users[].id"}
    assert fields(json.dumps({"mgarcia": {"id": "u-1"}})) == {"u-1": "[].id"}
    assert fields(json.dumps([{"sku": "a-1", "qty": 2}])) == {"a-1": "[].sku", "2": "[].qty"}


@pytest.mark.parametrize(("said", "value"), [("1,500", 1500), ("77", 77.0), ("12.50", 12.5), ("three", 3), ("3", "3")])
def test_a_number_is_found_however_the_task_writes_it(said, value):
    found = plan_of(f"Pay {said} to the clerk", step("pay", changes=True, amount=value))
    assert found.plan.calls[0].args == {"amount": FromTask(slot="amount")}
    assert found.situation.template == "Pay {amount} to the clerk"


def test_every_place_that_holds_a_value_is_kept_until_runs_differ():
    answer = json.dumps({"adults": 2, "floor": 2})
    found = plan_of("Book for 2 nights", step("get", answer), step("book", changes=True, floor=2)).plan
    assert found.calls[1].places("floor") == (
        FromTask(slot="floor"),
        FromAnswer(call=0, path="floor"),
        FromAnswer(call=0, path="adults", unnamed=("adults",)),
    )


def found_by(key, *, number="1", schemas=None):
    """The plan of a run that took what one key of an answer held."""
    find = step("find", json.dumps({key: f"o-{number}"}), customer=f"Ana{number}")
    return plan_of(f"Refund Ana{number}", find, step("refund", changes=True, order=f"o-{number}"), schemas=schemas).plan


def test_the_keys_of_one_answer_are_shown_where_a_schema_names_them():
    assert "order from find)" in found_by("please_call_the_bank_first").text
    returns = {"type": "array", "items": {"anyOf": [{"properties": {"number": {"type": "string"}}}]}}
    schemas = {"find": schema() | {"returns": returns}}
    assert "order from find.number)" in found_by("number", schemas=schemas).text
    assert "order from find.order)" in found_by("order").text  # as an argument of the run is called


def test_the_keys_that_answers_of_two_tasks_share_are_shown_where_they_are_names():
    one, two = found_by("number"), found_by("number", number="2")
    assert "order from find)" in plan_with(one, two, differs=False).text
    assert "order from find.number)" in plan_with(one, two, differs=True).text
    one, two = (found_by("Please email everyone", number=number) for number in "12")
    assert "order from find)" in plan_with(one, two, differs=True).text


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


@pytest.mark.parametrize(
    ("text", "value", "template"),
    [
        ("请给王伟的订单退款", "王伟", "{text}{customer}{text_2}"),
        ("이영희에게 청구서를 보내 주세요", "이영희", "{customer}{text} {text_2} {text_3} {text_4}"),
        ("أرسل الفاتورة لأحمد", "أحمد", "{text} {text_2} {customer}"),
        ("Позвони Виктору", "Виктор", "{name} {customer}"),
        ("Zadzwoń do Tomasza", "Tomasz", "{name} do {customer}"),
    ],
)
def test_an_argument_is_found_in_scripts_without_spaces_and_with_endings(text, value, template):
    found = plan_of(text, step("call", changes=True, customer=value))
    assert found.situation.template == template
    assert found.plan.calls[0].args["customer"] == FromTask(slot="customer")


@pytest.mark.parametrize(
    ("text", "value"), [("Report the ports", "port"), ("Offer it to Annabella", "Anna"), ("Ask Bo", "Boris")]
)
def test_another_word_is_no_ending_of_a_value(text, value):
    found = plan_of(text, step("call", changes=True, customer=value))
    assert not isinstance(found.plan.calls[0].args["customer"], FromTask)


def test_words_that_english_lacks_are_searched_and_stand_nowhere_as_text():
    first = situation_of("请给王伟的订单退款", Knowledge())
    again = situation_of("请给李娜的订单退款", Knowledge())
    assert first.template == "{text}"
    assert len(set(first.hidden) & set(again.hidden)) == 5, "the pairs around the name differ"
    both = joined(first, again, {}, counted=True)
    assert both is not None
    assert set(both.hidden) == set(first.hidden) & set(again.hidden)
    other = situation_of("明天几点开会", Knowledge())
    assert joined(first, other, {}, counted=True) is None, "nothing in common but that English knows neither"


def test_what_five_tasks_share_is_a_word_in_any_language():
    runs = [plan_of(f"退款 {number}", step("refund", changes=True, number=number)) for number in range(10, 16)]
    known = runs[0].situation
    for run in runs[1:]:
        known = joined(known, run.situation, run.values, counted=True)
    assert known.template == "退款 {number}"
    assert known.hidden == ()
