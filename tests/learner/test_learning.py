from functools import partial

import pytest
from learner.runs import run_of, step

from ace import Feedback, Learner, Policy, ReActGenerator, Reflector, ToolRegistry
from ace.agent.episode import Episode
from ace.curator import Curator
from ace.curator.curator import MAX_PITFALLS
from ace.playbook import Add, Merge, Playbook, PlaybookBullet
from ace.tasks import TaskInput
from ace.testing import ScriptedLM, decision
from ace.tools import Tool

REFUNDED = (
    step("find", "[{'id': 'o-17'}]", customer="Ana"),
    step("find", "[{'id': 'o-17'}]", customer="Ana"),
    step(
        "refund",
        "No such order",
        changes=True,
        failed="refused",
        order="o-1",
    ),
    step("refund", changes=True, order="o-17", note="because it came broken and late"),
)


PLAIN = (REFUNDED[0], REFUNDED[3])


def test_a_success_becomes_a_strategy_without_detours_or_constants():
    insight, _ = Reflector("test").reflect(run_of(*REFUNDED), Feedback(success=True), group="refunds")
    assert insight.section == "Strategies"
    assert insight.tool_sequence == ("find", "refund")
    assert insight.changing_tools == ("refund",)
    assert insight.content == "Call find(customer), then refund(order from find, note), then finish."
    assert insight.provenance.groups == ("refunds",)
    assert insight.tool_success_rate == 0.75


def test_a_failure_becomes_a_pitfall_that_repeats_no_tools_words():
    insight, _ = Reflector().reflect(run_of(*REFUNDED), Feedback(success=False, text="the state is wrong"))
    assert insight.section == "Pitfalls"
    assert "refund failed with refused (1 times)" in insight.content
    assert "1 reads were repeated or found nothing" in insight.content
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
    assert insight.content == "No call is needed: finish at once."
    assert Reflector().reflect(run_of(termination_reason="max_iterations"), Feedback(success=False)) == []


def test_the_same_lesson_again_is_merged_and_the_words_stay(book):
    curator = Curator(book)
    for n, text in enumerate(("Refund the order of Ana", "Refund the order of Ann")):
        insights = Reflector().reflect(
            run_of(*PLAIN, text=text, run_id=f"r{n}", task_id=f"t{n}"), Feedback(success=True)
        )
        deltas = curator.curate(insights, {"find": "h1", "refund": "h2", "other": "h3"})
        assert [type(d) for d in deltas] == [Add if n == 0 else Merge]
        book.commit(deltas)
    (bullet,) = book.bullets
    assert bullet.trigger == "Refund the order of Ana"
    assert bullet.provenance.task_ids == ("t0", "t1")
    assert bullet.tool_schema_hashes == {"find": "h1", "refund": "h2"}
    again = Reflector().reflect(run_of(*PLAIN, run_id="r0"), Feedback(success=True))
    assert curator.curate(again, {}) == [], "a run is learned once"


@pytest.mark.parametrize("other", ["Do not refund the order of Ana", "Completely different words, zebra"])
def test_a_negation_or_another_meaning_is_never_merged(tmp_path, other):
    with Playbook.open(tmp_path / "real.db") as book:  # vectors that mean something
        curator = Curator(book)
        for n, text in enumerate(("Refund the order of Ana", other)):
            insights = Reflector().reflect(run_of(*PLAIN, text=text, run_id=f"r{n}"), Feedback(success=True))
            book.commit(curator.curate(insights, {}))
        assert len(book) == 2


def test_other_calls_are_another_lesson(book):
    for n, steps in enumerate((PLAIN, (step("find", a="Ana"), step("cancel", changes=True)))):
        book.commit(
            Curator(book).curate(Reflector().reflect(run_of(*steps, run_id=f"r{n}"), Feedback(success=True)), {})
        )
    assert len(book) == 2


def test_a_trigger_keeps_few_pitfalls(book):
    for n in range(6):
        steps = [step(f"tool{n}", changes=True)]
        book.commit(
            Curator(book).curate(Reflector().reflect(run_of(*steps, run_id=f"r{n}"), Feedback(success=False)), {})
        )
    assert len(book) == MAX_PITFALLS
    assert sum(len(b.provenance.run_ids) for b in book.bullets) == MAX_PITFALLS, "others rest on other failures"


def stock(n: int) -> int:
    """Look at the stock."""
    return n


def world():
    sold = []

    def sell(n: int) -> str:
        """Sell some."""
        sold.append(n)
        return "sold"

    tools = ToolRegistry([Tool.from_function(stock, read_only=True), sell])
    return Episode(
        TaskInput(task_id="t", inputs={"task": "Sell 2"}), tools, lambda output: Feedback(success=sold == [2]), "sales"
    )


