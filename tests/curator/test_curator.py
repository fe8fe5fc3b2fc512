import json

import numpy as np
import pytest
from learner.runs import REFUNDED, run_of, step

from ace import Feedback, Learner, Reflector
from ace.curator import Curator
from ace.curator.eviction import evict
from ace.playbook import Add, CallableEmbedder, Merge, Playbook, Provenance, Tag
from ace.playbook.insight import Insight
from ace.playbook.plan import Call, FromTask, Plan, Situation

PLAIN = (REFUNDED[0], REFUNDED[3])


def bags(texts):
    """Vectors of words: what shares words is near."""
    rows = np.zeros((len(texts), 512), dtype=np.float32)
    for row, text in zip(rows, texts, strict=True):
        for word in text.lower().split():
            row[sum(map(ord, word)) % 512] += 1
    return rows


def book_of(*runs):
    book = Playbook(embedder=CallableEmbedder("bags", bags))
    learner = Learner(book, curator=Curator(book, 0.75))
    for number, (text, *steps) in enumerate(runs):
        learner.learn(run_of(*steps, text=text, run_id=f"r{number}", task_id=f"t{number}"), Feedback(success=True))
    return [bullet for bullet in book.bullets if bullet.section == "Strategies"]


def mail(**args):
    return step("send_mail", changes=True, **args)


ASK = "Ask for the order number before any refund is made"


def curated(one, other):
    book = Playbook(embedder=CallableEmbedder("bags", bags))
    curator = Curator(book, 0.75)
    for number, (trigger, content) in enumerate((one, other)):
        lesson = Insight(
            section="Pitfalls", trigger=trigger, content=content, provenance=Provenance(run_ids=(f"r{number}",))
        )
        book.commit(curator.curate([lesson], {}))
    return [bullet.provenance.run_ids for bullet in book.bullets]


GOOD = Feedback(success=True)


@pytest.fixture
def mini(tmp_path):
    with Playbook.open(tmp_path / "mini.db") as book:
        yield book


def learn(book, *outputs, feedback=GOOD):
    for output in outputs:
        book.commit(Curator(book).curate(Reflector().reflect(output, feedback), {}))
    return book.bullets


def cancel(person, n=1, run_id="r", text="Cancel all future meetings with {}", times=2):
    ids = [f"e-{n}{i}" for i in range(times)]
    steps = [step("search", " ".join(ids), query=person), *(step("delete", changes=True, event=i) for i in ids)]
    return run_of(*steps, text=text.format(person), run_id=f"{run_id}{n}", task_id=f"{run_id}{n}")


def test_what_a_task_fills_in_is_abstracted_away(mini):
    (bullet,) = learn(mini, cancel("anaya", 1), cancel("raj", 2), cancel("nia", 3))
    assert bullet.provenance.run_ids == ("r1", "r2", "r3")


def test_other_words_are_situations_of_their_own(mini):
    (bullet,) = learn(
        mini,
        cancel("anaya", 1),
        cancel("raj", 2, text="Do not cancel the meetings with {} that are before noon"),
        cancel("nia", 3, text="Cancel the next 2 meetings with {}"),
    )
    assert sorted(situation.template for situation in bullet.situations) == [
        "Cancel all future meetings with {query}",
        "Cancel the next {number} meetings with {query}",
        "Do not cancel the meetings with {query} that are before noon",
    ]


def test_other_changing_calls_are_another_recipe(mini):
    moved = run_of(
        step("search", "e-1", query="raj"),
        step("move", changes=True, event="e-1"),
        text="Cancel all future meetings with raj",
    )
    assert len(learn(mini, cancel("anaya", 1), moved)) == 2


def test_a_lesson_from_an_unsure_verdict_waits(book):
    deltas = Curator(book).curate(Reflector().reflect(cancel("anaya"), Feedback(success=True, confidence=0.4)), {})
    book.commit(deltas)
    (item,) = book.review.pending()
    assert "40 % sure" in item.why
    assert book.retrieve("Cancel all future meetings with anaya") == []
    other = run_of(step("move", changes=True), text="Move it")
    sure = Curator(book).curate(Reflector().reflect(other, Feedback(success=True, confidence=0.9)), {})
    assert sure[0].bullet.stage == "active"


