"""From the trace of a run to lessons."""

from learner.runs import REFUNDED, run_of, step

from ace import Feedback, Reflector


def test_a_success_becomes_a_strategy_without_detours_or_constants():
    insight, _ = Reflector("test").reflect(run_of(*REFUNDED), Feedback(success=True), group="refunds")
    assert insight.section == "Strategies"
    assert insight.tool_sequence == ("find", "refund")
    assert insight.changing_tools == ("refund",)
    assert insight.content == "find(customer from the task), then refund(order from find, note), then submit(...)"
    assert insight.provenance.groups == ("refunds",)
    assert insight.tool_success_rate == 0.75


def test_a_failure_becomes_a_pitfall_that_repeats_no_tools_words():
    insight, _ = Reflector().reflect(
        run_of(*REFUNDED), Feedback(success=False, text="the state is wrong", trusted=True)
    )
    assert insight.section == "Pitfalls"
    assert "refund failed: refused;" in insight.content
    assert "reads were repeated or found nothing" in insight.content
    assert "the state is wrong" in insight.content
    assert "secret" not in insight.content


def test_a_read_that_found_nothing_is_no_part_of_the_recipe():
    steps = (step("search", "[]", q="x"), step("find", "[{}]", q="Ana"), step("refund", "[]", changes=True))
    (insight,) = Reflector().reflect(run_of(*steps), Feedback(success=True))
    assert insight.tool_sequence == ("find", "refund")


def test_a_read_after_a_change_is_no_repetition():
    steps = (step("find", a="x"), step("refund", changes=True), step("find", a="x"))
    (insight,) = Reflector().reflect(run_of(*steps), Feedback(success=True))
    assert insight.tool_sequence == ("find", "refund", "find")


def test_no_call_is_a_lesson_too_and_a_dead_model_is_none():
    (insight,) = Reflector().reflect(run_of(), Feedback(success=True))
    assert insight.content == "answer at once, without a call, then submit(...)"
    assert Reflector().reflect(run_of(termination_reason="max_iterations"), Feedback(success=False)) == []


def test_constants_are_traced_by_whole_words_and_secrets_are_not_kept():
    steps = (
        step("find", "2021 items", customer="Ana"),
        step("refund", changes=True, quantity=1, n=2, s="e", password="hunter2", all=True),
    )
    (insight,) = Reflector().reflect(run_of(*steps, text="Refund order 17 of Ana"), Feedback(success=True))
    assert "refund(quantity, n, s, password, all=true)" in insight.content
    assert "hunter2" not in insight.as_bullet({}).model_dump_json()


def test_a_strategy_is_never_endless():
    steps = [step("find", changes=True, **{f"argument_{i}": "x" for i in range(200)}) for _ in range(8)]
    (insight,) = Reflector().reflect(run_of(*steps), Feedback(success=True))
    assert len(insight.as_bullet({}).content) < 700