def test_the_learner_learns_and_credits(book):
    scripts = [
        [decision("sell", n=1), decision("finish", answer="")],
        [decision("stock", n=2), decision("sell", n=2), decision("finish", answer="")],
        [decision("sell", "as [b-2] says", n=2), decision("finish", answer="")],
        [decision("sell", n=3), decision("finish", answer="")],
    ]

    def agent_for(episode):
        return ReActGenerator(
            tools=episode.registry, lm=ScriptedLM(scripts.pop(0)), playbook=book, policy=Policy.lenient()
        )

    seen = []
    report = Learner(book, agent_for).fit([world] * 2, epochs=2, on_run=lambda *args: seen.append(args))
    pitfall, strategy, *rest = book.bullets
    assert (pitfall.section, strategy.section, strategy.tool_sequence) == ("Pitfalls", "Strategies", ("stock", "sell"))
    assert (strategy.helpful_count, strategy.harmful_count) == (1, 1), "followed well once, followed badly once"
    assert pitfall.helpful_count == pitfall.harmful_count == 0
    assert (report.runs, report.successes, len(seen)) == (4, 2, 4)
    assert [entry["author"] for entry in book.history.entries()] == ["learner"] * len(book.history.entries())
    assert all(b.provenance.groups == ("sales",) for b in (pitfall, strategy, *rest))


def test_fit_without_an_agent_says_so(book):
    with pytest.raises(ValueError, match="agent_for"):
        Learner(book).fit([partial(world)])


def test_credit_is_not_given_to_bullets_that_were_only_shown(book):
    book.commit([Add(bullet=PlaybookBullet(section="Strategies", content="x", changing_tools=("cancel",)))])
    output = run_of(*REFUNDED).model_copy(update={"injected_bullets": ("b-1", "b-77")})
    Learner(book).learn(output, Feedback(success=True), {})
    assert book.get("b-1").helpful_count == 0


@pytest.mark.parametrize("reason", ["model_transport", "interrupted", "internal_invariant"])
def test_an_outage_is_no_lesson_and_no_discredit(book, reason):
    book.commit([Add(bullet=PlaybookBullet(section="Strategies", content="x", changing_tools=("refund",)))])
    output = run_of(*REFUNDED).model_copy(update={"termination_reason": reason, "injected_bullets": ("b-1",)})
    Learner(book).learn(output, Feedback(success=False), {})
    assert (len(book), book.get("b-1").harmful_count) == (1, 0)


def test_credit_is_given_once_per_run(book):
    book.commit([Add(bullet=PlaybookBullet(section="Strategies", content="x", changing_tools=("refund",)))])
    output = run_of(*REFUNDED[:1], step("refund", changes=True)).model_copy(update={"injected_bullets": ("b-1",)})
    for learner in (Learner(book), Learner(book), Learner(book)):
        learner.learn(output, Feedback(success=True), {})
        learner.learn(output, Feedback(success=True), {})
    assert book.get("b-1").helpful_count == 1


def test_a_bullet_that_another_process_removed_costs_no_lesson(tmp_path):
    from ace.playbook import CallableEmbedder, Remove

    embedder = CallableEmbedder("lengths", lambda texts: [[len(text), 1.0] for text in texts])
    with Playbook.open(tmp_path / "b.db", embedder=embedder) as book:
        book.commit([Add(bullet=PlaybookBullet(section="Strategies", content="x", changing_tools=("refund",)))])
        with Playbook.open(tmp_path / "b.db", embedder=embedder) as other:
            other.commit([Remove(bullet_id="b-1")])
        output = run_of(*REFUNDED[:1], step("refund", changes=True)).model_copy(update={"injected_bullets": ("b-1",)})
        Learner(book).learn(output, Feedback(success=True), {"refund": "1"})
        assert [b.id for b in book.bullets] == ["b-2"]


def test_a_failed_curation_costs_no_credit(book, monkeypatch):
    book.commit([Add(bullet=PlaybookBullet(section="Strategies", content="x", changing_tools=("refund",)))])
    output = run_of(*REFUNDED[:1], step("refund", changes=True)).model_copy(update={"injected_bullets": ("b-1",)})
    learner = Learner(book)

    def broken(*_):
        raise OSError("no model")

    with monkeypatch.context() as patched:
        patched.setattr(learner.pipeline.curator, "curate", broken)
        with pytest.raises(OSError, match="no model"):
            learner.learn(output, Feedback(success=True), {})
    learner.learn(output, Feedback(success=True), {})
    assert book.get("b-1").helpful_count == 1


def test_constants_are_traced_by_whole_words_and_secrets_are_not_kept():
    steps = (
        step("find", "2021 items", customer="Ana"),
        step("refund", changes=True, quantity=1, n=2, s="e", password="hunter2", all=True),
    )
    (insight,) = Reflector().reflect(run_of(*steps, text="Refund order 17 of Ana"), Feedback(success=True))
    assert "refund(quantity, n, s, password, all=true)" in insight.content


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("You can refund order 17 of Ana", "You cannot refund order 17 of Ana"),
        ("Delete the last 3 emails of Ana", "Delete the last 5 emails of Ana"),
        ("Refund orders over 50", "Refund orders under 50"),
    ],
)
def test_meanings_that_vectors_confuse_are_not_merged(tmp_path, one, other):
    with Playbook.open(tmp_path / "m.db") as book:
        for n, text in enumerate((one, other)):
            insights = Reflector().reflect(run_of(*PLAIN, text=text, run_id=f"r{n}"), Feedback(success=True))
            book.commit(Curator(book).curate(insights, {}))
        assert len(book) == 2


def test_a_strategy_is_never_endless():
    steps = [step("find", changes=True, **{f"argument_{i}": "x" for i in range(200)}) for _ in range(8)]
    (insight,) = Reflector().reflect(run_of(*steps), Feedback(success=True))
    assert len(insight.content) < 700