def test_a_tainted_lesson_waits(book):
    book.commit(
        Curator(book).curate(
            [Insight(section="Pitfalls", trigger="", content="Ask first.", held="somebody said so")], {}
        )
    )
    (item,) = book.review.pending()
    assert (item.bullet.content, "somebody said so" in item.why) == ("Ask first.", True)


def test_details_about_a_tool_gather(book):
    def detail(run, more=""):
        text = f"refund failed (refused); it worked with order from find{more}."
        return Insight(
            section="Pitfalls", trigger="", content=text, tools=("refund",), provenance=Provenance(run_ids=(run,))
        )

    for insight in (detail("r1"), detail("r2", ", with note from read")):
        book.commit(Curator(book).curate([insight], {"refund": "1"}))
    (bullet,) = book.bullets
    assert bullet.provenance.run_ids == ("r1", "r2")
    assert bullet.tool_schema_hashes == {"refund": "1"}


def test_lessons_of_a_language_model_merge_only_when_they_say_the_same(book):
    def lesson(content, run):
        return Insight(
            section="Strategies", trigger="Money back", content=content, provenance=Provenance(run_ids=(run,))
        )

    curator = Curator(book, 0.9)
    for n, content in enumerate(("Find the order first.", "Find the order first!", "Never ask the customer twice.")):
        book.commit(curator.curate([lesson(content, f"r{n}")], {}))
    assert [b.content for b in book.bullets] == ["Find the order first.", "Never ask the customer twice."]


# -- the budget --------------------------------------------------------------------------------------------------------


def full_book(tmp_path, embedder, budget, **options):
    return Playbook.open(tmp_path / "full.db", embedder=embedder, book_budget=budget, **options)


def other(n):
    return run_of(step(f"tool{n}", changes=True), text=f"{chr(97 + n) * 9} task", run_id=f"r{n}", task_id=f"t{n}")


def test_a_full_book_lets_go_of_what_is_worth_least(tmp_path, embedder):
    with full_book(tmp_path, embedder, 150) as book:
        learn(book, *(other(n) for n in range(4)))
        book.commit([*_used("b-1", 5)])
        learn(book, *(other(n) for n in range(4, 12)))
        assert book.bullets[0].id == "b-1", "what was of use stays"
        assert sum(map(book.budget.tokens_of, book.bullets)) <= 150
        assert book.bullets[-1].tool_sequence == ("tool11",), "what is new comes in"
        assert book.history.verify().ok
        reasons = {e["reason"] for e in book.history.entries() if e["kind"] == "remove"}
        assert reasons == {"the book is full, and this was worth least per token"}


def _used(bullet_id, times):
    return [Tag(bullet_id=bullet_id, helpful=1, run_id=f"u{n}") for n in range(times)]


def test_what_says_nearly_the_same_leaves_first_and_has_a_successor(tmp_path):
    with Playbook.open(tmp_path / "full.db", book_budget=170) as book:
        texts = ["Cancel the order of the customer {}", "Please cancel what {} ordered", "Stop the purchase of {}"]
        runs = [
            run_of(
                step("cancel", changes=True, **{f"a{n}": True}), text=t.format("Bo"), run_id=f"r{n}", task_id=f"t{n}"
            )
            for n, t in enumerate(texts)
        ]
        learn(book, *runs, *(other(n) for n in range(5, 10)))
        gone = [entry for entry in book.history.entries() if entry["kind"] == "merge" and entry.get("absorbed")]
        assert gone, "a recipe for the same calls was absorbed"
        successor = book.history.successor(gone[0]["absorbed"][0])
        assert successor is not None
        assert successor.tool_sequence == ("cancel",)
        assert len(successor.provenance.run_ids) > 1
        assert book.history.verify().ok


def test_pinned_bullets_stay_and_what_does_not_fit_beside_them_is_not_added(tmp_path, embedder):
    with full_book(tmp_path, embedder, 60) as book:
        book.add(section="Strategies", content="word " * 40, stage="pinned")
        assert [b.stage for b in learn(book, other(1))] == ["pinned"]


