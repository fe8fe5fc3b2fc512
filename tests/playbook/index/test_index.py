"""The index of a playbook: made, followed, made again."""

from playbook_kit import bullets, strategy

from ace.playbook import (
    Add,
    CallableEmbedder,
    Playbook,
    PlaybookBullet,
    Remove,
    Update,
)
from ace.playbook.bullet import readable
from ace.playbook.index import lexical
from ace.playbook.plan import Call, Plan, Situation


def test_a_change_of_embedder_embeds_again_and_mixes_nothing(tmp_path, embedder):
    path = tmp_path / "b.db"
    with Playbook.open(path, embedder=embedder) as book:
        book.commit(bullets(100))
        book.retrieve("task")
    other = CallableEmbedder("other", lambda texts: [[len(t) % 7 + 1, t.count("x") + 1.0, 1.0] for t in texts])
    with Playbook.open(path, embedder=other) as book, Playbook.open(path, embedder=other) as fresh:
        assert book.explain("task xxxx 3").reasons[0].cosine is not None
        assert [b.id for b in book.retrieve("task xxxx 3")] == [b.id for b in fresh.retrieve("task xxxx 3")]
        assert book.maintenance.gc() > 0  # the first embedder's vectors


def test_changed_and_removed_texts_leave_the_index(book):
    book.commit([Add(bullet=strategy("aaaa", "a")), Add(bullet=strategy("bbbb", "b"))])
    assert book.retrieve("aaaa", k=1)[0].id == "b-1"
    book.commit(
        [Update(bullet_id="b-1", changes={"trigger": "zzzz"}), Update(bullet_id="b-2", changes={"trigger": "aaaa"})]
    )
    assert book.retrieve("aaaa", k=1)[0].id == "b-2"
    book.commit([Remove(bullet_id="b-2")])
    assert [b.id for b in book.retrieve("aaaa")] == ["b-1"]


def test_vectors_are_computed_once(tmp_path):
    seen = []

    def embed(texts):
        seen.extend(texts)
        return [[len(t), 1.0] for t in texts]

    for _ in range(2):
        with Playbook.open(tmp_path / "v.db", embedder=CallableEmbedder("n", embed)) as book:
            if not len(book):
                book.commit([Add(bullet=strategy("one", "a")), Add(bullet=strategy("two", "b"))])
            book.retrieve("query")
    assert sorted(seen) == ["one", "query", "query", "two"]


def test_a_lesson_that_lost_wordings_is_searched_by_those_that_it_has(book):
    wordings = tuple(Situation(template=f"{word} the order") for word in ("refund", "cancel", "return"))
    plan = Plan(calls=(Call(tool="refund", changes=True),))
    book.commit([Add(bullet=PlaybookBullet(section="Strategies", **readable(plan, wordings)))])
    index = book._state.index
    book.retrieve("refund the order")
    assert (len(index._lexical), len(index._dense)) == (3, 3)
    for left in (2, 1):
        kept = [one.model_dump() for one in wordings[:left]]
        book.commit([Update(bullet_id="b-1", changes={"situations": kept})])
        book.retrieve("refund the order")
        assert (len(index._lexical), len(index._dense)) == (left, left)


def test_lessons_behind_many_nearer_ones_that_may_not_come_are_found(book):
    """Further than either ranking looks at first."""
    others = [Add(bullet=strategy("refund the order", f"t{n}", domain="bank")) for n in range(400)]
    book.commit([*others, Add(bullet=strategy("refund", "far", domain="shop"))])
    assert [b.id for b in book.retrieve("refund the order", "shop", k=1)] == ["b-401"]
    assert [s.number for s in candidates(book, "refund the order", lambda number: number > 390)] == [*range(391, 402)]


def candidates(book, text, allow):
    index = book._state.index
    index.query_vector(query := index.asked(text))
    return sorted(index.candidates(query, index.query_vector(query), allow))


def test_a_lesson_that_has_left_a_large_book_is_no_candidate_before_the_words_are_weighed_again(book, monkeypatch):
    monkeypatch.setattr(lexical, "MANY", 10)
    monkeypatch.setattr(lexical, "OUTDATED_SHARE", 0.5)
    book.commit([Add(bullet=strategy(f"task number {n}", f"t{n}")) for n in range(30)])
    book.add(section="Strategies", trigger="unicorn", content="x")
    assert [b.id for b in book.retrieve("unicorn", k=1)] == ["b-31"]
    book.commit([Remove(bullet_id="b-31")])
    assert "b-31" not in [b.id for b in book.retrieve("unicorn")]
    assert all(reason.bullet.id != "b-31" for reason in book.explain("unicorn").reasons)
    assert book._state.index.similar("unicorn", "Strategies")


def test_a_few_lessons_among_very_many_are_found_by_a_search_of_these_alone(book):
    others = [Add(bullet=strategy("refund the order", f"t{n}", domain="bank")) for n in range(1_700)]
    book.commit([*others, Add(bullet=strategy("refund", "far", domain="shop"))])
    assert [b.id for b in book.retrieve("refund the order", "shop", k=1)] == ["b-1701"]
    assert [s.number for s in candidates(book, "refund the order", lambda number: number > 1_699)] == [1_700, 1_701]
    assert candidates(book, "refund the order", lambda number: False) == []
