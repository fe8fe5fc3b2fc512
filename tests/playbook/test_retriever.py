"""Retrieval: holdout, exploration, explanations, many queries, the cache."""

import threading

import pytest
from hypothesis import strategies as st
from playbook_kit import bullet, filled, opened, strategy

from ace.playbook import (
    Add,
    CallableEmbedder,
    Experiment,
    Filters,
    Merge,
    Playbook,
    Promote,
    Provenance,
    Quarantine,
    Remove,
    Tag,
)
from ace.tasks import TaskInput


def test_what_the_holdout_did_is_logged_and_pinned_bullets_always_come(book):
    for number in range(3):
        stage = "pinned" if number == 0 else "active"
        book.add(
            section="Strategies", trigger="Refund", content=f"way {number}", changing_tools=(str(number),), stage=stage
        )
    seen = [book.retrieve("Refund", experiment=Experiment(holdout=0.5, run=f"r{n}")) for n in range(40)]
    assert all("b-1" in [b.id for b in found] for found in seen)
    assert {i for found in seen for i in found.held_back_at_random} == {"b-2", "b-3"}
    assert all({*found.held_back_at_random, *found.randomized} == {"b-2", "b-3"} for found in seen)
    again = book.retrieve("Refund", experiment=Experiment(holdout=0.5, run="r3"))
    assert (again.held_back_at_random, list(again)) == (seen[3].held_back_at_random, list(seen[3]))
    book.commit([Tag(bullet_id="b-2", arm="control", success=False, run_id="r3")])
    assert book.get("b-2").control_failures == 1
    with pytest.raises(ValueError, match="two halves"):
        Tag(bullet_id="b-2", arm="treated")


def test_an_explanation_says_why_and_what_else_was_near(book):
    for n, tool in enumerate("aab"):
        book.add(section="Strategies", trigger=f"Refund the order {n}", content="x", changing_tools=(tool,))
    book.add(section="Strategies", trigger="Refund the order of Bo", content="x", domain="bank", changing_tools=("c",))
    book.add(section="Strategies", trigger="Refund the order 9", content="x", trust="tainted")
    found = book.explain("Refund the order 0", "shop", Filters(), 1)
    assert [b.id for b in found.bullets] == ["b-1"]
    why = {reason.bullet.id: reason.why for reason in found.reasons}
    assert "backed by 1 more" in why["b-1"]
    assert "same tool sequence as b-1" in why["b-2"]
    assert "more than 1" in why["b-3"]
    assert "bank" in why["b-4"]
    assert "quarantined" in why["b-5"]
    assert found.tokens <= found.budget


def test_guards_follow_the_evidence(book):
    filled(book, "alpha", "beta")
    book.retrieve("alpha")
    book.commit([Tag(bullet_id="b-1", harmful=9)])
    book.commit([Merge(bullet_id="b-1", provenance={"task_ids": ["t9"]})])
    assert len(book.retrieve("alpha")) == 2
    guard = Filters(exclude_tasks=("t9",))
    assert [b.id for b in book.retrieve("alpha", filters=guard)] == ["b-2"]
    book.commit([Merge(bullet_id="b-2", provenance={"task_ids": ["t9"]})])
    assert book.retrieve("alpha", filters=guard) == []