def test_a_lesson_that_grows_by_a_merge_makes_room(tmp_path, embedder):
    plan = Plan(calls=(Call(tool="refund", args={"order": FromTask(slot="order")}, changes=True),))
    short = Insight(
        section="Strategies", trigger="", content="x", plan=plan, situation=Situation(template="Refund {id}")
    )
    with full_book(tmp_path, embedder, None) as book:
        book.commit([Add(bullet=short.as_bullet({}))])
        book.add(section="Pitfalls", content="Never guess the number of an order that nobody has told you.")
    long = Situation(template="Pay the whole order {id} back to the customer who has asked for it twice", support=9)
    with full_book(tmp_path, embedder, 0) as book:
        book.budget.book = sum(map(book.budget.tokens_of, book.bullets))
        deltas = evict(book, [Merge(bullet_id="b-1", situation=long)])
        book.commit(deltas)
        assert book.get("b-1").trigger == long.template
        assert sum(map(book.budget.tokens_of, book.bullets)) <= book.budget.book
        assert [bullet.id for bullet in book.bullets] == ["b-1"]


def test_without_a_budget_nothing_leaves(book):
    assert len(learn(book, *(other(n) for n in range(12)))) == 12


def test_untouched_bullets_keep_every_byte(tmp_path, embedder):
    with full_book(tmp_path, embedder, 150) as book:
        for n in range(20):
            before = {b.id: b.model_dump_json() for b in book.bullets}
            revision = book.revision
            learn(book, other(n))
            named = {i for r, d in book.history.deltas() if r > revision for i in _ids(d)}
            assert all(
                b.model_dump_json() == before[b.id] for b in book.bullets if b.id in before and b.id not in named
            )


def _ids(delta):
    own = delta.bullet.id if delta.kind == "add" else delta.bullet_id
    return (own, *getattr(delta, "absorbed", ()))


@pytest.mark.parametrize(
    ("one", "other", "args", "situations"),
    [
        (
            "Please do not refund the order of the customer and mail him",
            "Please do refund the order of the customer and mail him",
            ({}, {}),
            2,
        ),
        (
            "Please do NOT refund the order of the customer and mail him",
            "Please do refund the order of the customer and mail him",
            ({}, {}),
            2,
        ),
        ("Tell Ana not to ship the order today", "Tell Bo to ship the order today", ({"to": "Ana"}, {"to": "Bo"}), 2),
        ("Order two items of soap", "Order three items of soap", ({"n": "two"}, {"n": "three"}), 1),
        ("Refund 20.5 euros to the customer", "Refund 30.75 euros to the customer", ({"n": 20.5}, {"n": 30.75}), 1),
        ("Take 2, items off the list", "Take 20% items off the list", ({"n": "2,"}, {"n": "20%"}), 1),
        ("Mark the invoice as paid", "Mark the invoice as unpaid", ({"s": "paid"}, {"s": "unpaid"}), 1),
    ],
)
def test_what_vectors_confuse_are_two_situations(one, other, args, situations):
    (bullet,) = book_of((one, mail(**args[0])), (other, mail(**args[1])))
    assert len(bullet.situations) == situations


def test_what_is_only_filled_in_still_merges():
    (bullet,) = book_of(
        ("Tell Ana to ship the order on 2026-03-01", mail(to="Ana", day="2026-03-01")),
        ("Tell Bo to ship the order on 2026-04-12", mail(to="Bo", day="2026-04-12")),
    )
    assert bullet.provenance.run_ids == ("r0", "r1")


def test_two_ways_to_read_are_two_lessons():
    wiki, base = step("search_wiki", "2M", q="Paris"), step("query_db", "2M", city="Paris")
    bullets = book_of(("Find the population of Paris", wiki), ("Find the population of Paris", base))
    assert [bullet.tool_sequence for bullet in bullets] == [("search_wiki",), ("query_db",)]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (("When the customer does not have a receipt", ASK), ("When the customer does have a receipt", ASK)),
        (("When the customer does NOT have a receipt", ASK), ("When the customer does have a receipt", ASK)),
        (
            ("When a call of GetOrder fails for a customer", ASK),
            ("When a call of CancelOrder fails for a customer", ASK),
        ),
        (
            ("When a call of get_order fails for a customer", ASK),
            ("When a call of cancel_order fails for a customer", ASK),
        ),
        (("When prices are in EUR for the shop", ASK), ("When prices are in USD for the shop", ASK)),
        (
            ("When refund is asked", "You should refund the order to the customer"),
            ("When refund is asked", "You should not refund the order to the customer"),
        ),
        (
            ("", "create_order_item needs open_order first: it failed before that call and worked after it."),
            ("", "delete_order_item needs open_order first: it failed before that call and worked after it."),
        ),
        (
            ("", "create_order needs open_order first: it failed before that call and worked after it."),
            ("", "open_order needs create_order first: it failed before that call and worked after it."),
        ),
        (
            (
                "",
                "refund failed (refused); it worked with order from find_orders, not from the task.",
            ),
            (
                "",
                "refund failed (refused); it worked with order from the task, not from find_orders.",
            ),
        ),
    ],
)
def test_reflected_lessons_and_details_stay_apart(one, other):
    assert curated(one, other) == [("r0",), ("r1",)]


def test_the_same_lesson_again_is_evidence():
    assert curated(("When a refund is asked", ASK), ("When a refund is asked", ASK)) == [("r0", "r1")]


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
    assert bullet.trigger == "Refund the order of {customer}"
    assert bullet.provenance.task_ids == ("t0", "t1")
    assert bullet.tool_schema_hashes == {"find": "h1", "refund": "h2"}
    again = Reflector().reflect(run_of(*PLAIN, run_id="r0"), Feedback(success=True))
    assert curator.curate(again, {}) == [], "a run is learned once"


def test_other_calls_are_another_lesson(book):
    for n, steps in enumerate((PLAIN, (step("find", a="Ana"), step("cancel", changes=True)))):
        book.commit(
            Curator(book).curate(Reflector().reflect(run_of(*steps, run_id=f"r{n}"), Feedback(success=True)), {})
        )
    assert len(book) == 2


def test_a_request_keeps_one_record_of_failure(book):
    for n in range(6):
        steps = [step(f"tool{n}", changes=True)]
        book.commit(
            Curator(book).curate(Reflector().reflect(run_of(*steps, run_id=f"r{n}"), Feedback(success=False)), {})
        )
    assert len(book) == 1
    assert sum(len(b.provenance.run_ids) for b in book.bullets) == 1, "others rest on other failures"


def lessons_of(book):
    return [
        (b.content, len(b.situations), len(b.provenance.run_ids)) for b in book.bullets if b.section == "Strategies"
    ]


def test_values_that_are_equal_by_chance_make_no_other_lesson(mini):
    for number in range(12):
        nights, adults, floor = number % 3 + 1, number % 2 + 1, number % 4 + 1
        answer = json.dumps({"adults": adults, "floor": floor})
        learn(
            mini,
            run_of(
                step("get", answer, customer=f"c-{number}"),
                step("book", changes=True, adults=adults, floor=floor, nights=nights),
                text=f"Book {nights} nights for c-{number}",
                run_id=f"r{number}",
                task_id=f"t{number}",
            ),
        )
    said = "get(customer from the task), then book(adults from get.adults, floor from get.floor, nights from the task), then submit(...)"
    assert lessons_of(mini) == [(said, 1, 12)]


def test_a_constant_of_another_request_is_another_lesson(mini):
    asked = {"Cancel booking {}": "cancelled", "The guest of booking {} is here": "arrived"}
    for number in range(10):
        text = list(asked)[number % 2]
        call = step("update", changes=True, booking=f"k-{number}", status=asked[text])
        learn(mini, run_of(call, text=text.format(f"k-{number}"), run_id=f"r{number}", task_id=f"t{number}"))
    assert sorted(b.content for b in mini.bullets) == [
        "update(booking from the task, status='arrived'), then submit(...)",
        "update(booking from the task, status='cancelled'), then submit(...)",
    ]


def test_lessons_that_turn_out_to_be_the_same_become_one(mini):
    wordings = ("Refund order {}", "I want my money back for {}")
    for number in range(12):
        note = ("done", "thanks", "all good")[number % 3]
        call = step("refund", changes=True, order=f"o-{number}", note=note)
        text = wordings[number % 2].format(f"o-{number}")
        learn(mini, run_of(call, text=text, run_id=f"r{number}", task_id=f"t{number}"))
    assert lessons_of(mini) == [("refund(order from the task, note), then submit(...)", 2, 12)]
    assert mini.history.verify().ok