def test_threads_may_commit_and_retrieve_at_once(tmp_path, embedder):

    errors = []
    with Playbook.open(tmp_path / "b.db", embedder=embedder, cache_size=8) as book:
        filled(book, *(f"alpha {n}" for n in range(20)))

        def work(n):
            try:
                for i in range(30):
                    if n % 2:
                        added = book.add(section="Strategies", content=f"beta {n} {i}")
                        book.commit([Remove(bullet_id=added.id)])
                    else:
                        assert book.retrieve(f"alpha {i % 12}")
            except Exception as error:
                errors.append(error)

        threads = [threading.Thread(target=work, args=(n,)) for n in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert errors == []
        assert book.history.verify().ok


ids = st.sampled_from([f"b-{n}" for n in range(1, 6)])


def test_retrieval_prefers_different_sequences(book):
    book.commit(Add(bullet=strategy(f"refund order {n}", "refund")) for n in range(5))
    book.commit([Add(bullet=strategy("cancel the order", "cancel")), Add(bullet=strategy("zip", "zip", "zap"))])
    keys = [bullet.key for bullet in book.retrieve("refund order 7", k=3)]
    assert keys[0] == ("refund",)
    assert len(keys) == len(set(keys)) == 3


def test_an_answer_is_kept_as_long_as_the_book_stays_as_it_is(book, monkeypatch):
    book.commit([Add(bullet=strategy("refund order", "a")), Add(bullet=strategy("refund item", "b"))])
    searched, candidates = [], book.index.candidates
    monkeypatch.setattr(book.index, "candidates", lambda *given: searched.append(1) or candidates(*given))
    book.retrieve("refund")
    book.retrieve("refund")
    assert len(searched) == 1
    book.commit([Tag(bullet_id="b-1", harmful=50)])
    assert book.retrieve("refund")[0].id == "b-2"
    book.commit([Quarantine(bullet_id="b-2")])
    assert [b.id for b in book.retrieve("refund")] == ["b-1"]
    assert len(searched) == 3


def test_the_prompt_budget_is_kept(tmp_path, embedder):
    with Playbook.open(tmp_path / "b.db", embedder=embedder, prompt_budget=40) as book:
        book.commit(Add(bullet=strategy("refund " * 5, tool)) for tool in "abcdef")
        shown = book.retrieve("refund", k=6)
        from ace.playbook.render import count_tokens, render_bullets

        assert 0 < len(shown) < 6
        assert count_tokens(render_bullets(shown)) <= 40


def test_pinned_bullets_come_first_in_id_order(book):
    book.commit(Add(bullet=strategy(f"refund {c * 4}", c)) for c in "xyz")
    book.commit([Promote(bullet_id="b-3", stage="pinned"), Promote(bullet_id="b-2", stage="pinned")])
    assert [b.id for b in book.retrieve("refund xxxx")] == ["b-2", "b-3", "b-1"]


def test_odd_queries_and_an_empty_book(book):
    assert book.retrieve("anything") == []
    book.commit([Add(bullet=strategy("\ud800 ...", "a")), Add(bullet=strategy("???", "b"))])
    assert len(book.retrieve("\udfff x ???")) == 2
    assert book.retrieve("\udfff ???") == book.retrieve("", k=1) == [], "what says nothing finds nothing"
    assert book.retrieve("x", k=0) == []


def test_the_guard_holds_however_many_tasks_a_bullet_rests_on(book):
    book.commit([Add(bullet=strategy("refund", "a"))])
    book.commit(Merge(bullet_id="b-1", provenance=Provenance(task_ids=(f"t{n}",))) for n in range(120))
    for guard in (("t5",), ("t119",), ["t119"], "t119"):
        assert book.retrieve("refund", filters=Filters(exclude_tasks=guard)) == []
    assert book.retrieve("refund", filters=Filters(exclude_tasks=("t120",)))


def test_a_bullet_that_is_too_long_costs_no_slot(tmp_path, embedder):
    with Playbook.open(tmp_path / "b.db", embedder=embedder, prompt_budget=120) as book:
        giant = strategy("refund", "giant").model_copy(update={"content": "word " * 2_000})
        book.commit([Add(bullet=giant), *(Add(bullet=strategy("refund", tool)) for tool in "abc")])
        assert {b.key[0] for b in book.retrieve("refund", k=3)} == {"a", "b", "c"}


def test_a_tool_that_went_hides_its_bullets(book):
    book.commit([Add(bullet=bullet(tool_schema_hashes={"refund": "1"}))])
    assert book.retrieve("order", filters=Filters(tools={"other": "2"})) == []
    assert len(book.retrieve("order", filters=Filters(tools={"refund": "1"}))) == 1


def test_advice_that_names_no_tool_fills_the_slots(book):
    book.commit([Add(bullet=bullet(f"advice {n}")) for n in range(5)])
    book.commit([Add(bullet=bullet("advice", tool_sequence=("a",), changing_tools=("a",))) for _ in range(2)])
    found = book.retrieve("advice", k=4)
    assert len(found) == 4
    assert sum(bool(b.changing_tools) for b in found) == 1, "one per sequence"
    why = book.explain("advice", k=4)
    assert list(why.bullets) == list(found)


def test_what_is_hidden_while_a_task_waits_does_not_come(book, monkeypatch):
    book.commit([Add(bullet=bullet())])
    real = type(book._state.index).query_vector

    def slow(self, *args):
        found = real(self, *args)
        book.commit([Promote(bullet_id="b-1", stage="retired")])
        return found

    monkeypatch.setattr(type(book._state.index), "query_vector", slow)
    assert book.retrieve("order") == []


def test_wrong_probabilities_are_refused(book):
    for wrong in ({"holdout": -0.1}, {"holdout": 1.5}):
        with pytest.raises(ValueError, match="expected a probability"):
            Experiment(**wrong)
    for percent in (60, 60.0):
        with pytest.raises(ValueError, match="0 to 1"):
            book.maintenance.prune(percent)
    with pytest.raises(ValueError, match="cache_size"):
        opened("unused.db", cache_size=0)


def test_pinned_lessons_of_the_scope_come_first_whatever_is_asked(book):
    """Near or not; those of another domain, tenant or guard do not."""
    for n in range(3):
        book.add(section="Strategies", trigger=f"Refund the order {n}", content="x", changing_tools=(f"t{n}",))
    far = book.add(section="Pitfalls", content="Greet in the language of the guest.", stage="pinned")
    other = book.add(section="Pitfalls", content="Count the cash.", stage="pinned", domain="bank")
    theirs = book.add(section="Pitfalls", content="Bow.", stage="pinned", tenant="t-2")
    assert [b.id for b in book.retrieve("Refund the order 0", "shop")] == [far.id, "b-1", "b-2"]
    assert [b.id for b in book.retrieve("Refund the order 0", "bank")][:2] == [far.id, other.id]
    assert theirs.id in [b.id for b in book.retrieve("Refund", "shop", tenant="t-2")]
    assert far.id not in [b.id for b in book.retrieve("Refund", "shop", Filters(sections=("Strategies",)))]
    found = book.explain("Refund the order 0", "shop")
    assert [b.id for b in found.bullets] == [far.id, "b-1", "b-2"]
    assert "pinned" in found.reasons[0].why


def test_among_pinned_lessons_the_nearest_have_the_slots(book):
    for text in ("Count the cash.", "Refund the order first.", "Bow.", "Wave."):
        book.add(section="Pitfalls", content=text, stage="pinned")
    found = [b.content for b in book.retrieve("Refund the order first.", k=2)]
    assert "Refund the order first." in found
    assert len(found) == 2


def test_equal_lessons_are_ranked_by_iterations_then_by_calls_that_succeeded(book):
    rows = [("a", 9.0, 1.0), ("b", 3.0, 0.5), ("c", 3.0, 0.9), ("d", None, None), ("e", 3.0, None)]
    for tool, iterations, rate in rows:
        fields = {"avg_iterations": iterations, "tool_success_rate": rate}
        book.add(section="Strategies", trigger="Refund the order", content=tool, changing_tools=(tool,), **fields)
    assert [b.content for b in book.retrieve("Refund the order", k=5)] == ["c", "b", "e", "a", "d"]


def test_a_view_of_a_named_run_draws_as_that_run_does_and_others_draw_anew(book):
    filled(book, "refund order one", "cancel order two", "return order three")
    named, free = Experiment(holdout=0.5, run="r3"), Experiment(holdout=0.5)
    task = TaskInput(task_id="t", inputs={"task": "Refund order 1"})
    direct = [b.id for b in book.retrieve(task.text, experiment=named)]
    view = book.view(experiment=named)
    assert [[b.id for b in view.retrieve_for(task, {})] for _ in range(5)] == [direct] * 5
    view = book.view(experiment=free)
    assert len({tuple(b.id for b in view.retrieve_for(task, {})) for _ in range(20)}) > 1


def test_a_view_is_warmed_up_with_its_book(tmp_path):
    class Warm:
        name, warmed = "toy", 0

        def embed(self, texts):
            return [[float(len(text)), 1.0] for text in texts]

        def warm(self):
            self.warmed += 1

    embedder = Warm()
    with Playbook(embedder=embedder) as book:
        book.warm()
        book.view().warm()
        assert embedder.warmed == 2
    with Playbook(embedder=CallableEmbedder("plain", embedder.embed)) as book:
        book.warm()
        book.view().warm()


def test_without_an_experiment_every_slot_is_filled_and_none_is_random(embedder):
    with Playbook(embedder=embedder) as book:
        for n in range(4):
            book.add(section="Strategies", trigger="Refund", content=f"way {n}", changing_tools=(str(n),))
        found = book.retrieve("Refund", k=2)
        assert (len(found), found.randomized, found.held_back_at_random) == (2, (), ())
        assert book.retrieve("Refund", k=0) == []


def test_nothing_comes_when_nothing_fits():
    with Playbook() as book:
        book.add(section="Strategies", trigger="Refund an order", content="Find it.", tool_sequence=("refund",))
        book.add(section="Strategies", trigger="Cancel a meeting", content="Find it.", tool_sequence=("cancel",))
        assert book.retrieve("Please refund my order")[0].id == "b-1"
        for nothing in ("Write a haiku about autumn", "How tall is Mont Blanc?", "hi", "", "???"):
            assert not book.retrieve(nothing)
        why = book.explain("Write a haiku about autumn").reasons
        assert {reason.chosen for reason in why} == {False}
        assert all("no lesson is near enough" in reason.why for reason in why)
        book.commit([Promote(bullet_id="b-2", stage="pinned")])
        assert [b.id for b in book.retrieve("Write a haiku about autumn")] == ["b-2"], (
            "a pinned one comes whatever is asked"
        )
        assert not book.retrieve("")
    with Playbook(least_similarity=0) as book:
        book.add(section="Strategies", trigger="Refund an order", content="Find it.", tool_sequence=("refund",))
        assert book.retrieve("Write a haiku about autumn")
    with pytest.raises(ValueError, match="least_similarity is 3"):
        Playbook(least_similarity=3)


def test_nothing_comes_where_the_calls_of_all_lessons_that_fit_have_failed_in_a_nearer_situation():
    cancels = {"tool_sequence": ("find", "cancel"), "changing_tools": ("cancel",)}
    asked = "Ship the order to somebody else instead"
    with Playbook() as book:
        book.add(section="Strategies", trigger="Cancel the open order", content="Find, then cancel it.", **cancels)
        assert [b.id for b in book.retrieve(asked)] == ["b-1"], "as near as anything, and nothing speaks against it"
        book.add(
            section="Pitfalls", trigger="Ship the order to another customer instead", content="This failed.", **cancels
        )
        assert book.retrieve(asked) == []
        assert {reason.why for reason in book.explain(asked).reasons} == {
            "the calls of all lessons that fit are known to fail in a situation nearer to this request"
        }
        assert [b.id for b in book.retrieve("Cancel the open order, please")] == ["b-1", "b-2"], "it fits as before"
        other = book.add(
            section="Strategies", trigger="Ship an order", content="Change it.", changing_tools=("update",)
        )
        assert [b.id for b in book.retrieve(asked, k=2)] == [other.id, "b-1"], "one may be right: all of them stay"
        book.commit([Remove(bullet_id=other.id), Promote(bullet_id="b-1", stage="pinned")])
        assert [b.id for b in book.retrieve(asked)] == ["b-1"], "a pinned one comes whatever is known"


def test_an_answer_that_was_looked_for_in_an_empty_book_is_not_kept_for_the_first_lesson(book, monkeypatch):
    real = type(book._state.index).query_vector

    def slow(self, *args):
        found = real(self, *args)
        if not len(book):
            book.commit([Add(bullet=bullet())])
        return found

    monkeypatch.setattr(type(book._state.index), "query_vector", slow)
    book.retrieve("order")
    assert [b.id for b in book.retrieve("order")] == ["b-1"]