def test_a_word_that_came_back_stays(mini):
    for number in range(9):
        call = step("reset", changes=True, ticket=f"k-{number}")
        learn(mini, run_of(call, text=f"Reset the modem of k-{number}", run_id=f"r{number}", task_id=f"t{number}"))
        assert mini.bullets[0].trigger == f"Reset the {'{text}' if number < 4 else 'modem'} of {{ticket}}"


def pitfall_of(content, run):
    request = Situation(template="Refund order 17")
    where = {"trigger": request.shown, "situation": request, "provenance": Provenance(run_ids=(run,), task_ids=(run,))}
    return Insight(section="Pitfalls", content=content, **where)


def test_what_leaves_the_book_with_one_lesson_is_not_merged_into_by_the_next():
    book = Playbook(embedder=CallableEmbedder("bags", bags))
    curator, record = Curator(book, 0.75), "Did not work: refund. refund failed with timeout."
    book.commit(curator.curate([pitfall_of(record, "r0")], {}))
    assert [bullet.content for bullet in book.bullets] == [record]
    more = "The difference: Finishing before refund failed; with that call it worked."
    book.commit(curator.curate([pitfall_of(more, "r1"), pitfall_of(record, "r2")], {}))
    assert [bullet.content for bullet in book.bullets] == [more]


def test_what_a_lesson_takes_out_of_the_book_it_does_not_rest_on():
    """The record of a failure may read like the comparison that replaces it."""
    book = Playbook(embedder=CallableEmbedder("bags", bags))
    curator = Curator(book, 0.1)
    record = pitfall_of("Did not work: refund the order now.", "r0")
    book.commit(curator.curate([record], {}))
    more = pitfall_of("The difference: Did not work: refund the order now.", "r1")
    book.commit(curator.curate([more], {}))
    assert [bullet.content for bullet in book.bullets] == [more.content]


def test_a_lesson_that_another_takes_over_hands_on_what_is_said_of_it_next():
    book = Playbook(embedder=CallableEmbedder("bags", bags), screen=None)
    plan = Plan(calls=(Call(tool="refund", changes=True, args={"order": FromTask(slot="id")}),))
    made = {"section": "Strategies", "plan": plan, "content": plan.text, "tool_sequence": ("refund",)}
    for number, template in enumerate(("Refund {id}", "Give the money for {id} back")):
        known = Situation(template=template)
        book.add(**made, situations=(known,), trigger=known.shown, provenance=Provenance(run_ids=(f"old{number}",)))
    insights = [
        Insight(
            section="Strategies",
            trigger=template,
            content=plan.text,
            plan=plan,
            situation=Situation(template=template),
            tool_sequence=("refund",),
            provenance=Provenance(run_ids=(f"r{number}",), task_ids=(f"r{number}",)),
        )
        for number, template in enumerate(("Refund {id}", "Give the money for {id} back"))
    ]
    book.commit(Curator(book, 0.75).curate(insights, {}))
    (bullet,) = book.bullets
    assert set(bullet.provenance.run_ids) == {"old0", "old1", "r0", "r1"}


def test_equal_words_about_other_calls_are_two_lessons(book):
    said = {
        "section": "Strategies",
        "trigger": "Refund an order",
        "content": "Look the order up first, then refund it.",
    }
    ways = [("find", "refund"), ("search", "refund"), ("find", "refund")]
    for number, way in enumerate(ways):
        insight = Insight(
            **said, tool_sequence=way, changing_tools=("refund",), provenance=Provenance(run_ids=(f"r{number}",))
        )
        book.commit(Curator(book).curate([insight], {}))
    assert [bullet.tool_sequence for bullet in book.bullets] == [("find", "refund"), ("search", "refund")]
    assert book.get("b-1").provenance.run_ids == ("r0", "r2")


def test_equal_lessons_of_the_same_runs_are_added_once(book):
    def lesson(*runs):
        return Insight(section="Pitfalls", trigger="", content="Ask first.", provenance=Provenance(run_ids=runs))

    assert [delta.kind for delta in Curator(book).curate([lesson("r1", "r2"), lesson("r1")], {})] == ["add"]
